#include "cli/batch/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"
#include "base/temporary_file.h"
#include "cli/batch/channel.h"
#include "cli/batch/worker_main.h"
#include "cli/batch/worker_messages.h"
#include "cli/record/pending.h"
#include "cli/session/session.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;
// A worker ends late cases itself; one that does not in this time more is killed.
constexpr std::chrono::milliseconds kGrace(1000);
// For a process to end after it was told to; then it is killed, and then left alone.
constexpr std::chrono::milliseconds kPatience(2000);
constexpr std::chrono::microseconds kEndDelay(100);
// A signal to all processes may reach a worker first.
constexpr std::chrono::milliseconds kSignalDelay(200);

constexpr const char* kCode = "case/crashed";
constexpr const char* kWhat = "the process of the case";
constexpr const char* kReport = "please report it with the command that repeats it";

// Which signals blame the program, and not the machine or whoever sent them.
bool IsCrash(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGILL ||
         signal == SIGFPE || signal == SIGTRAP || signal == SIGSYS;
}

// Its end of the socket was closed, in good order or not, before its answer came.
Error LostError(const std::string& why) {
  return Error(ExitCode::kIo, "case/connection-lost", kWhat, why,
               "run it again; if it happens again, report it with the command that repeats it");
}

Error CrashError(int status) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == 0) return LostError("ended before it answered");
    const std::string why = fmt::format("ended with exit code {}", code);
    // A worker says on standard error what it can't do.
    if (code == static_cast<int>(ExitCode::kIo)) {
      return Error(ExitCode::kIo, kCode, kWhat, why, "see its message, and run it again");
    }
    return Error(ExitCode::kInternal, kCode, kWhat, why, kReport);
  }
  const int signal = WTERMSIG(status);
  const std::string why = fmt::format("ended by signal {} (SIG{})", signal, sigabbrev_np(signal));
  if (IsCrash(signal)) return Error(ExitCode::kInternal, kCode, kWhat, why, kReport);
  return Error(ExitCode::kIo, kCode, kWhat, why,
               signal == SIGKILL
                   ? "if memory ran out, as the kernel's log then says, give --jobs 1 "
                     "or a lower --max-memory"
                   : "run it again");
}

}  // namespace

class Worker::Process {
 public:
  explicit Process(const std::vector<std::string>& words) {
    auto [ours, theirs] = MakeSocketPair();
    channel_.emplace(std::move(ours));
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 2);
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.insert(arguments.begin() + 1, const_cast<char*>(kWorkerWord));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const int error =
        posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) ThrowSystemError("a worker process", "started", error);
  }
  ~Process() {
    if (pid_ == 0) return;
    AskToEnd();
    if (!Wait()) Kill();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  Channel& channel() { return *channel_; }
  pid_t pid() const { return pid_; }

  void AskToEnd() const {
    channel_->EndSending();
    kill(pid_, SIGTERM);
  }

  // The status in which it ended; none if it didn't in time.
  std::optional<int> Wait() {
    const Clock::time_point end = Clock::now() + kPatience;
    if (!channel_->WaitForEnd(kPatience)) return std::nullopt;
    // Its socket is closed a moment before it has ended, or by a process that does not end.
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) != pid_) {
      if (Clock::now() > end) return std::nullopt;
      std::this_thread::sleep_for(kEndDelay);
    }
    pid_ = 0;
    return status;
  }

  void Kill() {
    kill(pid_, SIGKILL);
    Wait();
  }

 private:
  std::optional<Channel> channel_;
  pid_t pid_ = 0;
};

// The messages about one case.
class Worker::Conversation {
 public:
  Conversation(Channel& channel, const std::optional<double>& timeout)
      : channel_(channel), has_deadline_(timeout.has_value()), deadline_(Clock::now() + kGrace) {
    if (timeout) {
      deadline_ +=
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*timeout));
    }
  }

  // None where the worker ended, is late, can't be reached or says what makes no sense.
  std::optional<CaseEnding> Hold(const CaseJob& job, Turns& turns) try {
    const Channel::Idle idle = [this] { CheckDeadline(); };
    if (!channel_.Send(WriteJob(job), idle)) return std::nullopt;
    std::unique_ptr<ScopedTurn> turn;
    while (const std::optional<Message> message = channel_.Receive(idle)) {
      const std::string& word = message->front();
      if (word == kEndWord) return ReadEnding(*message);
      turn.reset();
      if (word == kLeaveWord) continue;
      std::optional<TurnRequest> request = ReadTurnRequest(*message);
      if (!request) break;
      planned_ = std::move(request->entry);
      const Clock::time_point asked = Clock::now();
      turn = std::make_unique<ScopedTurn>(turns, CaseRecord(), request->alone);
      deadline_ += Clock::now() - asked;
      if (!channel_.Send({kGoWord}, idle)) break;
    }
    return std::nullopt;
  } catch (const Late&) {
    is_late_ = true;
    return std::nullopt;
  } catch (const Error& error) {
    failure_ = error;
    return std::nullopt;
  }

  const std::string& planned() const { return planned_; }
  bool is_late() const { return is_late_; }
  // The channel's error, if it failed.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  struct Late {};

  void CheckDeadline() const {
    if (has_deadline_ && Clock::now() > deadline_) throw Late{};
  }

  Channel& channel_;
  const bool has_deadline_;
  Deadline deadline_;
  std::string planned_;  // the case's entry before it computes
  bool is_late_ = false;
  std::optional<Error> failure_;
};

Worker::Worker(const std::vector<std::string>& words, const BatchOptions& options,
               const CaseRunner& runner)
    : options_(options), runner_(runner), process_(std::make_unique<Process>(words)) {}

Worker::~Worker() = default;

void Worker::AskToEnd() const {
  process_->AskToEnd();
}

CaseEnding Worker::Run(const CaseJob& job, Turns& turns) {
  Conversation conversation(process_->channel(), options_.timeout);
  if (auto ending = conversation.Hold(job, turns)) return std::move(*ending);
  return Bury(job, conversation);
}

CaseEnding Worker::Bury(const CaseJob& job, const Conversation& conversation) {
  const std::unique_ptr<Process> process = std::move(process_);
  const int pid = process->pid();
  const bool has_ended = !conversation.is_late() && !conversation.failure();
  const std::optional<int> status = has_ended ? process->Wait() : std::nullopt;
  if (!status) process->Kill();
  if (status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGTERM) {
    const Clock::time_point end = Clock::now() + kSignalDelay;
    while (Clock::now() < end) {
      RetryUnlessStopped();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  RemoveTemporaryFiles(pid, job);
  CaseRecord entry = runner_.BeginEntry(job);
  if (conversation.is_late()) {
    RecordError(entry, TimeoutError(*options_.timeout));
  } else if (conversation.failure()) {
    RecordError(entry, *conversation.failure());
  } else if (status) {
    RecordError(entry, CrashError(*status));
  } else {
    RecordError(entry, LostError("closed its connection, but did not end"));
  }
  CaseEnding ending = runner_.EndingOf(entry);
  if (!conversation.planned().empty() && !ending.text.empty()) {
    ending.text = WithEnding(conversation.planned(), ending.text);
  }
  return ending;
}

// A killed process leaves what it was writing.
void Worker::RemoveTemporaryFiles(int pid, const CaseJob& job) const {
  const CaseSpec spec = ParseCase(job.request);
  const auto clean = [pid](const std::string& path) {
    RemoveTemporaryFilesOf(pid, SplitPath(FollowLinks(path)).first);
  };
  if (job.part) clean(job.part->path);
  if (spec.output) clean(*spec.output);
  if (!spec.NamesGoldenFile()) return;
  if (options_.record) clean(*spec.expect);
  if (options_.pending) clean(PendingPath(*options_.pending, spec.golden_name));
}

}  // namespace convgrad::cli
