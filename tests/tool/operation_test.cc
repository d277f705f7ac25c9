// Valid files with a wrong or a surprising meaning, end to end: what each must end with.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OperationTest : public CliTest {
 protected:
  // `command` ends with `exit_code`, one line on standard error with `words`, the error in the
  // report, and no output.
  void ExpectError(const std::string& command, int exit_code,
                   const std::vector<std::string>& words = {}) {
    SCOPED_TRACE(command);
    const std::vector<std::string> before = Files();
    const ShellResult result =
        Sh(fmt::format("convgrad run {} --output new.npy --report r.json", command));
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, IsOneErrorLine());
    for (const std::string& word : words) EXPECT_THAT(result.err, HasSubstr(word));
    const nlohmann::json entry = Report()["benchmarks"][0];
    EXPECT_EQ(entry["exit_code"], exit_code);
    EXPECT_EQ(entry["status"], "ERROR");
    EXPECT_THAT(result.err, HasSubstr(entry["error"]["message"].get<std::string>()));
    std::filesystem::remove(Path("r.json"));
    EXPECT_EQ(Files(), before);
  }
  // `command` succeeds; its output.
  std::vector<float> Output(const std::string& command) {
    const ShellResult result = Sh(fmt::format("convgrad run {} --output out.npy", command));
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    return ReadFloats("out.npy");
  }
  Shape OutputShape(const std::string& command) {
    Output(command);
    return ReadNpyHeader(Path("out.npy")).shape;
  }
};

constexpr const char* kX = "--input fill:ones@1,4,4,2";

TEST_F(OperationTest, RanksAndChannels) {  // O01 to O03
  for (const std::string shape : {"4,4,2", "1,4,4,2,1", "4"}) {
    ExpectError(
        fmt::format("conv2d --padding SAME --input fill:ones@{} --filter fill:ones@3,3,2,1", shape),
        3, {"4 dimensions"});
  }
  ExpectError(fmt::format("conv2d --padding SAME {} --filter fill:ones@3,3,3,1", kX), 3);
  ExpectError(fmt::format("depthwise_conv2d --padding SAME {} --filter fill:ones@3,3,3,1", kX), 3);
  ExpectError(
      "depthwise_conv2d_backprop_input --padding SAME --input-sizes 1,4,4,2 --filter "
      "fill:ones@3,3,2,3 "
      "--out-backprop fill:ones@1,4,4,4",
      3, {"give 6"});
}

TEST_F(OperationTest, AWrongGradientNamesTheRightShape) {  // O04
  ExpectError(
      fmt::format("conv2d_backprop_filter --padding SAME {} --filter-sizes 3,3,2,1 --strides 2 "
                  "--out-backprop fill:ones@1,3,2,1",
                  kX),
      3, {"[1,2,2,1]"});
}

TEST_F(OperationTest, Attributes) {  // O05 to O11
  const std::string bare = fmt::format("conv2d {} --filter fill:ones@3,3,2,1 ", kX);
  const std::string conv = bare + "--padding SAME ";
  for (const std::string stride : {"0", "-1", "2,2,2,2", "1,2,3"}) {
    ExpectError(conv + "--strides " + stride, 2, {"strides"});
  }
  ExpectError(conv + "--dilations 0", 2, {"dilations"});
  ExpectError(bare + "--padding EXPLICIT --explicit-paddings -1,0,0,0", 2, {"explicit_paddings"});
  ExpectError(bare + "--padding EXPLICIT", 2);
  ExpectError(conv + "--explicit-paddings 1,1,1,1", 2);
  // All taps on the padding: an empty sum is +0.
  EXPECT_EQ(Output(bare + "--padding EXPLICIT --explicit-paddings 5,5,5,5").front(), 0.0f);
  EXPECT_EQ(OutputShape(bare + "--padding VALID --strides 4"), Shape({1, 1, 1, 1}));
  ExpectError("conv2d --input fill:ones@1,1,1,1 --filter fill:ones@4,4,1,1 --padding VALID", 3);
}

TEST_F(OperationTest, EmptyTensors) {  // O12 to O14
  EXPECT_THAT(
      Output(
          "conv2d_backprop_filter --padding SAME --input fill:ones@0,4,4,2 --filter-sizes 3,3,2,1 "
          "--out-backprop fill:ones"),
      Each(0.0f));
  EXPECT_EQ(
      OutputShape(
          "conv2d_backprop_filter --padding SAME --input fill:ones@0,4,4,2 --filter-sizes 3,3,2,1 "
          "--out-backprop fill:ones"),
      Shape({3, 3, 2, 1}));
  EXPECT_EQ(
      OutputShape(
          "conv2d_backprop_filter --padding SAME --input fill:ones@1,4,4,0 --filter-sizes 3,3,2,1 "
          "--out-backprop fill:ones"),
      Shape({3, 3, 2, 1}));
  EXPECT_EQ(
      OutputShape(
          "depthwise_conv2d --padding SAME --input fill:ones@1,4,4,0 --filter fill:ones@3,3,0,1"),
      Shape({1, 4, 4, 0}));
  EXPECT_THAT(Output("conv2d_backprop_input --input-sizes 1,1,1,2 --filter fill:ones@2,2,2,1 "
                     "--out-backprop fill:ones --padding VALID"),
              ElementsAre(0, 0));
}

TEST_F(OperationTest, FilesInOtherFormsGiveTheSame) {  // O16 to O18
  const std::string run =
      "conv2d_backprop_filter --padding SAME --filter-sizes 3,3,2,2 --out-backprop {} --input {}";
  ASSERT_EQ(Sh("convgrad gen --fill normal --shape 2,3,4,2 --output x.npy").exit_code, 0);
  const std::vector<float> expected = Output(fmt::format(fmt::runtime(run), "x.npy", "x.npy"));
  // The same numbers, written by hand in Fortran order and big-endian.
  const std::vector<float> values = ReadFloats("x.npy");
  const std::string header = "\x93NUMPY\x01";
  std::string text = "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3, 4, 2)}";
  text += std::string(128 - 10 - 1 - text.size(), ' ') + "\n";
  std::string bytes = header + std::string("\0v\0", 3) + text;
  for (int at = 0; at < 48; ++at) {
    const int n = at % 2, h = at / 2 % 3, w = at / 6 % 4, c = at / 24;
    const char* value = reinterpret_cast<const char*>(&values[((n * 3 + h) * 4 + w) * 2 + c]);
    for (int byte = 3; byte >= 0; --byte) bytes += value[byte];
  }
  WriteBytes(Path("other.npy"), bytes);
  EXPECT_EQ(Output(fmt::format(fmt::runtime(run), "x.npy", "other.npy")), expected);
  EXPECT_EQ(Output(fmt::format(fmt::runtime(run), "other.npy", "other.npy")), expected);
  ASSERT_EQ(
      Sh("convgrad run --report r.json " + fmt::format(fmt::runtime(run), "x.npy", "other.npy"))
          .exit_code,
      0);
  const nlohmann::json inputs = Report()["benchmarks"][0]["inputs"];
  EXPECT_EQ(inputs[0]["order"], "F");
  EXPECT_EQ(inputs[0]["sha256"], inputs[1]["sha256"]);
}

TEST_F(OperationTest, OutputsThatCannotBe) {  // O19 to O23
  WriteFloats("x.npy", {1, 4, 4, 2}, std::vector<float>(32, 1.0f));
  std::filesystem::create_hard_link(Path("x.npy"), Path("hard.npy"));
  std::filesystem::create_symlink("x.npy", Path("soft.npy"));
  std::filesystem::create_directory(Path("folder"));
  const std::string before = ReadBytes(Path("x.npy"));
  const auto expect = [&](const std::string& flags, int exit_code) {
    const ShellResult result =
        Sh("convgrad run conv2d --padding SAME --input x.npy --filter fill:ones@3,3,2,1 " + flags);
    EXPECT_EQ(result.exit_code, exit_code) << flags << result.err;
    EXPECT_THAT(result.err, IsOneErrorLine());
    EXPECT_THAT(Files(), ElementsAre("folder", "hard.npy", "soft.npy", "x.npy"));
    EXPECT_EQ(ReadBytes(Path("x.npy")), before);
  };
  for (const std::string name : {"x.npy", "hard.npy", "soft.npy", "./x.npy", "folder/../x.npy"}) {
    expect("--output " + name, 2);
    expect("--report " + name, 2);
    expect("--frobnicate --report " + name, 2);
  }
  expect("--output y.npy --report y.npy", 2);
  expect("--output y.npy --report ./y.npy", 2);
  expect("--output - --report -", 2);
  expect("--output none/y.npy", 4);
  expect("--output folder", 4);
  expect("--output y.npy --report none/r.json", 4);
  expect("--output ''", 2);
}

TEST_F(OperationTest, ValuesThatBreakKernels) {  // O24 to O27
  const float infinity = std::numeric_limits<float>::infinity();
  // Only the padded neighbourhood of the far corner sees the NaN; a stride skips it altogether.
  WriteFloats("nan.npy", {1, 2, 2, 1}, {1, 2, 3, NAN});
  WriteFloats("one.npy", {1, 1, 1, 1}, {1});
  EXPECT_THAT(Output("conv2d --padding SAME --input nan.npy --filter one.npy --strides 2"),
              ElementsAre(1));
  WriteFloats("inf.npy", {1, 1, 1, 1}, {infinity});
  EXPECT_EQ(Output("conv2d --padding SAME --input inf.npy --filter fill:ones@3,3,1,1"),
            std::vector<float>{infinity});
  WriteFloats("minus.npy", {1, 1, 2, 1}, {-0.0f, -0.0f});
  EXPECT_THAT(Output("conv2d --padding SAME --input minus.npy --filter one.npy"), Each(0.0f));
  WriteFloats("tiny.npy", {1, 1, 2, 1}, {1e-45f, 1e-40f});
  EXPECT_THAT(Output("conv2d --padding SAME --input tiny.npy --filter one.npy"),
              ElementsAre(1e-45f, 1e-40f));
  ASSERT_EQ(Sh("convgrad run conv2d --padding SAME --dtype float16 --input "
               "fill:uniform:60000:60000@1,1,1,2 "
               "--filter fill:ones@1,1,2,1 --output half.npy --report r.json")
                .exit_code,
            0);
  EXPECT_EQ(Report()["benchmarks"][0]["output"]["overflow"], 1);
}

TEST_F(OperationTest, SizesBeyondThirtyOneBits) {  // O28 to O30
  const std::string large =
      "depthwise_conv2d --input fill:ones@1,60000,60000,1 --filter "
      "fill:ones@60000,60000,1,1 --padding VALID --max-memory 1GiB";
  ExpectError(large, 4, {"1073741824"});
  const ShellResult plan = Sh("convgrad plan " + large + " --report r.json");
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_EQ(Report()["benchmarks"][0]["problem"]["terms"], 3600000000);
  std::filesystem::remove(Path("r.json"));
  ExpectError("conv2d --padding SAME --input fill:ones@2147483648,1,1,1 --filter fill:ones@1,1,1,1",
              2);
  EXPECT_THAT(
      Output(fmt::format(
          "conv2d --padding SAME {} --filter fill:ones@3,3,2,1 --dilations 2000000000", kX)),
      Each(2.0f));
  ExpectError(
      fmt::format("conv2d --padding SAME {} --filter fill:ones@3,3,2,1 --dilations 2147483648", kX),
      2);
}

TEST_F(OperationTest, GroupsLayoutsAndSizesThatContradict) {  // O31 to O33
  ExpectError("conv2d --padding SAME --input fill:ones@1,4,4,4 --filter fill:ones@3,3,3,4", 3);
  ExpectError("conv2d --padding SAME --input fill:ones@1,4,4,4 --filter fill:ones@3,3,2,3", 3);
  ExpectError(
      fmt::format("conv2d --padding SAME {} --filter fill:ones@3,3,2,1 --data-format NCHW", kX), 3);
  ExpectError(
      fmt::format(
          "conv2d --padding SAME {} --filter fill:ones@3,3,2,1 --data-format NCHW --strides "
          "1,2,2,1",
          kX),
      2, {"data_format"});
  ExpectError(
      "conv2d_backprop_filter --padding SAME --input fill:ones@1,4,4,2 --filter fill:ones@3,3,2,1 "
      "--filter-sizes 3,3,2,1 --out-backprop fill:ones",
      2, {"--filter"});
}

TEST_F(OperationTest, OneByOneWithPaddingAndWidthsAroundLanes) {  // O34, O35
  EXPECT_THAT(
      Output("conv2d --input fill:ones@1,1,1,1 --filter fill:ones@1,1,1,1 --padding EXPLICIT "
             "--explicit-paddings 1,1,1,1"),
      ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 0));
  for (const int width : {1, 2, 3, 15, 16, 17, 31, 33}) {
    const std::string shape = fmt::format("fill:integer@2,3,{},{}", width, width);
    for (const std::string op : {"conv2d", "depthwise_conv2d"}) {
      const std::string command = fmt::format(
          "convgrad check {} --padding SAME --input {} --filter fill:integer@3,3,{},2 --quiet", op,
          shape, width);
      EXPECT_EQ(Sh(command).exit_code, 0) << command;
    }
  }
}

TEST_F(OperationTest, FilesThatAreNone) {
  const std::string filter = " --filter fill:ones@1,1,1,1";
  ExpectError("conv2d --padding SAME --input none.npy" + filter, 4, {"none.npy"});
  ExpectError("conv2d --padding SAME --input ." + filter, 4);
  ExpectError("conv2d --padding SAME --input /dev/zero" + filter, 4);
  WriteBytes(Path("text.npy"), "hello");
  ExpectError("conv2d --padding SAME --input text.npy" + filter, 3, {"text.npy"});
  WriteFloats("x.npy", {1, 2, 2, 1}, {1, 2, 3, 4});
  WriteBytes(Path("short.npy"), ReadBytes(Path("x.npy")).substr(0, 140));
  ExpectError("conv2d --padding SAME --input short.npy" + filter, 3);
  EXPECT_EQ(Sh("convgrad inspect x.npy short.npy").exit_code, 3);
  ExpectError("conv2d --padding SAME --input 'a\nb\x1b[31m.npy'" + filter, 4,
              {"a\\x0ab\\x1b[31m.npy"});
}

}  // namespace
}  // namespace convgrad::testing
