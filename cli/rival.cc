#include "cli/rival.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "cli/json.h"

namespace convgrad::cli {
namespace {

constexpr int64_t kMostPairs = 30;
// Of the time for one measurement: processes also start, read their operands and verify.
constexpr double kMaxStretch = 10;

[[noreturn]] void ThrowFailed(const std::string& binary, const std::string& why) {
  ThrowIo("baseline-bin/failed", binary, why, "give another convgrad that has 'bench'");
}

// A process of ours; ended with it.
class Child {
 public:
  explicit Child(std::vector<std::string> command) {
    const std::string& binary = command.front();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) ThrowSystemError(binary, "started", errno);
    output_ = FileDescriptor(ends[0]);
    const FileDescriptor write_end(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const int error = posix_spawn(&pid_, binary.c_str(), &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) ThrowSystemError(binary, "started", error);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    Wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // All that it prints. Throws Stopped when this process is asked to end.
  std::string ReadAll() {
    std::string text;
    char buffer[1 << 14];
    for (;;) {
      const ssize_t got = read(output_.get(), buffer, sizeof(buffer));
      if (got == 0) return text;
      if (got > 0) {
        text.append(buffer, static_cast<size_t>(got));
      } else if (errno == EINTR) {
        RetryUnlessStopped();
      } else {
        ThrowSystemError("its output", "read", errno);
      }
    }
  }

  // Its exit code, or 128 + the signal that ended it.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  FileDescriptor output_;
  pid_t pid_ = 0;
};

struct OneRun {
  double median_ms = 0;
  std::string hash;
};

OneRun RunOnce(const std::vector<std::string>& command) {
  const std::string& binary = command.front();
  Child child(command);
  const std::string text = child.ReadAll();
  const int code = child.Wait();
  if (StopRequested()) throw Stopped{};
  if (code != 0) ThrowFailed(binary, fmt::format("ended with exit code {}", code));
  try {
    const Json entry = ParseJson(text).at("benchmarks").at(0);
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
