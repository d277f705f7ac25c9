// Workers that do not do their part, and batches that can't have as many as they wish: what their
// cases cost. This program is its own worker, so it has a main() of its own; it has functions in
// place of some of the system's too.
#include "cli/batch/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "cli/batch/worker_main.h"
#include "cli/batch/worker_messages.h"
#include "cli/batch/worker_pool.h"
#include "cli/console/console.h"
#include "support/file_testing.h"

namespace convgrad::cli {
namespace {

using ::testing::HasSubstr;

// The calls below shall do this.
std::atomic<int> receive_error{0};  // an error number; 0: as the system does
std::atomic<int> num_startable{0};  // processes, from now on
std::atomic<int> num_started{0};

}  // namespace
}  // namespace convgrad::cli

extern "C" {

ssize_t recv(int socket, void* into, size_t bytes, int flags) {
  if (convgrad::cli::receive_error != 0) {
    errno = convgrad::cli::receive_error;
    return -1;
  }
  return syscall(SYS_recvfrom, socket, into, bytes, flags, nullptr, nullptr);
}

int socketpair(int domain, int type, int protocol, int ends[2]) noexcept {
  if (convgrad::cli::num_startable-- <= 0) {
    ++convgrad::cli::num_startable;
    errno = EMFILE;
    return -1;
  }
  ++convgrad::cli::num_started;
  return static_cast<int>(syscall(SYS_socketpair, domain, type, protocol, ends));
}

}  // extern "C"

namespace convgrad::cli {
namespace {

constexpr const char *kAnswers = "answers", *kEnds = "ends", *kFails = "fails",
                     *kHangsUp = "hangs up";

// The process of a worker: takes one case after the other, and ends or answers as `manner` says.
int BeWorker(const std::string& manner) {
  Channel channel{FileDescriptor(dup(STDIN_FILENO))};
  close(STDIN_FILENO);
  while (const std::optional<Message> message = channel.Receive()) {
    if (manner == kEnds) return 0;
    if (manner == kFails) return static_cast<int>(ExitCode::kIo);
    if (manner == kHangsUp) {
      channel = Channel(FileDescriptor());
      for (;;) pause();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CaseEnding ending;
    ending.status = CaseStatus::kPassed;
    ending.exit_code = ExitCode::kOk;
    ending.repro = ReadJob(*message)->name();
    channel.Send(WriteEnding(ending));
  }
  return 0;
}

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() {
    receive_error = 0;
    num_startable = 1000;
    num_started = 0;
  }

  static CaseJob Job(const std::string& name) {
    CaseJob job;
    job.request.op = "conv2d";
    job.request.flags.Add({FlagId::kInput, "fill:ones@1,2,2,1", "", {}});
    job.request.flags.Add({FlagId::kFilter, "fill:ones@1,1,1,1", "", {}});
    job.request.flags.Add({FlagId::kPadding, "VALID", "", {}});
    job.request.flags.Add({FlagId::kName, name, "", {}});
    return job;
  }

  std::vector<std::string> Words(const std::string& manner) { return {"convgrad", manner}; }
  CaseEnding RunIn(const std::string& manner) {
    const std::vector<std::string> words = Words(manner);
    Worker worker(words, options_, runner_);
    CaseEnding ending = worker.Run(Job("a"), gate_);
    EXPECT_EQ(worker.is_running(), manner == kAnswers && receive_error == 0);
    return ending;
  }

  BatchOptions options_;
  const Arguments arguments_{{"convgrad", "batch", "--quiet"}};
  const Console console_{arguments_};
  const CaseRunner runner_{"convgrad", options_, console_};
  ComputeGate gate_{8};
};

TEST_F(WorkerTest, HowItsProcessEnds) {
  EXPECT_EQ(RunIn(kAnswers).exit_code, ExitCode::kOk);
  CaseEnding ending = RunIn(kFails);  // it has said why
  EXPECT_EQ(ending.exit_code, ExitCode::kIo);
  EXPECT_THAT(ending.why, HasSubstr("ended with exit code 4; see its message"));
  ending = RunIn(kEnds);
  EXPECT_EQ(ending.exit_code, ExitCode::kIo);
  EXPECT_THAT(ending.why, HasSubstr("ended before it answered; run it again"));
  ending = RunIn(kHangsUp);
  EXPECT_EQ(ending.exit_code, ExitCode::kIo);
  EXPECT_THAT(ending.why, HasSubstr("closed its connection, but did not end; run it again"));
}

// As if the process had ended with bytes unread; here it still waits.
TEST_F(WorkerTest, AConnectionThatIsResetIsNoDefect) {
  for (const int error : {ECONNRESET, EPIPE}) {
    receive_error = error;
    const CaseEnding ending = RunIn(kAnswers);
    EXPECT_EQ(ending.status, CaseStatus::kError);
    EXPECT_EQ(ending.exit_code, ExitCode::kIo);
    EXPECT_THAT(ending.why, HasSubstr("its connection, but did not end; run it again"));
  }
}

TEST_F(WorkerTest, ASocketThatCannotBeUsedIsNoEndOfTheProcess) {
  const std::vector<std::string> words = Words(kAnswers);
  receive_error = ENOBUFS;
  const CaseEnding ending = RunIn(kAnswers);
  EXPECT_EQ(ending.status, CaseStatus::kError);
  EXPECT_EQ(ending.exit_code, ExitCode::kIo);
  EXPECT_THAT(ending.why, HasSubstr("the socket between a batch and its worker: cannot be used"));
}

class WorkerPoolTest : public WorkerTest {
 protected:
  // Runs as many cases side by side; returns how many passed, as the one that was asked for.
  int RunSideBySide(int num_cases) {
    const std::vector<std::string> words = Words(kAnswers);
    WorkerPool pool(words, options_, runner_);
    std::atomic<int> passed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < num_cases; ++i) {
      threads.emplace_back([&, i] {
        try {
          const std::string name = std::to_string(i);
          passed += pool.Run(Job(name), gate_).repro == name ? 1 : 0;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), "io/descriptors");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return passed;
  }
};

TEST_F(WorkerPoolTest, FewerWorkersThanCasesAreEnough) {
  for (const int startable : {1, 3, 12, 100}) {
    num_startable = startable;
    num_started = 0;
    EXPECT_EQ(RunSideBySide(12), 12) << startable;
    EXPECT_LE(num_started, std::min(startable, 12));
  }
}

TEST_F(WorkerPoolTest, OneWorkerIsNeeded) {
  num_startable = 0;
  EXPECT_EQ(RunSideBySide(4), 0);
}

// An ended worker makes room for a new one.
TEST_F(WorkerPoolTest, EndedWorkersAreReplaced) {
  const std::vector<std::string> words = Words(kFails);
  WorkerPool pool(words, options_, runner_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.Run(Job("a"), gate_).exit_code, ExitCode::kIo);
  EXPECT_EQ(num_started, 3);
}

}  // namespace
}  // namespace convgrad::cli

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (convgrad::cli::IsWorker(words)) return convgrad::cli::BeWorker(words.back());
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
