#include "cli/session/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/parallel.h"
#include "base/temporary_file.h"

namespace convgrad::cli {
namespace {

std::atomic<int> caught_signal{0};

extern "C" void OnSignal(int signal) {
  if (caught_signal.exchange(signal) == 0) {
    RequestStop();
    return;
  }
  RemoveTemporaryFiles();
  _exit(128 + signal);
}

}  // namespace

void InstallSignalHandlers() {
  // Where the parent had it ignored, nobody could ask how a worker ended.
  std::signal(SIGCHLD, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction old = {};
    if (sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = OnSignal;  // without SA_RESTART: a waiting read must hear of it
    sigaction(signal, &action, nullptr);
  }
}

int CaughtSignal() {
  return caught_signal.load();
}

void EndBySignal(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
  _exit(128 + signal);
}

}  // namespace convgrad::cli
