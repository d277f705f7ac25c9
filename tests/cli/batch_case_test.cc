// One case of a batch, in this process and in a worker: what it asks of the others' turns, and
// whose time it is while it waits for its own. This program is its own worker, as the tool is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "cli/batch/worker.h"
#include "cli/batch/worker_main.h"
#include "support/file_testing.h"

namespace convgrad::cli {
namespace {

using std::chrono::milliseconds;

// Gives a turn after a while, and remembers what was asked for.
class RecordingTurns final : public Turns {
 public:
  explicit RecordingTurns(milliseconds wait = milliseconds{0}) : wait_(wait) {}

  void Enter(const CaseRecord& /*planned*/, bool alone) override {
    std::this_thread::sleep_for(wait_);
    was_alone = alone;
  }
  void Leave() override {
    if (on_leave) on_leave();
  }

  bool was_alone = false;
  std::function<void()> on_leave;

 private:
  const milliseconds wait_;
};

// A batch with these flags, as far as one of its cases sees it.
struct Batch {
  explicit Batch(std::vector<std::string> flags)
      : words(std::move(flags)),
        arguments((words.insert(words.begin(), {"convgrad", "batch", "m.json"}), words)),
        options(ParseBatchOptions(arguments)),
        console(arguments),
        runner("convgrad", options, console) {}

  std::vector<std::string> words;
  const Arguments arguments;
  const BatchOptions options;
  const Console console;
  const CaseRunner runner;
};

CaseJob JobOf(std::vector<std::string> words) {
  words.insert(words.begin(), {"convgrad", "run", "conv2d", "--padding", "SAME"});
  return {0, "", RequestOf(Arguments(std::move(words)))};
}

// `size` by `size` pixels.
CaseJob SquareJob(int size, std::vector<std::string> more = {}) {
  const std::string shape = "1," + std::to_string(size) + "," + std::to_string(size) + ",4";
  more.insert(more.end(), {"--input", "fill:normal@" + shape, "--filter", "fill:normal@1,1,4,4"});
  return JobOf(std::move(more));
}

TEST(BatchCase, WaitingForATurnIsNotItsTime) {
  const Batch batch({"--timeout", "2s"});
  RecordingTurns turns(milliseconds{2'200});
  const CaseEnding ending = batch.runner.Run(SquareJob(8), turns);
  EXPECT_EQ(ending.status, CaseStatus::kComputed) << ending.why;
}

// Long enough to be looked at while it computes, and no longer.
TEST(BatchCase, NorIsItInAWorker) {
  const Batch batch({"--timeout", "4s"});
  RecordingTurns turns(milliseconds{5'200});  // more than is granted to end after a timeout
  Worker worker(batch.words, batch.options, batch.runner);
  const CaseJob job = JobOf({"--algorithm", "reference", "--threads", "1", "--input",
                             "fill:normal@1,100,100,4", "--filter", "fill:normal@9,9,4,4"});
  const CaseEnding ending = worker.Run(job, turns);
  EXPECT_EQ(ending.status, CaseStatus::kComputed) << ending.why;
}

TEST(BatchCase, ThreadsAndMuchMemoryAreAskedForAlone) {
  const Batch batch({"--threads", "2", "--jobs", "2", "--max-memory", "10MiB"});
  RecordingTurns turns;
  for (const auto& [job, alone] :
       {std::pair(SquareJob(8), false), std::pair(SquareJob(8, {"--threads", "2"}), true),
        std::pair(SquareJob(250, {"--threads", "1"}), false),
        std::pair(SquareJob(450, {"--threads", "1"}), true)}) {
    EXPECT_EQ(batch.runner.Run(job, turns).status, CaseStatus::kComputed);
    EXPECT_EQ(turns.was_alone, alone);
  }
}

TEST(BatchCase, MuchMemoryIsKeptUntilItIsWritten) {
  const ScratchDirectory scratch;
  const Batch batch({"--threads", "1", "--jobs", "2", "--max-memory", "10MiB"});
  for (const int size : {250, 450}) {
    const std::string path = scratch / (std::to_string(size) + ".npy");
    RecordingTurns turns;
    bool was_written = false;
    turns.on_leave = [&] { was_written = std::filesystem::exists(path); };
    EXPECT_EQ(batch.runner.Run(SquareJob(size, {"--output", path}), turns).status,
              CaseStatus::kComputed);
    EXPECT_EQ(was_written, size == 450);
  }
}

}  // namespace
}  // namespace convgrad::cli

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (convgrad::cli::IsWorker(words)) return convgrad::cli::RunWorker(words);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
