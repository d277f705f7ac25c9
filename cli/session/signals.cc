#include "cli/session/signals.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>

#include "base/parallel.h"
#include "base/temporary_file.h"

namespace convgrad::cli {
namespace {

std::atomic<int> caught_signal{0};

extern "C" void OnSignal(int signal) {
  const int earlier = caught_signal.exchange(signal);
  if (earlier == 0) {
    RequestStop();
    return;
  }
  // The system repeats this one with every second that the end takes.
  if (signal == SIGXCPU && earlier == SIGXCPU) return;
  RemoveTemporaryFiles();
  _exit(128 + signal);
}

}  // namespace

void InstallSignalHandlers() {
  // Where the parent had it ignored, nobody could ask how a worker ended.
  std::signal(SIGCHLD, SIG_DFL);
  for (const int signal : kEndingSignals) {
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
  prctl(PR_SET_DUMPABLE, 0);  // some signals would leave a core file of what ends in order
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
