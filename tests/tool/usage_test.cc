// The command line itself: what is refused, with which words; help and its examples.
#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kUnpadded = "run conv2d --input fill:ones@1,4,4,1 --filter fill:ones@3,3,1,1";
constexpr const char* kConv =
    "conv2d --padding SAME --input fill:ones@1,4,4,1 --filter fill:ones@3,3,1,1";

class UsageTest : public CliTest {
 protected:
  // `command` is refused as usage, in one line with all of `words`, and leaves nothing behind.
  void ExpectRefused(const std::string& command, const std::vector<std::string>& words) {
    const ShellResult result = Sh("convgrad " + command);
    SCOPED_TRACE(command);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, IsOneErrorLine());
    for (const std::string& word : words) EXPECT_THAT(result.err, HasSubstr(word));
    EXPECT_THAT(Files(), ::testing::IsEmpty());
  }
  // A result that waits for review in the directory `review`.
  void LeavePending() {
    WriteBytes(Path("m.jsonl"), R"({"name": "a", "op": "conv2d", "input": "fill:ones@1,4,4,1",)"
                                R"( "padding": "SAME", "filter": "fill:ones@3,3,1,1",)"
                                R"( "expect": "g.npy"})");
    EXPECT_EQ(Sh("convgrad batch m.jsonl --write-pending review").exit_code, 1);
  }
  void ExpectConvRefused(const std::string& flags, const std::vector<std::string>& words) {
    ExpectRefused(fmt::format("run {} {}", kConv, flags), words);
  }
};

TEST_F(UsageTest, CommandsAndFlagsThatDoNotExist) {
  ExpectRefused("", {"names no command", "convgrad help"});
  ExpectRefused("rnu conv2d", {"'rnu'", "did you mean run?"});
  ExpectRefused("frobnicate m.json", {"'frobnicate'", "there is no such command"});
  ExpectConvRefused("--ouput y.npy", {"--ouput", "did you mean --output?"});
  ExpectConvRefused("--no-clober", {"did you mean --no-clobber?"});
  ExpectConvRefused("--ouput=y.npy", {"--ouput:", "did you mean --output?"});
  ExpectConvRefused("-v", {"-v", "'convgrad help run' lists the flags"});
  ExpectRefused("run conv2d_backprop_fliter", {"did you mean conv2d_backprop_filter?"});
  ExpectRefused("run conv2d_transpose", {"conv2d_backprop_input"});
}

TEST_F(UsageTest, FlagsWithoutEffectValuesMissingOrGivenTwice) {
  ExpectRefused("info --output y.npy", {"--output", "no effect on 'info'"});
  ExpectRefused("inspect --strides 2 x.npy", {"--strides", "no effect on 'inspect'"});
  ExpectRefused("gen --report -", {"--report", "no effect"});
  ExpectConvRefused("--expect g.npy", {"--expect", "no effect on 'run'"});
  ExpectConvRefused("--out-backprop fill:ones", {"--out-backprop", "no effect on conv2d"});
  ExpectConvRefused("--filter-sizes 3,3,1,1", {"--filter-sizes", "no effect on conv2d"});
  ExpectRefused("run conv2d --padding SAME --input fill:ones@1,4,4,1",
                {"--filter", "conv2d needs it"});
  ExpectConvRefused("--output", {"--output", "needs a value"});
  ExpectConvRefused("--output --quiet", {"--output", "needs a value"});
  ExpectConvRefused("--output= --quiet", {"--output", "needs a value"});
  for (const std::string name :
       {"--output", "--report", "--name", "--threads", "--strides", "--dtype"}) {
    ExpectConvRefused(name + " ''", {name, "needs a value"});
  }
  ExpectRefused("run conv2d --padding SAME --input '' --filter fill:ones@3,3,1,1",
                {"--input", "needs a value"});
  ExpectRefused("batch m.json --output-root ''", {"--output-root", "needs a value"});
  ExpectRefused("inspect x.npy ''", {"inspect", "an operand is empty"});
  ExpectConvRefused("--quiet=no", {"--quiet", "takes no value"});
  ExpectConvRefused("--seed 1 --seed 2", {"--seed", "more than once"});
  ExpectConvRefused("conv2d", {"does not know what to do with 'conv2d'"});
  ExpectRefused("run", {"needs OP"});
  ExpectRefused("diff a.npy", {"needs A B"});
  ExpectRefused("gen --fill ones --shape 2", {"--output", "needs it"});
}

TEST_F(UsageTest, NamesThatManifestsRefuse) {
  ExpectConvRefused("--name \"$(printf 'a\\nb')\"", {"--name", "control character"});
  ExpectConvRefused("--name $(printf 'a%.0s' $(seq 4097))", {"--name", "4097 bytes"});
}

TEST_F(UsageTest, ValuesThatDoNotParse) {
  for (const std::string threads :
       {"0", "-1", "1000000000", "99999999999999999999", "two", "2.0"}) {
    ExpectConvRefused("--threads " + threads, {"--threads", threads});
  }
  ExpectConvRefused("--strides 1,x", {"--strides", "'x' is not a whole number"});
  ExpectConvRefused("--strides 1,,1", {"--strides", "not a whole number"});
  ExpectConvRefused("--strides 99999999999999999999", {"--strides", "too large"});
  ExpectRefused(fmt::format("{} --padding sane", kUnpadded), {"--padding", "did you mean SAME?"});
  ExpectConvRefused("--data-format NWHC", {"did you mean NHWC?"});
  ExpectConvRefused("--dtype float23", {"did you mean float32?"});
  ExpectConvRefused("--dtype int32", {"--dtype"});
  ExpectConvRefused("--isa avx1024", {"--isa", "avx512"});
  ExpectConvRefused("--isa neon", {"--isa neon", "use one of: auto", "scalar"});
  ExpectConvRefused("--algorithm winograd", {"--algorithm winograd", "use one of", "reference"});
  ExpectConvRefused("--precision quad",
                    {"--precision", "'quad'", "use one of: standard, double, exact"});
  ExpectConvRefused("--precision dubble", {"did you mean double?"});
  ExpectConvRefused("--precision exact --algorithm channel-lanes",
                    {"--algorithm channel-lanes", "standard, not exact", "certified, reference"});
  ExpectConvRefused("--max-memory lots", {"--max-memory", "8GiB"});
  ExpectConvRefused("--max-memory 0", {"--max-memory", "at least one byte"});
  ExpectConvRefused("--max-memory 4194304TiB", {"--max-memory", "less than 4194304TiB"});
  ExpectConvRefused("--color blue", {"--color"});
  ExpectConvRefused("--bfloat16-as V3", {"did you mean V2?"});
  ExpectConvRefused("--use-cudnn-on-gpu maybe", {"--use-cudnn-on-gpu", "true"});
  ExpectConvRefused("--seed -1", {"--seed"});
  ExpectRefused(
      "gen --output y.npy --fill ones --shape 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
      "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
      {"--shape", "more than 32 dimensions"});
  ExpectRefused("run conv2d --padding SAME --input fill:zeros --filter fill:ones@3,3,1,1",
                {"fill:zeros@"});
  ExpectRefused("run conv2d --padding SAME --input fill:sevens@1 --filter fill:ones@1,1,1,1",
                {"fill"});
  ExpectRefused("run conv2d --padding SAME --input - --filter -",
                {"--input - and --filter -", "standard input"});
  ExpectRefused(fmt::format("check {} --tolerance abs:-1", kConv), {"abs:-1"});
  ExpectRefused(fmt::format("check {} --tolerance rel:nan", kConv), {"rel:nan"});
  ExpectRefused(fmt::format("check {} --golden-accumulator f8", kConv), {"f8"});
  for (const char* odds : {"0", "1", "-1e-9", "1e-301", "nan", "few", "1e-9x", "1e-9999"}) {
    ExpectRefused(fmt::format("check {} --odds {}", kConv, odds), {"--odds", odds, "below 1"});
  }
  ExpectRefused(fmt::format("check {} --dtype bfloat16 --golden-accumulator tf32", kConv),
                {"sums in TF32", "bfloat16"});
  ExpectRefused(fmt::format("check {} --dtype bfloat16 --golden-accumulator f16", kConv),
                {"sums in float16", "bfloat16"});
  ExpectRefused(fmt::format("check {} --operand-rounding tf32", kConv),
                {"--operand-rounding", "--actual"});
  ExpectRefused(fmt::format("check {} --actual y.npy --operand-rounding f32", kConv), {"f32"});
  ExpectRefused(fmt::format("check {} --strict", kConv), {"--strict"});
  ExpectRefused(fmt::format("check {} --expect sha256:12", kConv), {"64"});
  ExpectRefused(fmt::format("check {} --tolerance rel:1e-3 --expect sha256:{:064}", kConv, 0),
                {"--tolerance rel:0.001", "a hash can only be compared by bits"});
}

// TensorFlow has no default either, and that of others would be another.
TEST_F(UsageTest, APaddingMustBeNamed) {
  const auto refused = [this](const std::string& command, const std::string& words) {
    ExpectRefused(command, {"--padding: it has no default", words});
  };
  const std::string gradient =
      "run conv2d_backprop_filter --input fill:ones@1,6,6,1 --filter-sizes 3,3,1,1 "
      "--out-backprop fill:ones@";
  refused(kUnpadded, "both SAME and VALID fit the shapes; give the one you mean");
  refused(gradient + "1,6,6,1", "of SAME and VALID, SAME fits the shapes; give SAME if you mean");
  refused(gradient + "1,4,4,1", "of SAME and VALID, VALID fits the shapes");
  refused(gradient + "1,5,5,1", "neither SAME nor VALID fits the shapes; give EXPLICIT");
  refused("plan conv2d --input none.npy --filter fill:ones@3,3,1,1",
          "give SAME, VALID or EXPLICIT");
  refused("run conv2d --input - --filter fill:ones@3,3,1,1", "give SAME, VALID or EXPLICIT");
  ExpectRefused(fmt::format("{} --explicit-paddings 1,1,1,1", kUnpadded),
                {"--padding: --explicit-paddings needs it; give EXPLICIT"});
}

TEST_F(UsageTest, FlagsComeInAnyOrderAndBothForms) {
  const std::string reference =
      Sh(fmt::format("convgrad run {} --output - --strides 2", kConv)).out;
  EXPECT_FALSE(reference.empty());
  EXPECT_EQ(Sh("convgrad --strides=2 --output=- run --input=fill:ones@1,4,4,1 "
               "--filter=fill:ones@3,3,1,1 --padding=SAME conv2d")
                .out,
            reference);
  EXPECT_EQ(Sh("convgrad run --output - -- tf.nn.conv2d --padding SAME --strides 2").exit_code, 2);
}

TEST_F(UsageTest, VersionAndHelp) {
  EXPECT_EQ(Sh("convgrad --version").out, "convgrad 0.1.0\n");
  const ShellResult top = Sh("convgrad help");
  EXPECT_EQ(top.exit_code, 0);
  EXPECT_EQ(Sh("convgrad --help").out, top.out);
  EXPECT_EQ(Sh("convgrad run --help").out, Sh("convgrad help run").out);
  EXPECT_THAT(Sh("convgrad help --format man").out, StartsWith(".TH CONVGRAD 1"));
  ExpectRefused("help frobnicate", {"'frobnicate'"});
  ExpectRefused("help fill", {"'fill'", "did you mean fills?"});
  ExpectRefused("help --format html", {"--format", "'html'"});
}

TEST_F(UsageTest, LettersStandForFlags) {
  EXPECT_EQ(Sh("convgrad -V").out, Sh("convgrad --version").out);
  EXPECT_EQ(Sh("convgrad run -h").out, Sh("convgrad help run").out);
  const ShellResult quiet = Sh(fmt::format("convgrad run {} -q -o y.npy", kConv));
  EXPECT_EQ(quiet.exit_code, 0) << quiet.err;
  EXPECT_EQ(quiet.out, "");
  EXPECT_TRUE(Exists("y.npy"));
  EXPECT_EQ(Sh("rm y.npy").exit_code, 0);
  ExpectConvRefused("-o", {"--output", "needs a value"});
  ExpectConvRefused("-o -q", {"--output", "needs a value"});
  ExpectConvRefused("-o y.npy --output z.npy", {"--output", "more than once"});
  ExpectRefused("info -o y.npy", {"--output", "no effect on 'info'"});
  ExpectConvRefused("-x", {"-x", "there is no such flag"});
}

TEST_F(UsageTest, AForgottenCommandIsNamed) {
  ExpectRefused(kConv, {"'conv2d'", "did you mean 'convgrad run conv2d ...'?"});
  ExpectRefused("tf.nn.conv2d_backprop_input", {"'convgrad run tf.nn.conv2d_backprop_input ...'"});
  ExpectRefused("torch.nn.grad.conv2d_weight", {"'convgrad run torch.nn.grad.conv2d_weight ...'"});
  ExpectRefused("x.npy", {"'convgrad inspect x.npy ...'"});
  ExpectRefused("cases.jsonl", {"'convgrad batch cases.jsonl ...'"});
}

TEST_F(UsageTest, ARunWithoutOutputSaysSo) {
  EXPECT_THAT(Sh(fmt::format("convgrad run {}", kConv)).out,
              HasSubstr("; nothing was written: there is no --output"));
  EXPECT_THAT(Sh(fmt::format("convgrad run {} -o y.npy", kConv)).out,
              ::testing::Not(HasSubstr("nothing")));
}

TEST_F(UsageTest, WhatIsNoArrayIsNamed) {
  const struct {
    const char *content, *name;
  } kRows[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n", "git lfs pull"},
      {"version 2 of something", "numpy.save"},
      {"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "an HTML page"},
      {"\n  <HTML><head>", "an HTML page"},
      {"<", "numpy.save"}};
  for (const auto& row : kRows) {
    WriteBytes(Path("x.npy"), row.content);
    const ShellResult result = Sh("convgrad inspect x.npy");
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr(row.name)) << row.content;
  }
  for (const char* name : {"x.npz", "x.safetensors"}) {
    WriteBytes(Path(name), kRows[0].content);
    const ShellResult result = Sh(fmt::format("convgrad inspect {}", name));
    EXPECT_EQ(result.exit_code, 3) << name;
    EXPECT_THAT(result.err, HasSubstr(kRows[0].name)) << name;
  }
}

// The length of its header, 0x8B1F, is how gzip data start.
TEST_F(UsageTest, AHeaderThatLooksForeignIsRead) {
  std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize(0x8B1F, ' ');
  const std::string length("\x1F\x8B\0\0\0\0\0\0", 8);
  WriteBytes(Path("x.safetensors"), length + header + std::string(4, '\0'));
  EXPECT_EQ(Sh("convgrad inspect x.safetensors").exit_code, 0);
}

TEST_F(UsageTest, InspectGoesOnAfterABadFile) {
  Sh("convgrad gen --fill integer --shape 2,3 -o x.npy");
  WriteBytes(Path("bad.npy"), "nothing");
  const ShellResult result = Sh("convgrad inspect bad.npy x.npy none.npy --report r.json");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("bad.npy: npy/not-npy"));
  EXPECT_THAT(result.err, HasSubstr("none.npy: "));
  EXPECT_THAT(result.out, HasSubstr("x.npy\n  type         float32"));
  const nlohmann::json entries = Report()["benchmarks"];
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0]["error"]["code"], "npy/not-npy");
  EXPECT_EQ(entries[1]["inputs"][0]["shape"], nlohmann::json({2, 3}));
  EXPECT_EQ(entries[1]["inputs"][0]["statistics"]["nan"], 0);
  EXPECT_EQ(entries[2]["exit_code"], 4);
}

// Shells give this for <(command).
TEST_F(UsageTest, PipesThatShellsNameAreRead) {
  Sh("convgrad gen --fill normal --shape 1,9,9,2 -o x.npy");
  Sh("convgrad gen --fill normal --shape 3,3,2,2 --role filter -o w.npy");
  const std::string conv = "convgrad run conv2d --padding SAME -o - ";
  const std::string expected = Sh(conv + "--input x.npy --filter w.npy").out;
  ASSERT_FALSE(expected.empty());
  const ShellResult result =
      Sh("bash -c 'convgrad run conv2d --padding SAME -o - --input <(sleep 0.2; cat x.npy) "
         "--filter <(cat w.npy)'");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, expected);
  EXPECT_EQ(Sh("bash -c 'convgrad diff <(cat x.npy) <(cat x.npy)'").exit_code, 0);
  const std::string manifest =
      R"({"schema": "convgrad-manifest/1", "cases": [{"name": "a", "op": "conv2d", "padding": "SAME", )"
      R"("input": "fill:ones@1,4,4,1", "filter": "fill:ones@3,3,1,1"}]})";
  WriteBytes(Path("m.json"), manifest);
  EXPECT_THAT(Sh("bash -c 'convgrad batch <(cat m.json)'").out, HasSubstr("1 case, 1 COMPUTED"));
  // Nobody would write to it.
  EXPECT_EQ(Sh("mkfifo fifo; convgrad inspect fifo").exit_code, 4);
}

// The last two lines of every help text, in the order of the commands, as from the repository's
// root.
TEST_F(UsageTest, ExamplesOfTheHelpWork) {
  std::filesystem::create_directory_symlink(CONVGRAD_SOURCE_DIR "/data", Path("data"));
  int examples = 0;
  for (const std::string command : {"", "run", "check", "diff", "plan", "gen", "inspect", "batch",
                                    "merge", "accept", "prune", "bench", "info", "help"}) {
    if (command == "accept") LeavePending();
    std::istringstream help(Sh(fmt::format("convgrad {} --help", command)).out);
    std::vector<std::string> lines;
    for (std::string line; std::getline(help, line);) lines.push_back(line);
    ASSERT_GE(lines.size(), 2u);
    for (size_t i = lines.size() - 2; i < lines.size(); ++i) {
      ASSERT_THAT(lines[i], StartsWith("  convgrad "));
      const ShellResult result = Sh("unset CI; " + lines[i]);
      EXPECT_EQ(result.exit_code, 0) << lines[i] << "\n" << result.err;
      ++examples;
    }
  }
  EXPECT_EQ(examples, 28);
  Report("report.json");
}

TEST_F(UsageTest, InfoTellsWhatThereIs) {
  const nlohmann::json info = nlohmann::json::parse(Sh("convgrad info --json").out);
  EXPECT_EQ(info["version"], "0.1.0");
  EXPECT_EQ(info["ops"].size(), 6u);
  EXPECT_EQ(info["dtypes"].size(), 4u);
  EXPECT_EQ(info["isa"], info["isa_available"][0]);
  EXPECT_EQ(info["isa_available"].back(), "scalar");
  EXPECT_TRUE(info["machine"]["num_cpus"] >= 1);
  bool has_reference = false;
  for (const auto& algorithm : info["algorithms"]) {
    has_reference |= algorithm["name"] == "reference" && algorithm["ops"].size() == 6;
  }
  EXPECT_TRUE(has_reference);
  EXPECT_THAT(Sh("convgrad info").out, HasSubstr("depthwise_conv2d_backprop_filter"));
}

TEST_F(UsageTest, ErrorsGoIntoTheReport) {
  EXPECT_EQ(Sh(fmt::format("convgrad run {} --frobnicate --report r.json", kConv)).exit_code, 2);
  const nlohmann::json early = Report();
  EXPECT_EQ(early["error"]["code"], "flag/unknown");
  EXPECT_EQ(early["benchmarks"].size(), 0u);

  EXPECT_EQ(Sh(fmt::format("convgrad run {} --strides 0 --report r.json", kConv)).exit_code, 2);
  const nlohmann::json report = Report();
  const nlohmann::json entry = report["benchmarks"][0];
  EXPECT_FALSE(report.contains("error"));
  EXPECT_EQ(entry["error"]["code"], "attribute/strides");
  EXPECT_EQ(entry["status"], "ERROR");
  EXPECT_EQ(entry["exit_code"], 2);
}

}  // namespace
}  // namespace convgrad::testing
