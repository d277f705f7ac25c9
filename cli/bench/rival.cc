#include "cli/bench/rival.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr int64_t kMostPairs = 30;
// A pair may take so many times one measurement: processes also start, read and verify.
constexpr double kMaxStretch = 10;
// A binary may print so much; the report of one case has some 5 KiB.
constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kMostSaid = 300;  // of its words that ours repeat

[[noreturn]] void ThrowFailed(const std::string& binary, const std::string& why) {
  ThrowIo("baseline-bin/failed", binary, why, "give another convgrad that has 'bench'");
}

struct Pipe {
  FileDescriptor read_end, write_end;
};

Pipe OpenPipe(const std::string& binary) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) ThrowSystemError(binary, "started", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// A process of ours, with nothing to read; ended with it.
class Child {
 public:
  explicit Child(std::vector<std::string> command) : binary_(command.front()) {
    Pipe output = OpenPipe(binary_), messages = OpenPipe(binary_);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output.write_end.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, messages.write_end.get(), STDERR_FILENO);
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const int error = posix_spawn(&pid_, binary_.c_str(), &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) ThrowSystemError(binary_, "started", error);
    streams_ = {std::move(output.read_end), std::move(messages.read_end)};
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);  // it has no file open for writing
    Wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  struct Printed {
    std::string output, messages;
  };
  // All that it prints. Throws Stopped when this process is asked to end.
  Printed ReadAll() {
    Printed printed;
    pollfd requests[] = {{streams_[0].get(), POLLIN, 0}, {streams_[1].get(), POLLIN, 0}};
    std::string* const texts[] = {&printed.output, &printed.messages};
    while (requests[0].fd >= 0 || requests[1].fd >= 0) {
      if (poll(requests, 2, -1) < 0) {
        if (errno != EINTR) ThrowSystemError(binary_, "read", errno);
        RetryUnlessStopped();
        continue;
      }
      for (int i = 0; i < 2; ++i) {
        // poll() passes over what is below 0.
        if (requests[i].revents != 0 && !ReadSome(streams_[i], *texts[i])) requests[i].fd = -1;
      }
    }
    return printed;
  }

  // Its exit code, or 128 + the signal that ended it.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  // False at its end.
  bool ReadSome(const FileDescriptor& stream, std::string& text) const {
    char buffer[1 << 14];
    const ssize_t got = read(stream.get(), buffer, sizeof(buffer));
    if (got < 0) {
      if (errno != EINTR) ThrowSystemError(binary_, "read", errno);
      RetryUnlessStopped();
      return true;
    }
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMostBytes) ThrowFailed(binary_, "prints without end");
    return got > 0;
  }

  std::string binary_;
  std::array<FileDescriptor, 2> streams_;  // of its standard output and standard error
  pid_t pid_ = 0;
};

struct OneRun {
  double median_ms = 0;
  std::string hash;
};

OneRun RunOnce(const std::vector<std::string>& command) {
  const std::string& binary = command.front();
  Child child(command);
  const Child::Printed printed = child.ReadAll();
  const int code = child.Wait();
  if (StopRequested()) throw Stopped{};
  if (code != 0) {
    const std::string said = printed.messages.substr(0, printed.messages.find('\n'));
    ThrowFailed(binary, fmt::format("ended with exit code {}{}{}", code,
                                    said.empty() ? "" : ", saying: ", said.substr(0, kMostSaid)));
  }
  try {
    const Json entry = ParseJson(printed.output).at("benchmarks").at(0);
    const double median = entry.at("timing").at("median").get<double>();
    if (!(median > 0)) ThrowFailed(binary, "reported a median that is no time");
    return {median, entry.at("output").value("sha256", "")};
  } catch (const Json::exception&) {
    ThrowFailed(binary, "wrote no report of a benchmark");
  }
}

}  // namespace

ComparisonRecord CompareWithBinary(const std::string& binary, const BenchCommand& command,
                                   const SamplingOptions& sampling, double tolerance) {
  const std::string own = fmt::format("/proc/{}/exe", getpid());  // even if its file was replaced
  const double seconds = sampling.max_seconds / static_cast<double>(2 * kLeastSamples);
  std::vector<double> now, before;
  ComparisonRecord record;
  record.against = binary;
  record.tolerance = tolerance;
  const auto now_seconds = SystemClock().wall;
  const double deadline = now_seconds() + kMaxStretch * sampling.max_seconds;
  for (bool ours_first = true;; ours_first = !ours_first) {
    OneRun ours, theirs;
    if (ours_first) ours = RunOnce(command(own, seconds));
    theirs = RunOnce(command(binary, seconds));
    if (!ours_first) ours = RunOnce(command(own, seconds));
    now.push_back(ours.median_ms);
    before.push_back(theirs.median_ms);
    if (now.size() == 1 && ours.hash != theirs.hash) {
      record.notes.emplace_back("the two results differ in their bits");
    }
    if (static_cast<int64_t>(now.size()) < kLeastSamples) continue;
    // Not until the verdict is clear: whoever looks often enough sees what he wants.
    record.comparison = ComparePairs(now, before, tolerance);
    const Interval& ci = *record.comparison.ci;
    const bool is_narrow = ci.high - ci.low <= std::max(tolerance, sampling.target_width);
    const bool is_late =
        static_cast<int64_t>(now.size()) >= kMostPairs || now_seconds() >= deadline;
    if (is_narrow || is_late) break;
  }
  record.pairs = static_cast<int64_t>(now.size());
  record.before_ms = Summarize(before).median;
  return record;
}

}  // namespace convgrad::cli
