// `run`, `gen`, `plan` and `inspect` end to end: values, operands from everywhere, outputs,
// reports.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "support/cli_testing.h"
#include "tensor/tensor_hash.h"

namespace convgrad::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RunTest : public CliTest {
 protected:
  // A 3x3 image, a 2x2 gradient of its VALID convolution with a 2x2 filter.
  void SetUp() override {
    WriteFloats("x.npy", {1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    WriteFloats("dy.npy", {1, 2, 2, 1}, {1, 10, 100, 1000});
    WriteFloats("w.npy", {2, 2, 1, 1}, {1, 2, 3, 4});
  }
  // `command` succeeds.
  ShellResult Ok(const std::string& command) {
    const ShellResult result = Sh(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    return result;
  }
};

constexpr const char* kRunFilterGradient =
    "convgrad run conv2d_backprop_filter --input x.npy --out-backprop dy.npy "
    "--filter-sizes 2,2,1,1 --padding VALID";

TEST_F(RunTest, ComputesWhatTensorFlowDefines) {
  const ShellResult result = Ok(std::string(kRunFilterGradient) + " --output dw.npy");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(ReadFloats("dw.npy"), ElementsAre(5421, 6532, 8754, 9865));

  Ok("convgrad run conv2d_backprop_input --input-sizes 1,3,3,1 --filter w.npy "
     "--out-backprop dy.npy --padding VALID --output dx.npy");
  EXPECT_THAT(ReadFloats("dx.npy"), ElementsAre(1, 12, 20, 103, 1234, 2040, 300, 3400, 4000));

  Ok("convgrad run conv2d --input x.npy --filter w.npy --padding VALID --output y.npy");
  EXPECT_THAT(ReadFloats("y.npy"), ElementsAre(37, 47, 67, 77));
}

TEST_F(RunTest, EverySpellingOfAnOpIsTheSame) {
  const std::string expected = Ok(std::string(kRunFilterGradient) + " --output -").out;
  for (const std::string name : {"Conv2DBackpropFilter", "tf.raw_ops.Conv2DBackpropFilter",
                                 "tf.compat.v1.nn.conv2d_backprop_filter"}) {
    EXPECT_EQ(Ok("convgrad run " + name +
                 " --input x.npy --out-backprop dy.npy --padding VALID "
                 "--filter-sizes 2,2,1,1 --output -")
                  .out,
              expected);
  }
}

TEST_F(RunTest, PipesInAndOut) {
  Ok(std::string(kRunFilterGradient) + " --output dw.npy");
  const ShellResult piped =
      Ok("cat x.npy | convgrad run conv2d_backprop_filter --input - --out-backprop dy.npy "
         "--filter-sizes 2,2,1,1 --padding VALID --output - | cat");
  EXPECT_EQ(piped.out, ReadBytes(Path("dw.npy")));
  EXPECT_EQ(piped.err, "");
  const ShellResult report = Ok(std::string(kRunFilterGradient) + " --report -");
  EXPECT_EQ(ReportIn(report.out)["benchmarks"][0]["status"], "COMPUTED");
  EXPECT_EQ(report.err, "");
}

TEST_F(RunTest, SizesComeInlineOrFromAFile) {
  Ok(std::string(kRunFilterGradient) + " --output inline.npy");
  WriteIntegers("sizes.npy", {2, 2, 1, 1});
  Ok("convgrad run conv2d_backprop_filter --input x.npy --out-backprop dy.npy "
     "--filter-sizes sizes.npy --padding VALID --output file.npy --report r.json");
  EXPECT_EQ(ReadBytes(Path("file.npy")), ReadBytes(Path("inline.npy")));
  const nlohmann::json inputs = Report()["benchmarks"][0]["inputs"];
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(inputs[2]["role"], "filter_sizes");
  EXPECT_EQ(inputs[2]["dtype"], "int64");

  const std::string run =
      "convgrad run conv2d_backprop_filter --input x.npy --out-backprop dy.npy "
      "--padding VALID --filter-sizes ";
  WriteIntegers("short.npy", {2, 2, 1});
  EXPECT_EQ(Sh(run + "short.npy").exit_code, 3);
  EXPECT_EQ(Sh(run + "2,2,1").exit_code, 2);
  WriteIntegers("negative.npy", {2, 2, 1, -1});
  EXPECT_EQ(Sh(run + "negative.npy").exit_code, 3);
  EXPECT_EQ(Sh(run + "2,2,1,-1").exit_code, 2);
  EXPECT_EQ(Sh(run + "x.npy").exit_code, 3);
  EXPECT_EQ(Sh(run + "none.npy").exit_code, 4);
  // With a fill whose shape would follow from them, the class stays the same.
  EXPECT_EQ(Sh("convgrad run conv2d_backprop_filter --input x.npy --out-backprop fill:ones "
               "--padding VALID --filter-sizes 2,2,1,-1")
                .exit_code,
            2);
}

TEST_F(RunTest, TheReportTellsAll) {
  Ok(std::string(kRunFilterGradient) +
     " --output dw.npy --report r.json --name 'a \"name\"' --use-cudnn-on-gpu false --threads 2");
  const nlohmann::json report = Report();
  const nlohmann::json& entry = report["benchmarks"][0];
  EXPECT_EQ(entry["name"], "a \"name\"");
  EXPECT_EQ(entry["status"], "COMPUTED");
  EXPECT_EQ(entry["exit_code"], 0);
  EXPECT_EQ(entry["threads"], 2);
  EXPECT_EQ(entry["problem"]["op"], "conv2d_backprop_filter");
  EXPECT_EQ(entry["problem"]["use_cudnn_on_gpu"], false);
  EXPECT_EQ(entry["problem"]["out_backprop"], nlohmann::json({1, 2, 2, 1}));
  EXPECT_EQ(entry["problem"]["flops"], 32);
  EXPECT_EQ(entry["problem"]["terms"], 4);
  EXPECT_EQ(entry["problem"]["input_bytes"], 52);
  EXPECT_EQ(entry["problem"]["output_bytes"], 16);
  EXPECT_EQ(entry["run"]["algo"], "canon-1");
  EXPECT_EQ(entry["inputs"][0]["path"], "x.npy");
  EXPECT_EQ(entry["inputs"][0]["sha256"], DataHash(ReadNpy(Path("x.npy")).tensor));
  EXPECT_EQ(entry["output"]["path"], "dw.npy");
  EXPECT_EQ(entry["output"]["sha256"], DataHash(ReadNpy(Path("dw.npy")).tensor));
  EXPECT_GT(entry["timing"]["total_ms"], 0);
  EXPECT_EQ(report["context"]["convgrad"]["schema"], "convgrad-report/1");
  EXPECT_THAT(report["context"]["convgrad"]["command"].get<std::string>(),
              HasSubstr("--name 'a \"name\"'"));

  // The case alone again: the same result, no files.
  const std::string repro = entry["repro"];
  EXPECT_THAT(repro, HasSubstr(" run conv2d_backprop_filter --"));
  EXPECT_THAT(repro, Not(HasSubstr("--output")));
  EXPECT_THAT(repro, Not(HasSubstr("--report")));
  EXPECT_THAT(Ok(repro).out, HasSubstr(entry["output"]["sha256"].get<std::string>()));

  Ok(std::string(kRunFilterGradient) + " --no-hash --report r.json");
  const nlohmann::json plain = Report()["benchmarks"][0];
  EXPECT_FALSE(plain["inputs"][0].contains("sha256"));
  EXPECT_FALSE(plain["output"].contains("sha256"));
  EXPECT_TRUE(plain["output"]["path"].is_null());
}

// Such a name can neither pass for text of the tool's own nor get lost on the way to a line that
// repeats the case.
TEST_F(RunTest, NamesOfFilesMayHaveAnyByte) {
  for (const std::string name :
       {"--x.npy", "it's \\.npy", "a\nb.npy", "\x1b[31m.npy", "\xC2\x9B\x33\x31m.npy",
        "\xE2\x80\xAE\xD8\x9C.npy", "\xFF\x31.npy", "\xC3\xA9.npy"}) {
    SCOPED_TRACE(name);
    std::filesystem::copy_file(Path("x.npy"), Path(name));
    WriteBytes(Path("name"), name);
    // The name of a case has no control character.
    Ok("convgrad run conv2d --padding SAME --input=\"$(cat name)\" --filter w.npy "
       "--name=\"$(tr -d '\\000-\\037' <name)\" --output=\"$(cat name)\".y --report r.json");
    const nlohmann::json entry = Report()["benchmarks"][0];
    const std::string repro = entry["repro"];
    WriteBytes(Path("repro"), repro + " --report again.json");
    Ok("bash repro");
    const nlohmann::json again = Report("again.json")["benchmarks"][0];
    EXPECT_EQ(again["repro"], repro);
    EXPECT_EQ(again["name"], entry["name"]);
    const std::string out =
        Ok("convgrad inspect -- \"$(cat name)\"; convgrad diff -- "
           "\"$(cat name)\" x.npy; convgrad run conv2d --padding SAME --filter w.npy "
           "--input x.npy --output=\"$(cat name)\".y")
            .out;
    for (const std::string hidden : {"a\nb", "\x1b", "\xC2\x9B", "\xE2\x80\xAE", "\xD8\x9C"}) {
      EXPECT_THAT(repro, Not(HasSubstr(hidden)));
      EXPECT_THAT(out, Not(HasSubstr(hidden)));
    }
  }
}

TEST_F(RunTest, GenWritesWhatAFillIs) {
  const std::string flags = "--seed 9 --dtype float16 --output";
  Ok("convgrad gen --fill normal --shape 1,5,5,3 " + flags + " x.npy");
  Ok("convgrad gen --fill uniform:-1:1@3,3,3,2 --role filter " + flags + " w.npy");
  Ok("convgrad run conv2d --padding SAME --input x.npy --filter w.npy --output files.npy");
  Ok("convgrad run conv2d --padding SAME --input fill:normal@1,5,5,3 --filter "
     "fill:uniform:-1:1@3,3,3,2 " +
     flags + " fills.npy --report r.json");
  EXPECT_EQ(ReadBytes(Path("files.npy")), ReadBytes(Path("fills.npy")));
  EXPECT_EQ(Report()["benchmarks"][0]["inputs"][0]["sha256"],
            DataHash(ReadNpy(Path("x.npy")).tensor));
  EXPECT_EQ(Sh("convgrad gen --fill ones@2 --shape 2 --output y.npy").exit_code, 2);
  EXPECT_EQ(Sh("convgrad gen --fill ones --shape 100000,10000,10000 --output y.npy").exit_code, 4);
  EXPECT_EQ(Sh("convgrad gen --fill ones --shape 2147483648 --output y.npy").exit_code, 2);
  Ok("convgrad gen --fill ones --shape '' --output scalar.npy");
  EXPECT_THAT(ReadFloats("scalar.npy"), ElementsAre(1));
}

TEST_F(RunTest, ShapesAndTypesOfFillsFollowFromTheRest) {
  Ok("convgrad run conv2d_backprop_filter --input x.npy --out-backprop fill:ones --padding VALID "
     "--filter-sizes 2,2,1,1 --output dw.npy");
  EXPECT_THAT(ReadFloats("dw.npy"), ElementsAre(12, 16, 24, 28));
  Ok("convgrad run conv2d_backprop_input --input-sizes 1,3,3,1 --filter w.npy --padding VALID "
     "--out-backprop fill:impulse:0 --output dx.npy");
  EXPECT_THAT(ReadFloats("dx.npy"), ElementsAre(1, 2, 0, 3, 4, 0, 0, 0, 0));
  Ok("convgrad gen --fill ones --shape 1,3,3,1 --dtype float64 --output x64.npy");
  Ok("convgrad run conv2d --padding SAME --input x64.npy --filter fill:ones@2,2,1,1 --report "
     "r.json");
  EXPECT_EQ(Report()["benchmarks"][0]["problem"]["dtype"], "float64");
  for (const std::string underdetermined :
       {"conv2d_backprop_filter --input fill:ones --out-backprop dy.npy --filter-sizes 2,2,1,1",
        "conv2d_backprop_input --filter fill:ones --out-backprop dy.npy --input-sizes 1,3,3,1",
        "conv2d_backprop_input --filter w.npy --out-backprop fill:ones --input-sizes 3,3"}) {
    const ShellResult result = Sh("convgrad run --padding VALID " + underdetermined);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("fill:ones@"));
  }
}

TEST_F(RunTest, BFloat16ComesAndGoesInThreeForms) {
  const std::string run =
      "convgrad run conv2d --padding SAME --input fill:ones@1,2,2,1 --filter "
      "fill:ones@1,1,1,1 --dtype bfloat16 --output ";
  EXPECT_THAT(Ok(run + "v2.npy").out, HasSubstr("view(ml_dtypes.bfloat16)"));
  Ok(run + "u2.npy --bfloat16-as u2");
  Ok(run + "f4.npy --bfloat16-as f4");
  EXPECT_THAT(ReadBytes(Path("v2.npy")), HasSubstr("'<V2'"));
  EXPECT_THAT(ReadBytes(Path("u2.npy")), HasSubstr("'<u2'"));
  EXPECT_THAT(ReadFloats("f4.npy"), ElementsAre(1, 1, 1, 1));
  for (const std::string name : {"v2.npy", "u2.npy"}) {
    const std::string inspect = "convgrad inspect " + name;
    const ShellResult refused = Sh(inspect);
    EXPECT_EQ(refused.exit_code, 3);
    EXPECT_THAT(refused.err, HasSubstr("--dtype"));
    EXPECT_THAT(Ok(inspect + " --dtype bfloat16").out, HasSubstr("range        1 to 1"));
  }
}

TEST_F(RunTest, TypesMustAgree) {
  Ok("convgrad gen --fill ones --shape 2,2,1,1 --dtype float16 --output half.npy");
  const std::string mixed = "convgrad run conv2d --padding SAME --input x.npy --filter half.npy";
  EXPECT_EQ(Sh(mixed).exit_code, 3);
  EXPECT_THAT(Sh(mixed).err, HasSubstr("holds float16 where x.npy holds float32"));
  const std::string told =
      "convgrad run conv2d --padding SAME --input x.npy --filter w.npy --dtype float64";
  EXPECT_EQ(Sh(told).exit_code, 3);
  EXPECT_THAT(Sh(told).err, HasSubstr("--dtype says float64"));
  WriteIntegers("integers.npy", {1, 2});
  EXPECT_EQ(Sh("convgrad run conv2d --padding SAME --input integers.npy --filter w.npy").exit_code,
            3);
}

TEST_F(RunTest, OutputsAreReplacedWholeUnlessToldNotTo) {
  Ok("convgrad run conv2d --padding SAME --input x.npy --filter w.npy --output y.npy");
  const std::string first = ReadBytes(Path("y.npy"));
  const std::string other =
      "convgrad run conv2d --padding SAME --input x.npy --filter w.npy --strides 2 --output ";
  const ShellResult refused = Sh(other + "y.npy --no-clobber");
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err, IsOneErrorLine());
  EXPECT_EQ(ReadBytes(Path("y.npy")), first);
  Ok(other + "y.npy");
  EXPECT_NE(ReadBytes(Path("y.npy")), first);
  Ok(other + "new.npy --no-clobber");
  EXPECT_THAT(Files(), ElementsAre("dy.npy", "new.npy", "w.npy", "x.npy", "y.npy"));
}

TEST_F(RunTest, BytesAfterTheArrayAreAccepted) {
  Ok("cat x.npy w.npy > both.npy");
  const std::string run = "convgrad run conv2d --padding SAME --input both.npy --filter w.npy ";
  EXPECT_EQ(Sh(run).exit_code, 3);
  EXPECT_THAT(Sh(run).err, HasSubstr("--allow-trailing"));
  Ok(run + "--allow-trailing");
}

TEST_F(RunTest, TheWayOfRunningChangesNoBit) {
  const std::string run =
      "convgrad run depthwise_conv2d_backprop_filter --padding SAME --input fill:normal@2,19,17,5 "
      "--filter-sizes 3,3,5,2 --out-backprop fill:normal --quiet --output ";
  Ok(run + "reference.npy --algorithm reference --threads 1");
  const std::string expected = ReadBytes(Path("reference.npy"));
  for (const std::string how :
       {"--threads 1", "--threads 3", "--threads 64", "--threads 1000", "--isa scalar",
        "--threads all", "--max-memory 1GiB", "--algorithm reference --threads 7"}) {
    Ok(run + "y.npy " + how);
    EXPECT_EQ(ReadBytes(Path("y.npy")), expected) << how;
  }
}

TEST_F(RunTest, MemoryIsRefusedBeforeItIsTaken) {
  const std::string big =
      "conv2d --padding SAME --input fill:normal@64,4096,4096,64 --filter fill:ones@3,3,64,64";
  const ShellResult refused = Sh("convgrad run --max-memory 8GiB --report r.json " + big);
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err, IsOneErrorLine());
  EXPECT_THAT(refused.err, HasSubstr("8589934592"));
  EXPECT_EQ(Report()["benchmarks"][0]["error"]["code"], "memory/limit");
  EXPECT_EQ(Sh("convgrad run --max-memory 100 conv2d --padding SAME --input x.npy --filter w.npy")
                .exit_code,
            4);
}

// The memory that `plan` says is enough, and a byte less is not.
TEST_F(RunTest, TheMemoryPlannedIsTheMemoryNeeded) {
  const std::string words =
      " conv2d --padding SAME --input fill:normal@2,30,30,16 --filter fill:ones@3,3,16,16 "
      "--threads 1 ";
  Ok("convgrad plan" + words + "--report r.json");
  const int64_t need = Report()["benchmarks"][0]["run"]["memory_bytes"];
  Ok(fmt::format("convgrad run{}--max-memory {}", words, need));
  const ShellResult refused = Sh(fmt::format("convgrad run{}--max-memory {}", words, need - 1));
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err, HasSubstr(fmt::format("{} bytes", need)));
}

TEST_F(RunTest, SpecialResultsAreCounted) {
  const float infinity = std::numeric_limits<float>::infinity();
  WriteFloats("big.npy", {1, 1, 3, 1}, {3e38f, 1e-40f, 1});
  WriteFloats("ten.npy", {1, 1, 1, 1}, {10});
  Ok("convgrad run conv2d --padding SAME --input big.npy --filter ten.npy --report r.json");
  const nlohmann::json overflown = Report()["benchmarks"][0]["output"];
  EXPECT_EQ(overflown["inf"], 1);
  EXPECT_EQ(overflown["overflow"], 1);
  EXPECT_EQ(overflown["subnormal"], 1);
  WriteFloats("odd.npy", {1, 1, 3, 1}, {infinity, NAN, 1});
  Ok("convgrad run conv2d --padding SAME --input odd.npy --filter ten.npy --report r.json");
  const nlohmann::json given = Report()["benchmarks"][0]["output"];
  EXPECT_EQ(given["inf"], 1);
  EXPECT_EQ(given["nan"], 1);
  EXPECT_TRUE(given["overflow"].is_null());
}

TEST_F(RunTest, PlanRunsNothing) {
  const ShellResult plan =
      Ok("convgrad plan conv2d --padding SAME --input fill:normal@64,4096,4096,64 --filter "
         "fill:ones@3,3,64,64 "
         "--report r.json");
  EXPECT_THAT(plan.out, HasSubstr("FLOPs"));
  EXPECT_THAT(plan.out, HasSubstr("would be refused"));
  const nlohmann::json entry = Report()["benchmarks"][0];
  EXPECT_FALSE(entry.contains("timing"));
  EXPECT_FALSE(entry.contains("output"));
  EXPECT_EQ(entry["problem"]["groups"], 1);
  EXPECT_GT(entry["run"]["memory_bytes"], int64_t{1} << 38);
}

TEST_F(RunTest, InspectShowsHeaderStatisticsAndHash) {
  WriteFloats("v.npy", {4}, {NAN, -2, 0, std::numeric_limits<float>::infinity()});
  const std::string text = Ok("convgrad inspect v.npy x.npy").out;
  EXPECT_THAT(text, HasSubstr("float32"));
  EXPECT_THAT(text, HasSubstr("1 NaN, 1 +inf, 0 -inf"));
  EXPECT_THAT(text, HasSubstr("range        -2 to 0"));
  EXPECT_THAT(text, HasSubstr(DataHash(ReadNpy(Path("v.npy")).tensor)));
  EXPECT_THAT(text, HasSubstr("[1,3,3,1]"));
}

TEST_F(RunTest, QuietAndVerboseAndColour) {
  const std::string run =
      "convgrad run conv2d --padding SAME --input x.npy --filter w.npy --output y.npy ";
  const ShellResult quiet = Ok(run + "--quiet");
  EXPECT_EQ(quiet.out + quiet.err, "");
  EXPECT_THAT(Ok(run + "--verbose").err, HasSubstr("algorithm"));
  const std::string check = "convgrad check conv2d --padding SAME --input x.npy --filter w.npy ";
  EXPECT_THAT(Ok(check).out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(Ok(check + "--color always").out, HasSubstr("\x1b[32mPASSED"));
}

}  // namespace
}  // namespace convgrad::testing
