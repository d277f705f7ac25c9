// Logs of other programs, end to end: imported, exported, replayed.
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kLogs = CONVGRAD_SOURCE_DIR "/data/logs";

class DialectsTest : public CliTest {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  nlohmann::json Line(const std::string& name, int number) const {
    std::ifstream file(Path(name));
    std::string line;
    for (int i = 0; i <= number; ++i) std::getline(file, line);
    return nlohmann::json::parse(line);
  }
};

TEST_F(DialectsTest, ImportsEveryLogToAManifestThatIsOne) {
  const struct {
    const char* dialect;
    const char* file;
    const char* summary;
  } logs[] = {
      {"onednn", "onednn2.log", "27 convolutions as 27 cases, 4 refused"},
      {"onednn", "onednn3.log", "36 convolutions as 29 cases, 19 lines of other output"},
      {"pytorch", "pytorch.log", "91 convolutions as 79 cases, 2 refused"},
      {"benchdnn", "benchdnn.txt", "14 convolutions as 14 cases, 2 refused"},
      {"miopen", "miopen.txt", "6 convolutions as 5 cases, 2 refused"},
      {"cudnn", "cudnn.json", "1 convolution as 1 case\n"},
      {"hipdnn", "hipdnn.json", "1 convolution as 1 case\n"},
  };
  for (const auto& log : logs) {
    const ShellResult result = Sh(
        fmt::format("convgrad import {} {}/{} --output cases.jsonl", log.dialect, kLogs, log.file));
    EXPECT_EQ(result.exit_code, 0) << log.file << result.err;
    EXPECT_THAT(result.out, HasSubstr(log.summary)) << log.file;
    EXPECT_EQ(Sh("convgrad batch cases.jsonl --lint").exit_code, 0) << log.file;
  }
}

// Lines of oneDNN's own lists must be taken, but for what is 3-D or no dimension at all.
TEST_F(DialectsTest, ImportsOneDnnsOwnProblems) {
  const ShellResult result = Sh(
      fmt::format("convgrad import benchdnn {}/tests/data/benchdnn_conv.txt --output cases.jsonl",
                  CONVGRAD_SOURCE_DIR));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("59 lines, 58 convolutions as 58 cases, 1 refused\n"));
  EXPECT_THAT(result.out, HasSubstr("1  a 3-D convolution"));
}

TEST_F(DialectsTest, NamesPointBackAndCountsAddUp) {
  Write("mb.txt", "--dir=FWD_D,BWD_W\nmb1ic2ih4oc3kh1\nmb1ic2ih4oc3kh1n\"again\"\n");
  EXPECT_EQ(Sh("convgrad import benchdnn mb.txt --output cases.jsonl").exit_code, 0);
  const nlohmann::json first = Line("cases.jsonl", 1), second = Line("cases.jsonl", 2);
  EXPECT_EQ(first["name"], "mb.txt:2");
  EXPECT_EQ(first["op"], "conv2d");
  EXPECT_EQ(first["count"], 2);
  EXPECT_EQ(second["name"], "mb.txt:2#2");
  EXPECT_EQ(second["op"], "conv2d_backprop_filter");
  // From standard input to standard output, where nothing else may go.
  const ShellResult piped = Sh("convgrad import benchdnn - --output - <mb.txt");
  EXPECT_EQ(piped.exit_code, 0);
  EXPECT_THAT(piped.out,
              StartsWith("{\"schema\": \"convgrad-manifest/1\"}\n{\"name\": \"stdin:2\""));
  EXPECT_THAT(piped.out, Not(HasSubstr("convolutions as")));
}

TEST_F(DialectsTest, RefusalsAreSeenAndCounted) {
  Write("mb.txt", "mb1ic2ih4oc3kh1\nmb1ic2id4oc3kd1\nmb1ic2ih4\nother\n");
  const ShellResult some = Sh("convgrad import benchdnn mb.txt --output c.jsonl --quiet");
  EXPECT_EQ(some.exit_code, 0);
  EXPECT_THAT(some.err, HasSubstr("4 lines, 1 convolution as 1 case, 2 refused, 1 line of other"));
  const ShellResult verbose = Sh("convgrad import benchdnn mb.txt --output c.jsonl --verbose");
  EXPECT_THAT(verbose.err, HasSubstr("mb.txt:2: refused: a 3-D convolution"));
  EXPECT_THAT(verbose.err, HasSubstr("mb.txt:3: refused: malformed or truncated: the channels"));
}

TEST_F(DialectsTest, NothingTakenIsNothingRan) {
  Write("3d.txt", "mb1ic2id4oc3kd1\n");
  Write("none.txt", "hello\n");
  Write("kept.jsonl", "before\n");
  for (const char* command :
       {"import benchdnn 3d.txt --output kept.jsonl", "import onednn none.txt --output kept.jsonl",
        "replay none.txt", "replay 3d.txt --check"}) {
    const ShellResult result = Sh(std::string("convgrad ") + command);
    EXPECT_EQ(result.exit_code, 6) << command << result.err;
    EXPECT_THAT(result.err, HasSubstr("convgrad: error: ")) << command;
  }
  EXPECT_EQ(Sh("cat kept.jsonl").out, "before\n");
  Write("mb.txt", "mb1ic2ih4oc3kh1\n");
  EXPECT_EQ(Sh("convgrad replay mb.txt --match none").exit_code, 6);
  EXPECT_EQ(Sh("convgrad replay mb.txt --match none --allow-empty").exit_code, 0);
}

TEST_F(DialectsTest, RefusesWrongWords) {
  Write("mb.txt", "mb1ic2ih4oc3kh1\n");
  const struct {
    const char* command;
    int exit_code;
    const char* why;
  } cases[] = {
      {"import onednm mb.txt --output c.jsonl", 2, "did you mean onednn?"},
      {"import jax mb.txt --output c.jsonl", 2, "it is only written"},
      {"import benchdnn mb.txt", 2, "'import' needs it"},
      {"import benchdnn none.txt --output c.jsonl", 4, "none.txt"},
      {"import benchdnn mb.txt --output mb.txt", 2, "mb.txt"},
      {"export onednn conv2d", 2, "it is only read"},
      {"export miopen conv2d --input fill:ones@1,4,4,1 --filter fill:ones@2,2,1,1 --padding SAME",
       2, "the same pads on both sides alone"},
      {"export onnx conv2d_backprop_filter --input fill:ones@1,4,4,1 --filter-sizes 1,1,1,1 "
       "--out-backprop fill:ones --padding SAME",
       2, "ONNX has no operator"},
      {"export pytorch conv2d --input x.safetensors:x --filter fill:ones@2,2,1,1 --padding SAME", 4,
       "x.safetensors"},
      {"replay mb.txt --check --max-time 1s", 2, "nothing is timed with --check"},
      {"replay mb.txt --allow-suspect", 2, "nothing is checked without --check"},
  };
  for (const auto& one : cases) {
    const ShellResult result = Sh(std::string("convgrad ") + one.command);
    EXPECT_EQ(result.exit_code, one.exit_code) << one.command << result.err;
    EXPECT_THAT(result.err, IsOneErrorLine()) << one.command;
    EXPECT_THAT(result.err, HasSubstr(one.why)) << one.command;
  }
}

// The lines written for benchdnn and MIOpenDriver are read back as the same problem.
TEST_F(DialectsTest, LinesComeBack) {
  for (const char* dialect : {"benchdnn", "miopen"}) {
    for (const char* flags :
         {"conv2d --input fill:normal@2,9,8,4 --filter fill:normal@3,3,2,6 --padding 1,1,0,0 "
          "--strides 2,1",
          "conv2d_backprop_input --input-sizes 2,4,9,8 --filter fill:normal@6,4,3,3 --out-backprop "
          "fill:normal --padding VALID --data-format NCHW --filter-format OIHW --dilations 2 "
          "--dtype bfloat16",
          "depthwise_conv2d_backprop_filter --input fill:normal@2,9,8,4 --filter-sizes 3,3,4,2 "
          "--out-backprop fill:normal --padding 1 --dtype float16"}) {
      const ShellResult line = Sh(fmt::format("convgrad export {} {}", dialect, flags));
      EXPECT_EQ(line.exit_code, 0) << line.err;
      Write("line.txt", line.out);
      EXPECT_EQ(Sh(fmt::format("convgrad import {} line.txt --output c.jsonl", dialect)).exit_code,
                0);
      EXPECT_EQ(Sh(fmt::format("convgrad export {} c.jsonl", dialect)).out, line.out);
    }
  }
}

TEST_F(DialectsTest, ExportsCasesOfManifests) {
  Write("mb.txt", "--dir=FWD_D,BWD_W\nmb1ic2ih4oc3kh1\n");
  EXPECT_EQ(Sh("convgrad import benchdnn mb.txt --output c.jsonl").exit_code, 0);
  const ShellResult lines = Sh("convgrad export benchdnn c.jsonl");
  EXPECT_THAT(lines.out, HasSubstr("--dir=FWD_D "));
  EXPECT_THAT(lines.out, HasSubstr("--dir=BWD_W "));
  EXPECT_THAT(Sh("convgrad export jax c.jsonl").err, HasSubstr("mb.txt:2#2 is the second"));
  EXPECT_THAT(Sh("convgrad export jax c.jsonl --match 'mb.txt:2'").out, HasSubstr("import jax\n"));
  EXPECT_EQ(Sh("convgrad export jax c.jsonl --match none").exit_code, 6);
}

TEST_F(DialectsTest, ReplaysWeighted) {
  Write("mixed.log",
        "start\nmb1ic2ih4oc3kh1\nMIOpenDriver conv -n 1 -c 2 -H 4 -W 4 -k 3 -y 1 -x 1 -F 1\n"
        "mb1ic2ih5oc3kh1\nmb1ic2id5oc3kd1\n");
  const ShellResult bench =
      Sh("convgrad replay mixed.log --max-time 20ms --threads 1 --report r.json --csv t.csv");
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("1 refused"));
  const nlohmann::json report = Report();
  EXPECT_EQ(report["benchmarks"].size(), 3U);

  Write("twice.log", "mb1ic2ih4oc3kh1\nmb1ic2ih5oc3kh1\nmb1ic2ih4oc3kh1\n");
  const ShellResult twice =
      Sh("convgrad replay twice.log --max-time 20ms --threads 1 --report r.json");
  EXPECT_THAT(twice.out, HasSubstr("3 calls in all take "));
  EXPECT_THAT(twice.out, HasSubstr("%  2 x "));
  EXPECT_EQ(Report()["benchmarks"][0]["count"], 2);
  EXPECT_FALSE(Report()["benchmarks"][1].contains("count"));

  const ShellResult check = Sh("convgrad replay twice.log --check");
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("2 cases, 2 PASSED; 3 calls, 3 PASSED; "));
}

}  // namespace
}  // namespace convgrad::testing
