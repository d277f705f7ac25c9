// `--precision` end to end: what is computed, what reports and goldens say of it, and what a golden
// of one precision is worth at another.
#include <fmt/format.h>

#include "support/cli_testing.h"
#include "tensor/tensor_hash.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

// One sum of four products, of which the last two terms are lost in float: 1 + 2^-24 + 2^-60.
constexpr const char* kDot = "conv2d --padding SAME --input x.npy --filter w.npy";

class CliPrecisionTest : public CliTest {
 protected:
  void SetUp() override {
    WriteFloats("x.npy", {1, 1, 1, 4}, {1, 0x1p-24f, 0x1p-30f, 0});
    WriteFloats("w.npy", {1, 1, 4, 1}, {1, 1, 0x1p-30f, 1});
  }
  float Result(const std::string& precision) {
    const ShellResult result =
        Sh(fmt::format("convgrad run {} --precision {} --output y.npy", kDot, precision));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ReadFloats("y.npy")[0];
  }
  nlohmann::json Check(const std::string& flags, int exit_code) {
    const ShellResult result = Sh(fmt::format("convgrad check {} --report r.json {}", kDot, flags));
    EXPECT_EQ(result.exit_code, exit_code) << flags << "\n" << result.out << result.err;
    return Report()["benchmarks"][0];
  }
};

TEST_F(CliPrecisionTest, EachRoundsInItsOwnPlace) {
  EXPECT_EQ(Result("standard"), 1);
  EXPECT_EQ(Result("double"), 1);  // a tie of double's sum
  EXPECT_EQ(Result("exact"), 1 + 0x1p-23f);
}

TEST_F(CliPrecisionTest, ReportsPlansAndReproLinesSayIt) {
  for (const std::string precision : {"standard", "double", "exact"}) {
    const nlohmann::json entry = Check("--precision " + precision, 0);
    EXPECT_EQ(entry["run"]["precision"], precision);
    EXPECT_EQ(Sh(std::string(entry["repro"])).exit_code, 0);
    EXPECT_THAT(
        Sh(fmt::format("convgrad plan {} --precision {} --report r.json", kDot, precision)).out,
        HasSubstr("precision    " + precision));
    EXPECT_EQ(Report()["benchmarks"][0]["run"]["precision"], precision);
  }
  EXPECT_THAT(std::string(Check("--precision exact", 0)["repro"]), HasSubstr("--precision exact"));
}

// Without a golden, bits are those of the reference of the same precision.
TEST_F(CliPrecisionTest, BitsAgainstTheReference) {
  for (const std::string precision : {"standard", "double", "exact"}) {
    EXPECT_EQ(Check("--tolerance bits --precision " + precision, 0)["check"]["policy"], "bits");
  }
}

TEST_F(CliPrecisionTest, AVerdictSaysWhatWasPromised) {
  const auto reason = [this](const std::string& precision) {
    return Check("--precision " + precision, 0)["check"]["reason"].get<std::string>();
  };
  EXPECT_THAT(reason("standard"), HasSubstr("within the error that its own terms allow"));
  EXPECT_EQ(reason("exact"), "the exact sum, rounded once to nearest, in the only element");
}

TEST_F(CliPrecisionTest, GoldensKnowTheirPrecision) {
  WriteBytes(Path("m.json"), R"({"schema": "convgrad-manifest/1", "cases": [{"name": "dot",
    "op": "conv2d", "padding": "SAME", "input": "x.npy", "filter": "w.npy", "precision": "exact",
    "expect": "g.npy"}]})");
  ASSERT_EQ(Sh("env -u CI convgrad batch m.json --record").exit_code, 0);
  const auto record = nlohmann::json::parse(ReadBytes(Path("g.npy.golden.json")));
  EXPECT_EQ(record["precision"], "exact");
  EXPECT_EQ(Sh("convgrad batch m.json --report r.json").exit_code, 0);
  EXPECT_EQ(Report()["benchmarks"][0]["check"]["policy"], "bits");
  EXPECT_EQ(Report()["benchmarks"][0]["run"]["precision"], "exact");

  EXPECT_EQ(Check("--expect g.npy --precision exact", 0)["check"]["policy"], "bits");
  EXPECT_EQ(Check("--expect g.npy --precision double", 0)["check"]["policy"], "bound");
  EXPECT_EQ(Check("--expect g.npy", 0)["check"]["policy"], "bound");
  // A hash alone holds for its own precision only.
  ASSERT_EQ(Sh("rm g.npy").exit_code, 0);
  EXPECT_EQ(Check("--expect g.npy --precision exact", 0)["status"], "PASSED");
  const nlohmann::json other = Check("--expect g.npy", 1);
  EXPECT_THAT(std::string(other["check"]["reason"]), HasSubstr("precision exact"));
  EXPECT_THAT(std::string(other["check"]["detail"]), HasSubstr("--precision standard"));
}

TEST_F(CliPrecisionTest, EveryTypeRunsAndIsTimed) {
  for (const std::string dtype : {"float16", "bfloat16", "float32", "float64"}) {
    for (const std::string precision : {"double", "exact"}) {
      const std::string flags = fmt::format(
          "depthwise_conv2d_backprop_filter --padding SAME --input fill:normal@2,9,9,5 "
          "--filter-sizes 3,3,5,2 "
          "--out-backprop fill:normal@2,9,9,10 --dtype {} --precision {}",
          dtype, precision);
      EXPECT_EQ(Sh("convgrad check --probe " + flags).exit_code, 0) << flags;
    }
  }
  const ShellResult bench =
      Sh(fmt::format("convgrad bench {} --precision exact --max-time 50ms --report r.json", kDot));
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_EQ(Report()["benchmarks"][0]["run"]["algorithm"], "certified");
}

// Copies in float64 are memory like any other.
TEST_F(CliPrecisionTest, WidenedCopiesCountAsMemory) {
  const std::string run =
      "convgrad run conv2d --padding SAME --input fill:ones@4,128,128,8 --filter fill:ones@3,3,8,8 "
      "--threads 1 "
      "--max-memory 7MiB";
  EXPECT_EQ(Sh(run).exit_code, 0);
  const ShellResult refused = Sh(run + " --precision exact");
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err, HasSubstr("scratch"));
  EXPECT_THAT(refused.err, HasSubstr("the limit is 7340032 bytes (7.0 MiB)"));
}

}  // namespace
}  // namespace convgrad::testing
