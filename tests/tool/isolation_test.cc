// `batch --timeout` and `batch --isolate` end to end: what a case costs that hangs, crashes or is
// killed, what of the batch it ran in, and that nothing is left behind.
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "support/batch_testing.h"

namespace convgrad::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr milliseconds kMostWaiting{60'000};

bool Becomes(const std::function<bool()>& is_true) {
  const auto end = std::chrono::steady_clock::now() + kMostWaiting;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

struct ProcessState {
  char state = 'X';  // 'Z': it has ended, and nobody has asked how; 'X': there is none
  pid_t parent = 0;
  double cpu_seconds = 0;
};

ProcessState StateOf(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  std::getline(file, text);
  ProcessState found;
  const size_t after_name = text.rfind(") ");
  if (after_name == std::string::npos) return found;
  std::istringstream fields(text.substr(after_name + 2));
  fields >> found.state >> found.parent;
  std::string skipped;
  for (int i = 0; i < 9; ++i) fields >> skipped;
  int64_t user_ticks = 0, system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  found.cpu_seconds =
      static_cast<double>(user_ticks + system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return found;
}

bool HasEnded(pid_t process) {
  const char state = StateOf(std::to_string(process)).state;
  return state == 'X' || state == 'Z';
}

// The processes that `parent` started and that have not ended.
std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    const ProcessState found = StateOf(name);
    if (found.parent == parent && found.state != 'Z') children.push_back(std::stoi(name));
  }
  return children;
}

class IsolationTest : public BatchTest {
 protected:
  // One case that finishes at once, one that doesn't, and one behind it.
  void WriteLong() const {
    WriteManifest({With(Filled("quick"), {{"output", "quick.npy"}}),
                   With(Long("long"), {{"output", "there/long.npy"}}),
                   With(Filled("after"), {{"output", "after.npy"}})});
    std::filesystem::create_directories(Path("there"));
    WriteBytes(Path("there/long.npy"), "old");
  }

  // Also where no later case writes.
  void ExpectNoTemporaryFiles() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path(""))) {
      EXPECT_THAT(entry.path().string(), Not(HasSubstr(".tmp-")));
    }
  }

  pid_t StartBatch(std::vector<std::string> flags) const {
    const std::vector<std::string> common = {"batch",    "m.json",  "--report", "r.json",
                                             "--events", "e.jsonl", "--quiet"};
    flags.insert(flags.begin(), common.begin(), common.end());
    return Start(flags);
  }

  // The process that computes the long case.
  pid_t BusyWorkerOf(pid_t batch) const {
    EXPECT_TRUE(Becomes([&] { return Exists("e.jsonl") && !Events().empty(); }));
    const std::vector<pid_t> workers = ChildrenOf(batch);
    if (workers.size() != 1) throw std::runtime_error("not one worker");
    const std::string worker = std::to_string(workers.front());
    // All but computing takes it much less.
    const double busy = StateOf(worker).cpu_seconds + 0.2;
    EXPECT_TRUE(Becomes([&] { return StateOf(worker).cpu_seconds >= busy; }));
    return workers.front();
  }

  // The report of a run of WriteLong()'s manifest in which only the long case went wrong.
  json LongEntry() const {
    const json report = Report();
    const std::map<std::string, json> entries = ByName(report);
    EXPECT_EQ(entries.size(), 3);
    for (const char* name : {"quick", "after"}) {
      EXPECT_EQ(entries.at(name)["status"], "COMPUTED");
      EXPECT_TRUE(Exists(std::string(name) + ".npy"));
    }
    EXPECT_EQ(ReadBytes(Path("there/long.npy")), "old");
    ExpectNoTemporaryFiles();
    return entries.at("long");
  }
};

TEST_F(IsolationTest, ATimeoutCostsOneCase) {
  for (const char* flags : {"", " --isolate", " --jobs 3 --threads 2"}) {
    WriteLong();
    const ShellResult result =
        Sh(std::string("convgrad batch m.json --report r.json --timeout 3s") + flags);
    EXPECT_EQ(result.exit_code, 4) << flags;
    EXPECT_THAT(result.out,
                HasSubstr("TIMEOUT  long\n  reason   --timeout 3s: the case took longer"));
    EXPECT_THAT(result.out, HasSubstr("3 cases, 2 COMPUTED, 1 TIMEOUT"));
    const json entry = LongEntry();
    EXPECT_EQ(entry["status"], "TIMEOUT");
    EXPECT_EQ(entry["exit_code"], 4);
    EXPECT_EQ(entry["error"]["code"], "case/timeout");
    EXPECT_EQ(entry["inputs"].size(), 2);
  }
}

TEST_F(IsolationTest, TimeoutsAreTimes) {
  WriteManifest(json::array({Filled("a")}));
  for (const char* time : {"0", "-1s", "nan", "30 parsecs", "1e9"}) {
    const ShellResult result = Sh(fmt::format("convgrad batch m.json --timeout '{}'", time));
    EXPECT_EQ(result.exit_code, 2) << time;
    EXPECT_THAT(result.err, HasSubstr("--timeout"));
  }
  EXPECT_EQ(Sh("convgrad batch m.json --timeout 1min --isolate").exit_code, 0);
}

TEST_F(IsolationTest, TheReportIsTheSame) {
  ASSERT_EQ(Sh("convgrad gen --fill ones --shape 1,6,6,4 --output wrong.npy").exit_code, 0);
  WriteManifest({With(Filled("first"), {{"output", "first.npy"}}),
                 With(Filled("wrong"), {{"expect", "wrong.npy"}}),
                 With(Filled("no golden"), {{"expect", "missing.npy"}}),
                 With(Filled("no input"), {{"input", "missing.npy"}}),
                 With(Filled("no algorithm"), {{"algorithm", "winograd"}}),
                 With(Filled("h\xC3\xA9 \"quoted\"\\"), {{"probe", true}}),
                 Filled("large", 0, 640)});
  const ShellResult plain =
      Sh("convgrad batch m.json --report plain.json --junit plain.xml --threads 2");
  const ShellResult isolated =
      Sh("convgrad batch m.json --report isolated.json --junit isolated.xml --threads 2 --isolate");
  EXPECT_EQ(plain.exit_code, isolated.exit_code);
  EXPECT_EQ(Comparable(Report("plain.json")), Comparable(Report("isolated.json")));
  const json entries = Report("isolated.json")["benchmarks"];
  EXPECT_EQ(entries[6]["run"]["threads"], 2);
  EXPECT_EQ(entries[5]["repro"], Report("plain.json")["benchmarks"][5]["repro"]);
  EXPECT_THAT(isolated.out, HasSubstr("ERROR  no input\n  reason   missing.npy: "));
}

// Whatever ends the process: other cases go on in a new one.
TEST_F(IsolationTest, AnEndedProcessCostsOneCase) {
  const std::vector<std::pair<int, int>> signals = {
      {SIGSEGV, 70}, {SIGABRT, 70}, {SIGKILL, 4}, {SIGTERM, 4}, {SIGXCPU, 4}};
  for (const auto& [signal, code] : signals) {
    WriteLong();
    std::filesystem::remove(Path("e.jsonl"));
    const pid_t batch = StartBatch({"--isolate", "--jobs", "1"});
    kill(BusyWorkerOf(batch), signal);
    EXPECT_EQ(ExitCodeOf(batch), code);
    const json entry = LongEntry();
    EXPECT_EQ(entry["status"], "ERROR");
    EXPECT_EQ(entry["exit_code"], code);
    EXPECT_EQ(entry["error"]["code"], "case/crashed");
    EXPECT_THAT(entry["error"]["message"].get<std::string>(),
                HasSubstr(fmt::format("signal {} (SIG{})", signal, sigabbrev_np(signal))));
    EXPECT_EQ(entry["inputs"].size(), 2);
    EXPECT_EQ(entry["problem"]["input"], json({1, 2000, 2000, 3}));
    EXPECT_EQ(Events().size(), 3);
  }
}

// Some parents have the ends of children ignored, and the system then tells nobody of them.
TEST_F(IsolationTest, AnEndedProcessIsKnownUnderAnyParent) {
  WriteLong();
  std::signal(SIGCHLD, SIG_IGN);
  const pid_t batch = StartBatch({"--isolate", "--jobs", "1"});
  std::signal(SIGCHLD, SIG_DFL);
  kill(BusyWorkerOf(batch), SIGKILL);
  EXPECT_EQ(ExitCodeOf(batch), 4);
  EXPECT_THAT(LongEntry()["error"]["message"].get<std::string>(), HasSubstr("SIGKILL"));
}

TEST_F(IsolationTest, FewerProcessesThanJobsAreEnough) {
  if (std::getenv("CONVGRAD_TEST_BINARY") != nullptr) {
    GTEST_SKIP() << "a sanitizer's checks of types need descriptors of their own";
  }
  json cases = json::array();
  for (int i = 0; i < 20; ++i) {  // slow ones, so that all have begun before the first ends
    cases.push_back(With(Filled(fmt::format("c{}", i), i, 300), {{"algorithm", "reference"}}));
  }
  WriteManifest(cases);
  const ShellResult result =
      Sh("ulimit -n 16; convgrad batch m.json --isolate --jobs 20 --report r.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Report()["benchmarks"].size(), 20);
}

// As if it waited for a file system that does not answer.
TEST_F(IsolationTest, AProcessThatHangsIsKilled) {
  WriteLong();
  const pid_t batch = StartBatch({"--isolate", "--jobs", "1", "--timeout", "3s"});
  kill(BusyWorkerOf(batch), SIGSTOP);
  EXPECT_EQ(ExitCodeOf(batch), 4);
  EXPECT_EQ(LongEntry()["status"], "TIMEOUT");
}

TEST_F(IsolationTest, WorkersEndWithTheirBatch) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGKILL}) {
    WriteLong();
    std::filesystem::remove(Path("e.jsonl"));
    const pid_t batch = StartBatch({"--isolate", "--jobs", "1"});
    const pid_t worker = BusyWorkerOf(batch);
    kill(batch, signal);
    EXPECT_EQ(ExitCodeOf(batch), 128 + signal);
    EXPECT_TRUE(Becomes([&] { return HasEnded(worker); })) << signal;
    EXPECT_EQ(ReadBytes(Path("there/long.npy")), "old");
    // A batch that is killed itself leaves its report's temporary file to the next run.
    if (signal == SIGKILL) continue;
    ExpectNoTemporaryFiles();
    const json report = Report();
    EXPECT_EQ(report["error"]["code"], "interrupted");
    EXPECT_EQ(report["benchmarks"].size(), 1);
  }
}

// As a job scheduler does.
TEST_F(IsolationTest, AWarningToAllProcessesEndsTheBatch) {
  WriteLong();
  const pid_t batch = StartBatch({"--isolate", "--jobs", "1"});
  const pid_t worker = BusyWorkerOf(batch);
  kill(worker, SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  kill(batch, SIGUSR1);
  EXPECT_EQ(ExitCodeOf(batch), 128 + SIGUSR1);
  ExpectNoTemporaryFiles();
  EXPECT_EQ(Report()["error"]["code"], "interrupted");
}

// Batches and workers killed at any moment: outputs are old or complete, and a last run makes them
// all.
TEST_F(IsolationTest, SurvivesKillsAtAnyMoment) {
  constexpr int kCases = 40;
  const int num_rounds = Rounds(25);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  json cases = json::array();
  for (int i = 0; i < kCases; ++i) {
    cases.push_back(
        With(Filled(fmt::format("c{}", i), i, 8 + i % 7), {{"output", fmt::format("{}.npy", i)}}));
  }
  WriteManifest(cases);
  const std::vector<std::string> flags = {"--isolate", "--resume", "--jobs", "3"};
  ASSERT_EQ(ExitCodeOf(StartBatch(flags)), 0);
  const json undisturbed = Comparable(Report());
  std::vector<std::string> outputs;
  for (int i = 0; i < kCases; ++i) outputs.push_back(ReadBytes(Path(fmt::format("{}.npy", i))));
  for (int round = 0; round < num_rounds; ++round) {
    std::filesystem::remove(Path("e.jsonl"));
    for (int i = 0; i < kCases; i += 2) WriteBytes(Path(fmt::format("{}.npy", i)), "old");
    const pid_t batch = StartBatch(flags);
    for (int kills = 0; kills < 3; ++kills) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
      const std::vector<pid_t> workers = ChildrenOf(batch);
      if (!workers.empty()) kill(workers[random() % workers.size()], SIGKILL);
    }
    if (round % 2 == 0) kill(batch, random() % 2 == 0 ? SIGKILL : SIGTERM);
    EXPECT_THAT(ExitCodeOf(batch), AnyOf(0, 4, 128 + SIGKILL, 128 + SIGTERM));
    for (int i = 0; i < kCases; ++i) {
      ASSERT_THAT(ReadBytes(Path(fmt::format("{}.npy", i))), AnyOf(Eq(outputs[i]), Eq("old")));
    }
    ASSERT_EQ(ExitCodeOf(StartBatch(flags)), 0);
    ASSERT_EQ(Comparable(Report()), undisturbed);
  }
  ExpectNoTemporaryFiles();
}

}  // namespace
}  // namespace convgrad::testing
