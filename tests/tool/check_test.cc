// `check` and `diff` end to end: verdicts, exit codes, goldens of every kind.
#include <fmt/format.h>

#include <filesystem>

#include "order/canonical_order.h"
#include "support/cli_testing.h"
#include "tensor/tensor_hash.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kCheck =
    "convgrad check conv2d --padding SAME --input fill:normal@1,6,6,4 --filter fill:normal@3,3,4,4 "
    "--report "
    "r.json ";
constexpr const char* kRun =
    "convgrad run conv2d --padding SAME --input fill:normal@1,6,6,4 --filter fill:normal@3,3,4,4 "
    "--output g.npy";

class CheckTest : public CliTest {
 protected:
  void SetUp() override { ASSERT_EQ(Sh(kRun).exit_code, 0); }

  // Writes the golden again with `delta` added to one element.
  void Disturb(size_t index, float delta) {
    std::vector<float> values = ReadFloats("g.npy");
    values[index] += delta;
    WriteFloats("g.npy", {1, 6, 6, 4}, values);
  }
  // The neighbour that recording g.npy leaves.
  void WriteRecord(const std::string& sha256, const std::string& algo = kAlgo) {
    const nlohmann::json record = {
        {"schema", "convgrad-golden/1"}, {"sha256", sha256}, {"dtype", "float32"},
        {"shape", {1, 6, 6, 4}},         {"algo", algo},     {"precision", "standard"}};
    WriteBytes(Path("g.npy.golden.json"), record.dump());
  }
  std::string Hash() { return DataHash(ReadNpy(Path("g.npy")).tensor); }
  // Runs the check, validates its report and returns the entry.
  nlohmann::json Entry(const std::string& flags, int exit_code) {
    const ShellResult result = Sh(kCheck + flags);
    EXPECT_EQ(result.exit_code, exit_code) << flags << "\n" << result.out << result.err;
    const nlohmann::json entry = Report()["benchmarks"][0];
    EXPECT_EQ(entry["exit_code"], exit_code);
    return entry;
  }
};

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

// For sums of 2304 normal products, Q is about 48 and S about 1470: an error of 0.02 is over what
// rounding usually does (8 sqrt(K) u Q = 0.001) and under what it can do (K u S = 0.2).
TEST_F(CheckTest, SuspectFailsOnlyWhenStrict) {
  const std::string problem =
      "conv2d --input fill:normal@1,3,3,256 --filter fill:normal@3,3,256,1 "
      "--padding VALID ";
  ASSERT_EQ(Sh("convgrad run " + problem + "--output g.npy").exit_code, 0);
  WriteFloats("g.npy", {1, 1, 1, 1}, {ReadFloats("g.npy")[0] + 0.02f});
  const std::string check = "convgrad check " + problem + "--expect g.npy --report r.json ";
  EXPECT_EQ(Sh(check).exit_code, 0);
  EXPECT_EQ(Report()["benchmarks"][0]["status"], "SUSPECT");
  EXPECT_EQ(Sh(check + "--strict").exit_code, 1);
  EXPECT_EQ(Report()["benchmarks"][0]["status"], "SUSPECT");
}

TEST_F(CheckTest, AMissingOrOtherGolden) {
  const nlohmann::json missing = Entry("--expect none.npy", 1);
  EXPECT_EQ(missing["error"]["code"], "golden/missing");
  EXPECT_EQ(missing["status"], "FAILED");
  EXPECT_THAT(Sh(std::string(kCheck) + "--expect none.npy").err, IsOneErrorLine());
  WriteFloats("shape.npy", {1, 6, 4, 6}, std::vector<float>(144));
  EXPECT_EQ(Entry("--expect shape.npy", 1)["check"]["reason"], "incomparable");
  ASSERT_EQ(
      Sh("convgrad gen --fill ones --shape 1,6,6,4 --dtype float16 --output half.npy").exit_code,
      0);
  EXPECT_EQ(Entry("--expect half.npy", 1)["check"]["reason"], "incomparable");
  WriteBytes(Path("broken.npy"), "no npy");
  EXPECT_EQ(Entry("--expect broken.npy", 3)["error"]["code"], "npy/not-npy");
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

TEST_F(CheckTest, SaysWhatAGoldenOfAnotherShapeMayBe) {
  WriteFloats("nchw.npy", {1, 4, 6, 6}, std::vector<float>(144));
  EXPECT_THAT(Entry("--expect nchw.npy", 1)["check"]["detail"], HasSubstr("NCHW order"));
  WriteFloats("valid.npy", {1, 4, 4, 4}, std::vector<float>(64));
  EXPECT_THAT(Entry("--expect valid.npy", 1)["check"]["detail"], HasSubstr("padding VALID"));
  WriteFloats("filter.npy", {3, 3, 4, 4}, std::vector<float>(144));
  EXPECT_THAT(Entry("--expect filter.npy", 1)["check"]["detail"], HasSubstr("the filter"));
  WriteFloats("flat.npy", {144}, std::vector<float>(144));
  EXPECT_THAT(Entry("--expect flat.npy", 1)["check"]["detail"], HasSubstr("reshape it"));
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

TEST_F(CheckTest, AGoldenOfOursIsComparedByBits) {
  const float last_bit = ReadFloats("g.npy")[5] * 0x1p-23f;
  WriteRecord(Hash());
  EXPECT_EQ(Entry("--expect g.npy", 0)["check"]["policy"], "bits");
  Disturb(5, last_bit);
  const nlohmann::json flipped = Entry("--expect g.npy", 1);
  EXPECT_EQ(flipped["check"]["worst"]["ulp"]["index"], nlohmann::json({0, 0, 1, 1}));
  WriteRecord(Hash(), "canon-0");
  EXPECT_EQ(Entry("--expect g.npy", 0)["check"]["policy"], "bound");
  // A golden that is not what was recorded: whatever the result, and whatever the tolerance.
  ASSERT_EQ(Sh(kRun).exit_code, 0);
  WriteRecord(std::string(64, '0'));
  for (const std::string tolerance : {"auto", "abs:1"}) {
    const nlohmann::json changed = Entry("--expect g.npy --tolerance " + tolerance, 1);
    EXPECT_EQ(changed["check"]["reason"], "the golden is not the one that was recorded");
  }
  WriteBytes(Path("g.npy.golden.json"), "{\"schema\": 1}");
  EXPECT_EQ(Entry("--expect g.npy", 3)["error"]["code"], "golden/malformed");
}

TEST_F(CheckTest, RecordsThatAreNone) {
  ASSERT_EQ(Sh(kRun).exit_code, 0);
  const std::string record = Path("g.npy.golden.json");
  WriteRecord(Hash());
  std::filesystem::rename(record, Path("sound.json"));
  const auto expect = [&](const std::string& command, int exit_code, const std::string& code) {
    ASSERT_EQ(Sh("rm -rf " + record + " && " + command + " " + record).exit_code, 0);
    EXPECT_EQ(Entry("--expect g.npy", exit_code)["error"]["code"], code) << command;
  };
  expect("mkfifo", 4, "io/not-a-file");  // and nothing waits for a writer
  expect("mkdir", 4, "io/not-a-file");
  expect("ln -s /dev/zero", 4, "io/not-a-file");
  expect("truncate -s 1G", 3, "golden/malformed");
  expect("{ cat sound.json; head -c 1100000 /dev/zero | tr '\\0' ' '; } >", 3, "golden/malformed");
  // Whether there is one must be known, not guessed.
  ASSERT_EQ(Sh("rm " + record + " && ln -s g.npy.golden.json " + record).exit_code, 0);
  EXPECT_EQ(Sh(std::string(kCheck) + "--expect g.npy").exit_code, 4);
  std::filesystem::remove(record);
  std::filesystem::create_symlink("none.npy", Path("dangling.npy"));
  EXPECT_EQ(Entry("--expect dangling.npy", 1)["error"]["code"], "golden/missing");
  EXPECT_EQ(Entry("--expect g.npy/h.npy", 1)["error"]["code"], "golden/missing");
  // A name that leaves no room for a record's has none.
  const std::string longest(250, 'g');
  std::filesystem::copy_file(Path("g.npy"), Path(longest));
  EXPECT_EQ(Entry("--expect " + longest, 0)["status"], "PASSED");
}

TEST_F(CheckTest, AHashIsAGoldenToo) {
  const std::string hash = Hash();
  EXPECT_EQ(Entry("--expect sha256:" + hash, 0)["check"]["policy"], "bits");
  EXPECT_EQ(Entry("--expect sha256:" + std::string(64, '0'), 1)["status"], "FAILED");
  WriteRecord(hash);
  std::filesystem::remove(Path("g.npy"));
  EXPECT_EQ(Entry("--expect g.npy", 0)["check"]["policy"], "bits");
  WriteRecord(std::string(64, '0'));
  EXPECT_EQ(Entry("--expect g.npy", 1)["status"], "FAILED");
  WriteRecord(hash, "canon-0");
  EXPECT_EQ(Entry("--expect g.npy", 1)["status"], "FAILED");
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
