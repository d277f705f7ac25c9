// `check` against goldens: files, records of ours beside them, hashes, and what is none of these.

#include <filesystem>

#include "support/check_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

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
  const nlohmann::json half = Entry("--expect half.npy", 1)["check"];
  EXPECT_THAT(half["detail"].get<std::string>(), HasSubstr("the golden is float16"));
  WriteBytes(Path("broken.npy"), "no npy");
  EXPECT_EQ(Entry("--expect broken.npy", 3)["error"]["code"], "npy/not-npy");
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
  // It must be known, not guessed, that there is one.
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

}  // namespace
}  // namespace convgrad::testing
