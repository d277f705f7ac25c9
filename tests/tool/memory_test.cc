// How much memory the tool takes, end to end: what its report declares and hardly more, and nothing
// for operands that are mapped.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "support/cli_testing.h"

namespace convgrad {
namespace {

constexpr int64_t kMegabyte = 1 << 20;
constexpr int64_t kProcessItself = 24 * kMegabyte;  // code, libraries, stacks: 8 measured
constexpr int64_t kMostScratch = 64 * kMegabyte;

class CliMemoryTest : public testing::CliTest {
 protected:
  // The report of a command that must succeed.
  nlohmann::json RunOf(const std::string& words) const {
    const testing::ShellResult result = Sh("convgrad run " + words + " --no-hash --report r.json");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Report().at("benchmarks").at(0).at("run");
  }

  void ExpectModest(const std::string& words) const {
    SCOPED_TRACE(words);
    const nlohmann::json run = RunOf(words);
    EXPECT_LE(run.at("scratch_bytes").get<int64_t>(), kMostScratch);
    EXPECT_LE(run.at("peak_rss_bytes").get<int64_t>(),
              run.at("memory_bytes").get<int64_t>() + kProcessItself);
  }

  // The line of a result's hash in what `run` prints.
  static std::string HashIn(const std::string& text) {
    const size_t begin = text.find("sha256");
    EXPECT_NE(begin, std::string::npos) << text;
    return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
  }

  // A file of zeros that takes no space on the disk.
  void WriteZeros(const std::string& name, const Shape& shape) const {
    const std::string header = NpyHeaderBytes(DType::kFloat32, shape);
    std::ofstream(Path(name), std::ios::binary) << header;
    const int64_t bytes = 4 * shape[0] * shape[1] * shape[2] * shape[3];
    ASSERT_EQ(truncate(Path(name).c_str(), static_cast<off_t>(header.size()) + bytes), 0);
  }
};

// Blocks of so many pixels are millions, and a list of them takes seconds and a GiB.
TEST_F(CliMemoryTest, APlanOfTerabytesListsNoBlocks) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  for (const std::string pixels :
       {"NHWC --input fill:ones@64,8192,8192,64", "NCHW --input fill:ones@64,64,8192,8192",
        "NCHW --input fill:ones@1,64,65536,65536"}) {
    const testing::ShellResult result =
        Sh("ulimit -v 400000; convgrad plan depthwise_conv2d_backprop_filter --padding SAME "
           "--filter-sizes 3,3,64,1 --out-backprop fill:ones --threads 2 --data-format " +
           pixels);
    EXPECT_EQ(result.exit_code, 0) << pixels << result.err;
  }
}

TEST_F(CliMemoryTest, OperandsResultAndDeclaredScratchAreAll) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  for (const char* dtype : {"float32", "bfloat16"}) {
    for (const bool nhwc : {true, false}) {
      const std::string wide = nhwc ? "4,112,112,64" : "4,64,112,112";
      const std::string half = nhwc ? "4,56,56,64" : "4,64,56,56";
      const std::string rest = std::string(" --dtype ") + dtype + " --threads 2 --data-format " +
                               (nhwc ? "NHWC" : "NCHW");
      ExpectModest("conv2d --padding SAME --input fill:normal@" + wide +
                   " --filter fill:normal@1,1,64,64" + rest);
      ExpectModest(
          "depthwise_conv2d_backprop_filter --padding SAME --filter-sizes 5,5,64,1 --input "
          "fill:normal@" +
          wide + " --out-backprop fill:normal" + rest);
      ExpectModest("depthwise_conv2d_backprop_input --padding SAME --input-sizes " + wide +
                   " --filter fill:normal@3,3,64,1 --out-backprop fill:normal@" + half +
                   " --strides 2" + rest);
      ExpectModest("conv2d_backprop_input --padding SAME --input-sizes " + half +
                   " --filter fill:normal@3,3,64,64 --out-backprop fill:normal@" + half + rest);
      ExpectModest(
          "conv2d_backprop_filter --padding SAME --filter-sizes 3,3,64,64 --input fill:normal@" +
          half + " --out-backprop fill:normal@" + half + rest);
    }
  }
}

TEST_F(CliMemoryTest, MappedOperandsNeedNone) {
  WriteZeros("x.npy", {64, 128, 128, 64});
  WriteZeros("dy.npy", {64, 128, 128, 64});
  const nlohmann::json run = RunOf(
      "depthwise_conv2d_backprop_filter --padding SAME --input x.npy --filter-sizes 3,3,64,1 "
      "--out-backprop "
      "dy.npy --max-memory 16MiB --threads 2");
  EXPECT_LE(run.at("scratch_bytes").get<int64_t>(), 16 * kMegabyte);
}

// Operands and result alone are too large: nothing is planned, whose lists would have no room.
TEST_F(CliMemoryTest, TensorsThatHaveNoRoomAreRefusedAtOnce) {
  for (const std::string command : {"run", "bench"}) {
    const testing::ShellResult result =
        Sh("convgrad " + command +
           " depthwise_conv2d_backprop_filter --padding SAME --data-format NCHW --input "
           "fill:normal@2000000000,4,16,16 --filter-sizes 3,3,4,1 --out-backprop fill:normal "
           "--max-memory 1MB");
    EXPECT_EQ(result.exit_code, 4) << command;
    EXPECT_THAT(result.err, ::testing::HasSubstr("bytes (14.9 TiB) are needed")) << command;
  }
}

// Exact sums of operands that are mapped need less than a tenth of these, and have the bits of
// operands in memory.
TEST_F(CliMemoryTest, ATenthOfMappedOperandsIsEnough) {
  const std::string shape = "52,64,64,64";
  const int64_t bytes = int64_t{4} * 52 * 64 * 64 * 64;  // of one
  for (const std::string role : {"input", "out_backprop"}) {
    ASSERT_EQ(Sh("convgrad gen --fill normal --shape " + shape + " --role " + role + " --output " +
                 role + ".npy")
                  .exit_code,
              0);
  }
  const std::string input = " --input ", out = " --out-backprop ";
  const std::string mapped_input = input + "input.npy", mapped_out = out + "out_backprop.npy";
  const std::string held_input = input + "fill:normal@" + shape;
  const std::string held_out = out + "fill:normal@" + shape;
  const auto expect_enough = [&](const std::string& op, const std::string& mapped,
                                 const std::string& held, int64_t operand_bytes) {
    SCOPED_TRACE(op);
    const std::string words =
        "convgrad run " + op + " --padding SAME --precision exact --threads 2";
    const testing::ShellResult tight =
        Sh(words + mapped + fmt::format(" --max-memory {}B", operand_bytes / 10));
    ASSERT_EQ(tight.exit_code, 0) << tight.err;
    EXPECT_EQ(HashIn(tight.out), HashIn(Sh(words + held).out));
  };
  expect_enough("conv2d_backprop_filter --filter-sizes 3,3,64,64", mapped_input + mapped_out,
                held_input + held_out, 2 * bytes);
  expect_enough("depthwise_conv2d_backprop_filter --filter-sizes 3,3,64,1",
                mapped_input + mapped_out, held_input + held_out, 2 * bytes);
  // Of these the result is in memory too.
  expect_enough("conv2d --filter fill:normal@3,3,64,1", mapped_input, held_input, bytes);
  expect_enough("conv2d_backprop_input --filter fill:normal@3,3,1,64 --input-sizes 52,64,64,1",
                mapped_out, held_out, bytes);
}

// From a limit that lets the process barely begin to one that lets it start all of its threads:
// each run ends, right or with the one error that says so.
TEST_F(CliMemoryTest, EndsWhereverMemoryRunsOut) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  const std::string command =
      "timeout -s KILL 60 convgrad run conv2d_backprop_filter --padding SAME --input "
      "fill:normal@2,16,16,16"
      " --filter-sizes 3,3,16,16 --out-backprop fill:normal --threads 2";
  const testing::ShellResult free = Sh(command);
  ASSERT_EQ(free.exit_code, 0) << free.err;
  for (int kilobytes = 4'000; kilobytes <= 60'000; kilobytes += 500) {
    const testing::ShellResult result = Sh(fmt::format("ulimit -d {}; {}", kilobytes, command));
    if (result.exit_code == 0) {
      EXPECT_EQ(HashIn(result.out), HashIn(free.out));
      continue;
    }
    EXPECT_EQ(result.exit_code, 4) << kilobytes;
    EXPECT_THAT(result.err, ::testing::HasSubstr("memory: ")) << kilobytes;
    EXPECT_THAT(result.err, testing::IsOneErrorLine()) << kilobytes;
  }
}

// Address space for all but a few of the threads asked for.
TEST_F(CliMemoryTest, TheReportSaysHowManyThreadsThereWere) {
  if (kSanitized) GTEST_SKIP() << "not under a sanitizer";
  const std::string flags =
      " conv2d --padding SAME --input fill:normal@1,32,32,16 --filter fill:normal@3,3,16,16"
      " --threads 16 --report r.json";
  for (const std::string command : {"run", "bench --max-time 0.1"}) {
    const testing::ShellResult result =
        Sh("ulimit -s 8192; ulimit -v 600000; convgrad " + command + flags);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json entry = Report().at("benchmarks").at(0);
    EXPECT_LT(entry.at("run").at("threads"), 16) << command;
    EXPECT_EQ(entry.at("threads"), entry.at("run").at("threads")) << command;
  }
}

}  // namespace
}  // namespace convgrad
