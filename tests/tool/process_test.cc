// The tool as a process among others: streams that are closed or full, signals, limits, locales.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSmall =
    "convgrad run conv2d --padding SAME --input fill:normal@1,8,8,4 --filter fill:normal@3,3,4,4 ";
// Many seconds on one core, much longer than it takes to send a signal.
constexpr const char* kLong =
    "convgrad run conv2d --padding SAME --verbose --input fill:normal@8,128,128,64 --filter "
    "fill:normal@11,11,64,64 "
    "--algorithm reference --output y.npy --report r.json ";

class ProcessTest : public CliTest {};

TEST_F(ProcessTest, ClosedStandardStreams) {
  ASSERT_EQ(Sh(std::string(kSmall) + "--output y.npy").exit_code, 0);
  const std::string expected = ReadBytes(Path("y.npy"));
  for (const std::string closed : {"<&-", "2>&-", "<&- 2>&-"}) {
    EXPECT_EQ(Sh(std::string(kSmall) + "--output y.npy " + closed).exit_code, 0) << closed;
    EXPECT_EQ(ReadBytes(Path("y.npy")), expected) << closed;
  }
  // Words that were asked for can't be printed: an error, but no damage.
  for (const std::string closed : {">&-", "<&- >&- 2>&-"}) {
    EXPECT_EQ(Sh(std::string(kSmall) + "--output y.npy " + closed).exit_code, 4) << closed;
    EXPECT_EQ(ReadBytes(Path("y.npy")), expected) << closed;
    EXPECT_EQ(Sh(std::string(kSmall) + "--output y.npy --quiet " + closed).exit_code, 0);
  }
  EXPECT_EQ(
      Sh("convgrad run conv2d --padding SAME --input - --filter fill:ones@1,1,1,1 <&-").exit_code,
      4);
}

TEST_F(ProcessTest, FullAndBrokenOutputs) {
  for (const std::string full :
       {"--output - >/dev/full", "--report - >/dev/full", ">/dev/full", "--output /dev/full"}) {
    const ShellResult result = Sh(kSmall + full);
    EXPECT_EQ(result.exit_code, 4) << full;
    EXPECT_THAT(result.err, IsOneErrorLine()) << full;
  }
  EXPECT_EQ(Sh("convgrad help >/dev/full").exit_code, 4);
  // A reader that has seen enough: quiet, and ended by SIGPIPE.
  const ShellResult broken =
      Sh("{ convgrad run conv2d --padding SAME --input fill:ones@1,512,512,8 --filter "
         "fill:ones@1,1,8,8 "
         "--output - --report r.json; echo $? >status; } | head -c 1 >first");
  EXPECT_EQ(broken.err, "");
  EXPECT_EQ(ReadBytes(Path("status")), "141\n");
  EXPECT_EQ(Report()["benchmarks"][0]["error"]["code"], "io/broken-pipe");
}

// By the signal itself, which shells and build tools take for no failure.
TEST_F(ProcessTest, ABrokenPipeEndsByTheSignal) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl(Binary().c_str(), "convgrad", "help", nullptr);
    _exit(127);
  }
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGPIPE);
}

TEST_F(ProcessTest, AReportThatCannotBeWrittenKeepsTheOutput) {
  EXPECT_EQ(Sh(std::string(kSmall) + "--output y.npy --report /dev/full").exit_code, 4);
  EXPECT_THAT(Files(), ElementsAre("y.npy"));
}

TEST_F(ProcessTest, AFileSizeLimitIsAFullDisk) {
  ASSERT_EQ(Sh(std::string(kSmall) + "--output y.npy").exit_code, 0);
  const std::string old = ReadBytes(Path("y.npy"));
  const ShellResult result =
      Sh("ulimit -f 8; convgrad gen --fill ones --shape 1000,1000 --output y.npy");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, IsOneErrorLine());
  EXPECT_EQ(ReadBytes(Path("y.npy")), old);
  EXPECT_THAT(Files(), ElementsAre("y.npy"));
}

TEST_F(ProcessTest, EnvironmentAndLocaleChangeNoBit) {
  ASSERT_EQ(Sh(std::string(kSmall) + "--output y.npy").exit_code, 0);
  const std::string expected = ReadBytes(Path("y.npy"));
  for (const std::string environment :
       {"LC_ALL=de_DE.UTF-8", "TZ=Pacific/Kiritimati", "TMPDIR=/none", "OMP_NUM_THREADS=1", "-i"}) {
    const ShellResult result = Sh(fmt::format(
        "env {} \"$(command -v convgrad)\" run conv2d --padding SAME --input fill:normal@1,8,8,4 "
        "--filter fill:normal@3,3,4,4 --output z.npy --report r.json",
        environment));
    EXPECT_EQ(result.exit_code, 0) << environment << result.err;
    EXPECT_EQ(ReadBytes(Path("z.npy")), expected) << environment;
    Report();
  }
}

TEST_F(ProcessTest, FewResourcesAreEnoughOrRefused) {
  EXPECT_EQ(Sh(std::string("ulimit -n 16; ") + kSmall + "--output y.npy").exit_code, 0);
  EXPECT_EQ(Sh(std::string("ulimit -s 256; ") + kSmall + "--output y.npy").exit_code, 0);
  EXPECT_EQ(Sh(OnOneCpu() + kSmall + "--output y.npy").exit_code, 0);
}

TEST_F(ProcessTest, LittleAddressSpaceIsEnoughOrRefused) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer itself needs terabytes of address space";
#endif
  const auto run = [&](int kib, int threads) {
    return Sh(fmt::format("ulimit -v {}; {} --threads {} --output y.npy", kib, kSmall, threads));
  };
  for (const int kib : {24000, 28000, 40000, 80000, 300000, 1000000}) {
    for (const int threads : {1, 2, 64, 1000}) {
      const ShellResult result = run(kib, threads);
      EXPECT_THAT(result.exit_code, AnyOf(Eq(0), Eq(4)))
          << kib << " KiB, " << threads << " threads";
      if (result.exit_code == 4) {
        EXPECT_THAT(result.err, IsOneErrorLine());
      }
    }
  }
  // Objects made before main() take what is left where the loader has just enough.
  constexpr int kCoarse = 500, kFine = 20, kOfLoader = 127;
  int enough = 16000;
  while (enough < 40000 && run(enough, 1).exit_code == kOfLoader) enough += kCoarse;
  for (int kib = enough - kCoarse; kib < enough + kCoarse; kib += kFine) {
    EXPECT_THAT(run(kib, 1).exit_code, AnyOf(Eq(0), Eq(4), Eq(kOfLoader))) << kib << " KiB";
  }
}

// Words that take more memory than there is: the loader's own message, the usage error, or one
// line.
TEST_F(ProcessTest, WordsThatDoNotFitInMemoryAreOneLine) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer itself needs terabytes of address space";
#endif
  int num_exhausted = 0;
  for (int kib = 16000; kib <= 40000; kib += 1000) {
    const ShellResult result =
        Sh(fmt::format("set -- $(seq 20000); ulimit -v {}; exec convgrad plan \"$@\"", kib));
    if (result.exit_code == 127) continue;  // of the loader
    EXPECT_THAT(result.exit_code, AnyOf(Eq(2), Eq(4))) << kib << result.err;
    EXPECT_THAT(result.err, IsOneErrorLine()) << kib;
    num_exhausted += result.exit_code == 4 ? 1 : 0;
  }
  EXPECT_GT(num_exhausted, 0);
}

// As from here on the tests are under nohup, which has SIGHUP ignored.
class NohupTest : public ProcessTest {
 protected:
  NohupTest() : old_(std::signal(SIGHUP, SIG_IGN)) {}
  ~NohupTest() override { std::signal(SIGHUP, old_); }

 private:
  void (*const old_)(int);
};

TEST_F(NohupTest, ASignalThatTheParentIgnoresIsIgnored) {
  const ShellResult result =
      Sh(std::string(kLong) + "2>err & child=$!; until " + kIsComputing +
         "; do sleep 0.05; done; kill -HUP $child; sleep 0.2; kill -TERM $child; wait $child");
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
}

TEST_F(ProcessTest, AWarningThatTheParentIgnoresIsIgnored) {
  const ShellResult result =
      Sh("trap '' USR1 XCPU; " + std::string(kLong) + "2>err & child=$!; until " + kIsComputing +
         "; do sleep 0.05; done; kill -USR1 $child; kill -XCPU $child; sleep 0.2; "
         "kill -TERM $child; wait $child");
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
}

// The system warns once a second, which is no second request to end at once.
TEST_F(ProcessTest, ALimitOnProcessorTimeEndsItInOrder) {
  const ShellResult result =
      Sh("ulimit -S -t 1; " + std::string(kLong) + "--threads 2 2>err; echo $? >status");
  EXPECT_EQ(ReadBytes(Path("status")), std::to_string(128 + SIGXCPU) + "\n") << result.err;
  EXPECT_THAT(ReadBytes(Path("err")), HasSubstr("interrupted: by signal"));
  EXPECT_THAT(Files(), ElementsAre("err", "r.json", "status"));
  EXPECT_EQ(Report()["benchmarks"][0]["error"]["code"], "interrupted");
}

// Both reach it while it can do nothing: the second finds what the first has not yet removed.
TEST_F(ProcessTest, ASecondSignalEndsItAtOnceAndLeavesNothing) {
  const ShellResult result =
      Sh("env --default-signal " + std::string(kLong) +
         "--threads 1 2>err & child=$!; "
         "until ls -A | grep -q 'y.npy.tmp'; do sleep 0.05; done; kill -STOP $child; "
         "until grep -q 'State:.T' /proc/$child/status; do sleep 0.01; done; "
         "ls -A | grep -c 'y.npy.tmp' >unfinished; kill -TERM $child; kill -INT $child; "
         "kill -CONT $child; wait $child");
  EXPECT_THAT(result.exit_code, AnyOf(128 + SIGTERM, 128 + SIGINT));
  EXPECT_EQ(ReadBytes(Path("unfinished")), "1\n");
  EXPECT_THAT(Files(),
              ElementsAre("err", "unfinished"));  // no report: not even that was waited for
}

TEST_F(NohupTest, ASignalEndsTheRunInOrder) {
  for (const auto& [name, number] : {std::pair("TERM", SIGTERM),
                                     {"HUP", SIGHUP},
                                     {"INT", SIGINT},
                                     {"QUIT", SIGQUIT},
                                     {"USR1", SIGUSR1},
                                     {"USR2", SIGUSR2},
                                     {"ALRM", SIGALRM},
                                     {"XCPU", SIGXCPU}}) {
    const ShellResult result = Interrupt(kLong, name);
    EXPECT_EQ(result.exit_code, 128 + number) << result.err;
    EXPECT_THAT(result.err, HasSubstr("convgrad: error: interrupted: by signal"));
    EXPECT_THAT(Files(), ElementsAre("r.json"));
    const nlohmann::json entry = Report()["benchmarks"][0];
    EXPECT_EQ(entry["error"]["code"], "interrupted");
    EXPECT_EQ(entry["exit_code"], 128 + number);
  }
}

TEST_F(ProcessTest, ASignalEndsWaitingForStandardInput) {
  ASSERT_EQ(Sh("mkfifo pipe").exit_code, 0);
  const ShellResult result = Interrupt("convgrad inspect - <>pipe", "TERM",
                                       "grep -qz 'convgrad.*State:.S' /proc/$child/status");
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
}

TEST_F(ProcessTest, OutputsAreOldOrCompleteWheneverItIsKilled) {
  const std::string old = "the file that was there before";
  const int num_rounds = Rounds(60);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const auto start = [this] {
    return Start({"run", "conv2d", "--input", "fill:normal@4,64,64,16", "--filter",
                  "fill:normal@3,3,16,16", "--padding", "SAME", "--output", "y.npy", "--report",
                  "r.json", "--quiet"});
  };
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(ExitCodeOf(start()), 0);
  KillMoments moments(seed, std::chrono::steady_clock::now() - begin);
  const std::string complete = ReadBytes(Path("y.npy"));
  for (int round = 0; round < num_rounds; ++round) {
    WriteBytes(Path("y.npy"), old);
    const int signal = round % 2 == 0 ? SIGKILL : SIGTERM;
    const std::chrono::microseconds delay = moments.Next();
    const pid_t run = start();
    std::this_thread::sleep_for(delay);
    kill(run, signal);
    const int exit_code = ExitCodeOf(run);
    EXPECT_THAT(exit_code, AnyOf(0, 128 + signal));
    moments.Learn(exit_code != 0);
    EXPECT_THAT(ReadBytes(Path("y.npy")), AnyOf(Eq(old), Eq(complete)))
        << "killed after " << delay.count() << " us";
  }
  EXPECT_GT(moments.met(), num_rounds / 5);
  // The next run removes what killed ones left behind.
  ASSERT_EQ(ExitCodeOf(start()), 0);
  EXPECT_THAT(Files(), ElementsAre("r.json", "y.npy"));
}

}  // namespace
}  // namespace convgrad::testing
