#include "cli/batch/worker_main.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "base/parallel.h"
#include "cli/batch/batch_case.h"
#include "cli/batch/batch_options.h"
#include "cli/batch/channel.h"
#include "cli/batch/worker_messages.h"
#include "cli/console/console.h"
#include "cli/options/arguments.h"
#include "cli/session/session.h"
#include "cli/session/signals.h"

namespace convgrad::cli {
namespace {

// Added to what the kernel's memory killer counts: a case shall go before the batch does.
constexpr std::string_view kKilledRather = "500";

void OfferToMemoryKiller() {
  const FileDescriptor file(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) return;
  // Where that is not allowed, the batch itself may be chosen.
  [[maybe_unused]] const ssize_t done =
      write(file.get(), kKilledRather.data(), kKilledRather.size());
}

// A signal that a terminal or a job scheduler sends to all its processes is for the batch, which
// then ends its workers. A batch that is killed ends them too. A limit on processors' time is each
// process' own.
void LiveAndDieWithBatch() {
  for (const int signal : kEndingSignals) {
    if (signal != SIGTERM && signal != SIGXCPU) std::signal(signal, SIG_IGN);
  }
  InstallSignalHandlers();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  OfferToMemoryKiller();
}

// Asks the batch for turns.
class RemoteTurns final : public Turns {
 public:
  RemoteTurns(Channel& channel, bool has_entries) : channel_(channel), has_entries_(has_entries) {}

  void Enter(const CaseRecord& planned, bool alone) override {
    const ScopedDeadline patient(nullptr);
    const std::string entry = has_entries_ ? RenderEntry(planned) : "";
    if (channel_.Send(WriteTurnRequest({alone, entry})) && channel_.Receive()) return;
    RequestStop();  // the batch is gone
    throw Stopped{};
  }
  void Leave() override { channel_.Send({kLeaveWord}); }

 private:
  Channel& channel_;
  const bool has_entries_;
};

void RunCases(const Arguments& arguments, const Console& console) {
  const BatchOptions options = ParseBatchOptions(arguments);
  const CaseRunner runner(arguments.program(), options, console);
  FileDescriptor socket(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!socket.is_open()) ThrowSystemError("the socket to the batch", "used", errno);
  Channel channel(std::move(socket));
  RemoteTurns turns(channel, options.has_entries);
  close(STDIN_FILENO);
  while (const std::optional<Message> message = channel.Receive()) {
    const std::optional<CaseJob> job = ReadJob(*message);
    if (!job || !channel.Send(WriteEnding(runner.Run(*job, turns)))) return;
  }
}

}  // namespace

bool IsWorker(const std::vector<std::string>& words) {
  struct stat status;
  return words.size() > 1 && words[1] == kWorkerWord && fstat(STDIN_FILENO, &status) == 0 &&
         S_ISSOCK(status.st_mode);
}

int RunWorker(std::vector<std::string> words) {
  LiveAndDieWithBatch();
  words.erase(words.begin() + 1);
  const Arguments arguments(std::move(words));
  const Console console = Console(arguments).WithoutProgress();
  try {
    RunCases(arguments, console);
    return 0;
  } catch (const Stopped&) {
    EndBySignal(CaughtSignal() != 0 ? CaughtSignal() : SIGTERM);
  } catch (const std::exception& exception) {
    const Error error = Translate(exception);
    console.Fail(error);
    return static_cast<int>(error.exit_code());
  }
}

}  // namespace convgrad::cli
