// Writers that are killed at any moment: the output is the old file or a complete new one, and the
// next run removes what they left.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "base/output_file.h"
#include "support/file_testing.h"
#include "tensor/npy.h"

namespace convgrad {
namespace {

constexpr int64_t kElements = 40000;

Tensor Filled(float value) {
  Tensor tensor(DType::kFloat32, {kElements});
  std::fill_n(tensor.mutable_data<float>(), kElements, value);
  return tensor;
}

// Writes whole arrays of 1s, 2s, 3s, ... to one path until it is killed.
[[noreturn]] void WriteForEver(const std::string& path) {
  for (float value = 1;; ++value) WriteNpy(path, Filled(value));
}

void ExpectWhole(const std::string& path) {
  const NpyArray array = ReadNpy(path);
  ASSERT_EQ(array.tensor.num_elements(), kElements);
  const float* values = array.tensor.data<float>();
  for (int64_t at = 1; at < kElements; ++at) ASSERT_EQ(values[at], values[0]);
}

TEST(KilledWriterTest, LeavesTheOldFileOrACompleteOne) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const ScratchDirectory directory;
  const std::string path = directory / "out.npy";
  WriteNpy(path, Filled(0));
  int files_left = 0;
  constexpr int kLeastKills = 400, kMostKills = 10'000;  // a busy machine starts few in time
  for (int kill_count = 0; kill_count < kLeastKills || (files_left == 0 && kill_count < kMostKills);
       ++kill_count) {
    const pid_t writer = fork();
    if (writer == 0) WriteForEver(path);
    usleep(static_cast<useconds_t>(random() % 6000));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    ExpectWhole(path);
    files_left += static_cast<int>(directory.Entries().size()) - 1;
  }
  EXPECT_GT(files_left, 0) << "no kill met a file half written: the test proves nothing";
  const pid_t last = fork();
  if (last == 0) {
    WriteNpy(path, Filled(7));
    _exit(0);
  }
  waitpid(last, nullptr, 0);
  EXPECT_EQ(directory.Entries(), std::vector<std::string>{"out.npy"});
}

// Where nobody waits for a process, as in containers without an init, it keeps its number.
TEST(KilledWriterTest, WhatADeadProcessLeftIsRemovedBeforeAnyoneWaitsForIt) {
  const ScratchDirectory directory;
  const std::string path = directory / "out.npy";
  const pid_t writer = fork();
  if (writer == 0) {
    const OutputFile unfinished(path);
    _exit(0);
  }
  siginfo_t ended = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(writer), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(directory.Entries().size(), 1);
  // In a process that has seen no directory yet: this one may have seen another of the same inode.
  const pid_t cleaner = fork();
  if (cleaner == 0) {
    CheckOutputPath(path);
    _exit(0);
  }
  waitpid(cleaner, nullptr, 0);
  EXPECT_EQ(directory.Entries().size(), 0);
  waitpid(writer, nullptr, 0);
}

TEST(KilledWriterTest, TwoWritersLeaveOneCompleteFile) {
  const ScratchDirectory directory;
  const std::string path = directory / "out.npy";
  pid_t writers[2];
  for (pid_t& writer : writers) {
    writer = fork();
    if (writer != 0) continue;
    for (int value = 1; value <= 60; ++value) WriteNpy(path, Filled(static_cast<float>(value)));
    _exit(0);
  }
  int status = 0;
  for (const pid_t writer : writers) {
    waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ExpectWhole(path);
  EXPECT_EQ(directory.Entries(), std::vector<std::string>{"out.npy"});
}

}  // namespace
}  // namespace convgrad
