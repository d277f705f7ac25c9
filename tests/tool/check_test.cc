// `check` and `diff` end to end: verdicts, exit codes, goldens of every kind.
#include <fmt/format.h>

#include "support/check_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CheckTest, AgainstTheReferenceAndAGolden) {
  EXPECT_EQ(Entry("", 0)["status"], "PASSED");
  const nlohmann::json entry = Entry("--expect g.npy", 0);
  EXPECT_EQ(entry["status"], "PASSED");
  EXPECT_EQ(entry["check"]["counts"]["elements"], 144);
  EXPECT_EQ(entry["check"]["counts"]["differ"], 0);
  EXPECT_THAT(Sh(std::string(kCheck) + "--expect g.npy").out, StartsWith("PASSED"));
  EXPECT_EQ(Entry("--tolerance bits", 0)["check"]["policy"], "bits");
  EXPECT_EQ(Entry("--probe", 0)["probe"]["status"], "PASSED");
}

TEST_F(CheckTest, AWrongElementIsFoundAndNamed) {
  Disturb(31, 1.0f);
  const nlohmann::json entry = Entry("--expect g.npy", 1);
  EXPECT_EQ(entry["status"], "FAILED");
  EXPECT_EQ(entry["check"]["counts"]["fail"], 1);
  EXPECT_EQ(entry["check"]["worst"]["abs"]["index"], nlohmann::json({0, 1, 1, 3}));
  const ShellResult result = Sh(std::string(kCheck) + "--expect g.npy");
  EXPECT_THAT(result.out, HasSubstr("[0,1,1,3]"));
  EXPECT_EQ(result.err, "");
  // The user's own word counts.
  EXPECT_EQ(Entry("--expect g.npy --tolerance abs:2", 0)["status"], "PASSED");
  EXPECT_EQ(Entry("--expect g.npy --tolerance bits", 1)["check"]["policy"], "bits");
  // The result is written all the same, and so is the report.
  EXPECT_EQ(Sh(std::string(kCheck) + "--expect g.npy --output y.npy").exit_code, 1);
  EXPECT_TRUE(Exists("y.npy"));
}

// For sums of 2304 normal products, Q is about 48 and S about 1470: an error of 0.005 is over what
// rounding usually does (8 sqrt(K) u Q = 0.001) and under what the odds exclude in any order
// (7.5 sqrt(K) u S / 2 = 0.01).
TEST_F(CheckTest, SuspectFailsUnlessAllowed) {
  const std::string problem =
      "conv2d --input fill:normal@1,3,3,256 --filter fill:normal@3,3,256,1 "
      "--padding VALID ";
  ASSERT_EQ(Sh("convgrad run " + problem + "--output g.npy").exit_code, 0);
  WriteFloats("g.npy", {1, 1, 1, 1}, {ReadFloats("g.npy")[0] + 0.005f});
  const std::string check = "convgrad check " + problem + "--expect g.npy --report r.json ";
  EXPECT_EQ(Sh(check).exit_code, 1);
  EXPECT_EQ(Report()["benchmarks"][0]["status"], "SUSPECT");
  EXPECT_EQ(Sh(check + "--allow-suspect").exit_code, 0);
  EXPECT_EQ(Report()["benchmarks"][0]["status"], "SUSPECT");
}

// Yours is under test: what is said of it and what is expected of it keep their sides.
TEST_F(CheckTest, AnothersResultIsHeldAgainstTheExactValue) {
  const nlohmann::json passed = Entry("--actual g.npy", 0);
  EXPECT_EQ(passed["status"], "PASSED");
  EXPECT_EQ(passed["check"]["against"], "exact value");
  Disturb(31, 1);
  const ShellResult failed = Sh(std::string(kCheck) + "--actual g.npy");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.out, HasSubstr("g.npy against the exact value"));
  EXPECT_THAT(failed.out, HasSubstr("\n  yours  "));
  EXPECT_THAT(failed.out, HasSubstr("\n  exact value  "));
  EXPECT_THAT(failed.out, HasSubstr(": yours is "));
  const nlohmann::json worst = Report()["benchmarks"][0]["check"]["worst"]["abs"];
  EXPECT_EQ(worst["actual"], ReadFloats("g.npy")[31]);
  EXPECT_NEAR(worst["expected"].get<double>(), worst["actual"].get<double>() - 1, 1e-5);
  EXPECT_EQ(Entry("--actual g.npy --tolerance abs:2", 0)["check"]["against"], "exact value");
  EXPECT_EQ(Entry("--expect g.npy", 1)["check"]["against"], "golden");
  EXPECT_EQ(Entry("", 0)["check"]["against"], "reference");
  // Its mistakes are told to its maker.
  ASSERT_EQ(Sh("convgrad run conv2d --input fill:normal@1,6,6,4 --filter fill:normal@3,3,4,4 "
               "--padding EXPLICIT --explicit-paddings 2,0,2,0 --output g.npy")
                .exit_code,
            0);
  const nlohmann::json diagnosis = Entry("--actual g.npy", 1)["check"]["diagnosis"];
  EXPECT_THAT(diagnosis["sentence"].get<std::string>(), HasSubstr("your"));
  EXPECT_THAT(diagnosis["sentence"].get<std::string>(), ::testing::Not(HasSubstr("the golden")));
  // Refusals.
  EXPECT_EQ(Entry("--actual g.npy --expect g.npy", 2)["error"]["code"], "flag/conflict");
  EXPECT_EQ(Entry("--actual g.npy --probe", 2)["error"]["code"], "flag/conflict");
  EXPECT_EQ(Entry("--actual none.npy", 4)["error"]["code"], "io/not-found");
  WriteFloats("shape.npy", {1, 6, 4, 6}, std::vector<float>(144));
  EXPECT_EQ(Entry("--actual shape.npy", 1)["check"]["reason"], "incomparable");
  EXPECT_EQ(Sh(std::string(kCheck) + "--actual r.json").exit_code, 2);  // also the report
}

// A filter gradient under test is of the filter's format, what is said of it too.
TEST_F(CheckTest, AnothersFilterGradientIsOfTheFiltersFormat) {
  const std::string problem =
      "conv2d_backprop_filter --padding VALID --input fill:normal@2,6,6,3 --out-backprop "
      "fill:normal@2,4,5,7 ";
  const std::string oihw = problem + "--filter-sizes 7,3,3,2 --filter-format OIHW ";
  ASSERT_EQ(Sh("convgrad run " + oihw + "--output o.npy").exit_code, 0);
  const std::string check = "convgrad check " + oihw + "--report r.json --actual ";
  EXPECT_EQ(Sh(check + "o.npy").exit_code, 0);
  std::vector<float> values = ReadFloats("o.npy");
  values[5 * 18 + 2 * 6 + 3] += 1;  // of output channel 5, input channel 2, row 1, column 1
  WriteFloats("o.npy", {7, 3, 3, 2}, values);
  EXPECT_EQ(Sh(check + "o.npy").exit_code, 1);
  EXPECT_EQ(Report()["benchmarks"][0]["check"]["worst"]["abs"]["index"],
            (nlohmann::json{5, 2, 1, 1}));
  // A filter of our order has another shape than the one said, and is not taken for it.
  ASSERT_EQ(Sh("convgrad run " + problem + "--filter-sizes 3,2,3,7 --output hwio.npy").exit_code,
            0);
  EXPECT_EQ(Sh(check + "hwio.npy").exit_code, 1);
  const nlohmann::json entry = Report()["benchmarks"][0]["check"];
  EXPECT_EQ(entry["reason"], "incomparable");
  EXPECT_THAT(entry["detail"].get<std::string>(),
              HasSubstr("float32 [3,2,3,7] against float32 [7,3,3,2]; it seems to be in HWIO"));
}

// In whatever form bfloat16 was written, it is checked as what it is.
TEST_F(CheckTest, BFloat16IsCheckedInEveryFormItIsWrittenIn) {
  const std::string problem =
      "conv2d_backprop_filter --padding VALID --input fill:normal@2,6,6,3 --dtype bfloat16 "
      "--out-backprop fill:normal@2,4,5,7 --filter-sizes 7,3,3,2 --filter-format OIHW ";
  for (const std::string form : {"V2", "u2", "f4"}) {
    ASSERT_EQ(Sh("convgrad run " + problem + "--output b.npy --bfloat16-as " + form).exit_code, 0);
    for (const char* flags :
         {"--expect b.npy --tolerance bits", "--expect b.npy", "--actual b.npy"}) {
      const ShellResult result = Sh("convgrad check " + problem + flags);
      EXPECT_EQ(result.exit_code, 0) << form << flags << result.out;
    }
  }
  std::vector<float> values = ReadFloats("b.npy");
  values[7] = std::nextafter(values[7], 1e9f);  // no bfloat16
  WriteFloats("b.npy", {7, 3, 3, 2}, values);
  EXPECT_EQ(Sh("convgrad check " + problem + "--expect b.npy --tolerance bits").exit_code, 1);
  // It is said what it is held to, and explained what is wrong with a wider result.
  const std::string widened =
      "convgrad run " + problem + "--output b.npy --bfloat16-as f4 && convgrad check " + problem;
  EXPECT_THAT(Sh(widened + "--actual b.npy").out, HasSubstr("all of it bfloat16 numbers"));
  values = ReadFloats("b.npy");
  for (float& value : values) value = -value * (1 + 0x1p-20f);
  WriteFloats("b.npy", {7, 3, 3, 2}, values);
  EXPECT_EQ(Sh("convgrad check " + problem + "--actual b.npy --report r.json").exit_code, 1);
  EXPECT_EQ(Report()["benchmarks"][0]["check"]["diagnosis"]["hypothesis"], "sign-flipped");
}

TEST_F(CheckTest, AManifestTakesResultsUnderTestToo) {
  WriteBytes(Path("m.jsonl"),
             R"({"name": "mine", "op": "conv2d", "padding": "SAME", "actual": "g.npy",)"
             R"( "input": "fill:normal@1,6,6,4", "filter": "fill:normal@3,3,4,4"})");
  const std::string batch = "convgrad batch m.jsonl --require-golden --report r.json --events e ";
  EXPECT_EQ(Sh(batch).exit_code, 0);
  EXPECT_EQ(Report()["benchmarks"][0]["status"], "PASSED");
  EXPECT_THAT(Sh(batch + "--resume").out, HasSubstr("1 from an earlier run"));
  Disturb(31, 1);
  EXPECT_EQ(Sh(batch + "--resume").exit_code, 1);
}

TEST_F(CheckTest, WhereIsData) {
  std::vector<float> values = ReadFloats("g.npy");
  for (size_t i = 0; i < values.size(); ++i) {
    if (i / 24 % 2 == 1) values[i] += 1;  // rows of 6 columns and 4 channels
  }
  WriteFloats("g.npy", {1, 6, 6, 4}, values);
  const nlohmann::json where = Entry("--actual g.npy", 1)["check"]["where"];
  EXPECT_EQ(where["text"], "every 2nd row (from 1)");
  EXPECT_EQ(where["fills_box"], true);
  EXPECT_EQ(where["box"][1], (nlohmann::json{{"axis", "row"},
                                             {"size", 6},
                                             {"first", 1},
                                             {"last", 5},
                                             {"period", 2},
                                             {"of_period", {1}}}));
  EXPECT_EQ(where["map"]["shares"].size(), 6);
}

TEST_F(CheckTest, WhatFailedIsSeenWhateverStandardOutputIsFor) {
  WriteFloats("g.npy", {1, 6, 6, 4}, std::vector<float>(144));
  for (const char* flags : {"--quiet", "--report -"}) {
    const ShellResult failed =
        Sh(fmt::format("convgrad check conv2d --input fill:normal@1,6,6,4 --padding SAME "
                       "--filter fill:normal@3,3,4,4 --expect g.npy {}",
                       flags));
    EXPECT_EQ(failed.exit_code, 1);
    EXPECT_THAT(failed.err, StartsWith("FAILED  conv2d")) << flags;
    EXPECT_THAT(Sh(fmt::format("convgrad diff g.npy g.npy {}", flags)).err, "");
  }
}

TEST_F(CheckTest, AUsualMistakeIsNamed) {
  const std::string problem =
      "conv2d --input fill:normal@1,6,6,4 --filter fill:normal@3,3,4,4 --strides 2 --padding ";
  ASSERT_EQ(Sh("convgrad run " + problem + "EXPLICIT --explicit-paddings 1,0,1,0 --output g.npy")
                .exit_code,
            0);
  const ShellResult result =
      Sh("convgrad check " + problem + "SAME --expect g.npy --report r.json");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("explained by      pads-symmetric"));
  EXPECT_THAT(result.out, HasSubstr("PyTorch's padding=1; SAME has the pads 0+1 and 0+1 here"));
  const nlohmann::json diagnosis = Report()["benchmarks"][0]["check"]["diagnosis"];
  EXPECT_EQ(diagnosis["hypothesis"], "pads-symmetric");
  std::vector<float> values = ReadFloats("g.npy");
  values[7] += 1;
  WriteFloats("g.npy", {1, 3, 3, 4}, values);
  EXPECT_EQ(Sh("convgrad check " + problem + "SAME --expect g.npy --report r.json").exit_code, 1);
  EXPECT_FALSE(Report()["benchmarks"][0]["check"].contains("diagnosis"));
}

TEST_F(CheckTest, APictureShowsWhere) {
  std::vector<float> values = ReadFloats("g.npy");
  for (size_t i = 0; i < values.size(); ++i) values[i] += i / 24 == 2 ? 1.0f : 0.0f;
  WriteFloats("g.npy", {1, 6, 6, 4}, values);
  const ShellResult result = Sh(std::string(kCheck) + "--expect g.npy");
  EXPECT_THAT(result.out, HasSubstr("row (0..5) down"));
  EXPECT_THAT(result.out, HasSubstr(" ######\n"));
  EXPECT_THAT(result.out, HasSubstr(" ......\n"));
}

TEST_F(CheckTest, WritesAMapOfErrors) {
  Disturb(31, 1.0f);
  EXPECT_EQ(Sh(std::string(kCheck) + "--expect g.npy --error-map e.npy").exit_code, 1);
  std::vector<float> errors = ReadFloats("e.npy");
  ASSERT_EQ(errors.size(), 144u);
  EXPECT_GT(errors[31], 1000);  // times its bound
  EXPECT_LT(errors[30], 1);
  EXPECT_EQ(ReadNpy(Path("e.npy")).tensor.shape(), (Shape{1, 6, 6, 4}));
  EXPECT_EQ(
      Sh(std::string(kCheck) + "--expect g.npy --tolerance abs:0.5 --error-map e.npy").exit_code,
      1);
  EXPECT_NEAR(ReadFloats("e.npy")[31], 1, 1e-5);
  EXPECT_EQ(Sh("convgrad run conv2d --padding SAME --input fill:normal@1,6,6,4 --filter "
               "fill:normal@3,3,4,4 "
               "--output y.npy")
                .exit_code,
            0);
  EXPECT_EQ(Sh("convgrad diff y.npy g.npy --error-map e.npy").exit_code, 1);
  EXPECT_GT(ReadFloats("e.npy")[31], 1000);  // ULP
  EXPECT_EQ(ReadFloats("e.npy")[30], 0);
  // An output as any other.
  EXPECT_EQ(Sh("convgrad diff y.npy g.npy --error-map g.npy").exit_code, 2);
  EXPECT_EQ(Sh("convgrad diff y.npy g.npy --error-map e.npy --no-clobber").exit_code, 4);
  EXPECT_EQ(Sh("convgrad diff y.npy g.npy --error-map none/e.npy").exit_code, 4);
  // Nothing was compared, nothing is written.
  const ShellResult hash =
      Sh(std::string(kCheck) + "--error-map new.npy --expect sha256:" + std::string(64, '0'));
  EXPECT_EQ(hash.exit_code, 1);
  EXPECT_THAT(hash.err, HasSubstr("was not written"));
  EXPECT_FALSE(Exists("new.npy"));
}

TEST_F(CheckTest, SaysWhichFilesSeemExchanged) {
  WriteFloats("x.npy", {1, 6, 6, 4}, std::vector<float>(144));
  WriteFloats("weights.npy", {3, 3, 4, 8}, std::vector<float>(288));
  const ShellResult result =
      Sh("convgrad run conv2d --padding SAME --input weights.npy --filter x.npy --output y.npy");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, IsOneErrorLine());
  EXPECT_THAT(result.err, HasSubstr("--input is named like the filter, weights.npy"));
}

TEST_F(CheckTest, DiffComparesFiles) {
  ASSERT_EQ(Sh("cp g.npy h.npy").exit_code, 0);
  const ShellResult equal = Sh("convgrad diff g.npy h.npy --report r.json");
  EXPECT_EQ(equal.exit_code, 0);
  EXPECT_THAT(equal.out, StartsWith("PASSED"));
  EXPECT_EQ(Report()["benchmarks"][0]["inputs"][1]["role"], "expected");
  Disturb(0, 1.0f);
  EXPECT_EQ(Sh("convgrad diff g.npy h.npy --report r.json").exit_code, 1);
  EXPECT_EQ(Report()["benchmarks"][0]["check"]["counts"]["differ"], 1);
  EXPECT_EQ(Sh("convgrad diff g.npy h.npy --tolerance rtol:0,atol:1.5").exit_code, 0);
  EXPECT_EQ(Sh("cat h.npy | convgrad diff - h.npy").exit_code, 0);
  EXPECT_EQ(Sh("convgrad diff - -").exit_code, 2);
  EXPECT_EQ(Sh("convgrad diff g.npy none.npy").exit_code, 4);
  const std::string before = ReadBytes(Path("g.npy"));
  EXPECT_EQ(Sh("convgrad diff g.npy h.npy --report g.npy").exit_code, 2);
  EXPECT_EQ(Sh("convgrad dif g.npy h.npy --report g.npy").exit_code, 2);
  EXPECT_EQ(ReadBytes(Path("g.npy")), before);
}

}  // namespace
}  // namespace convgrad::testing
