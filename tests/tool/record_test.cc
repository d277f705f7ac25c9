// `batch --record` end to end: what is written, what is refused, and that a plain run verifies it.
#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/record_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(RecordTest, WhatIsRecordedIsVerifiedByBits) {
  WriteCase();
  EXPECT_EQ(Entry("", 1)["error"]["code"], "golden/missing");
  EXPECT_FALSE(Exists("g.npy"));  // a plain run never writes a golden
  const json entry = Entry("--record --reason 'first kept'", 0);
  EXPECT_EQ(entry["status"], "RECORDED");
  const json record = Record();
  EXPECT_EQ(record["schema"], "convgrad-golden/1");
  EXPECT_EQ(record["sha256"], entry["output"]["sha256"]);
  EXPECT_EQ(record["shape"], json({1, 6, 6, 4}));
  EXPECT_EQ(record["inputs"][0]["sha256"], entry["inputs"][0]["sha256"]);
  EXPECT_EQ(record["problem"]["op"], "conv2d");
  EXPECT_EQ(record["reason"], "first kept");
  const json checked = Entry("", 0);
  EXPECT_EQ(checked["status"], "PASSED");
  EXPECT_EQ(checked["check"]["policy"], "bits");
  // Again, by other means: not a byte changes, nor is anything written.
  const std::string golden = ReadBytes(Path("g.npy")), text = ReadBytes(Path("g.npy.golden.json"));
  const auto written = std::filesystem::last_write_time(Path("g.npy.golden.json"));
  EXPECT_EQ(Entry("--record --threads 3 --isa scalar --reason again", 0)["status"], "KEPT");
  EXPECT_EQ(ReadBytes(Path("g.npy")), golden);
  EXPECT_EQ(ReadBytes(Path("g.npy.golden.json")), text);
  EXPECT_EQ(std::filesystem::last_write_time(Path("g.npy.golden.json")), written);
  // Nor where another version recorded it.
  json older = Record();
  older["version"] = "0.0.1";
  WriteBytes(Path("g.npy.golden.json"), older.dump());
  EXPECT_EQ(Entry("--record", 0)["status"], "KEPT");
  EXPECT_EQ(Record()["version"], "0.0.1");
  // With other inputs the record says what is no longer true, though the golden is the same.
  json other = Record();
  other["inputs"][0]["sha256"] = std::string(64, '0');
  WriteBytes(Path("g.npy.golden.json"), other.dump());
  EXPECT_EQ(Entry("--record", 0)["status"], "RECORDED");
  EXPECT_EQ(ReadBytes(Path("g.npy.golden.json")), text);
  // A golden that lost one of its two files is not whole.
  ASSERT_EQ(Sh("rm g.npy").exit_code, 0);
  EXPECT_EQ(Entry("--record", 0)["status"], "RECORDED");
  EXPECT_EQ(ReadBytes(Path("g.npy")), golden);
}

TEST_F(RecordTest, ChangedInputsAreNamedAndReplacingIsRefused) {
  WriteCase();
  Entry("--record", 0);
  const std::string golden = ReadBytes(Path("g.npy"));
  WriteCase(/*seed=*/1);
  const json stale = Entry("", 1);
  EXPECT_EQ(stale["status"], "FAILED");
  EXPECT_THAT(stale["check"]["detail"].get<std::string>(),
              HasSubstr("not what they were when the golden was recorded: input"));
  EXPECT_EQ(Entry("--record", 1)["error"]["code"], "golden/differs");
  EXPECT_EQ(ReadBytes(Path("g.npy")), golden);
  EXPECT_EQ(Entry("--record --force-record", 0)["status"], "RECORDED");
  EXPECT_NE(ReadBytes(Path("g.npy")), golden);
  EXPECT_EQ(Entry("", 0)["status"], "PASSED");
  // A broken golden is another one, whichever half of it is broken.
  for (const char* name : {"g.npy", "g.npy.golden.json"}) {
    for (const std::string& text : {std::string("broken"), std::string((1 << 20) + 1, ' ')}) {
      WriteBytes(Path(name), text);
      EXPECT_EQ(Entry("--record", 1)["error"]["code"], "golden/differs");
      Entry("--record --force-record", 0);
      EXPECT_EQ(Entry("", 0)["status"], "PASSED");
    }
  }
}

TEST_F(RecordTest, AHashAloneIsEnough) {
  WriteCase();
  EXPECT_EQ(Entry("--record --hash-only", 0)["status"], "RECORDED");
  EXPECT_THAT(Files(), ElementsAre("g.npy.golden.json", "m.json", "r.json", "x.npy"));
  EXPECT_EQ(Entry("", 0)["check"]["policy"], "bits");
  WriteCase(/*seed=*/1);
  EXPECT_EQ(Entry("", 1)["status"], "FAILED");
  EXPECT_EQ(Entry("--record --hash-only", 1)["error"]["code"], "golden/differs");
  Entry("--record --force-record", 0);
  WriteCase(/*seed=*/2);
  EXPECT_EQ(Entry("--record --hash-only --force-record", 1)["error"]["code"], "golden/differs");
}

// A resumed verdict is the one that a plain run would give now.
TEST_F(RecordTest, ResumeTrustsNoGoldenWhoseRecordChanged) {
  const auto resumed = [this](int exit_code) {
    return Entry("--events e.jsonl --resume", exit_code).value("resumed", false);
  };
  for (const char* form : {"", " --hash-only"}) {
    WriteCase();
    Entry(std::string("--record") + form, 0);
    EXPECT_FALSE(resumed(0));
    EXPECT_TRUE(resumed(0)) << form;
    const json kept = Record();
    json record = kept;
    record["sha256"] = std::string(64, '0');
    WriteBytes(Path("g.npy.golden.json"), record.dump());
    Entry("", 1);
    EXPECT_FALSE(resumed(1)) << form;
    EXPECT_TRUE(resumed(1)) << form;
    WriteBytes(Path("g.npy.golden.json"), kept.dump());  // other bytes, the same record
    EXPECT_FALSE(resumed(0)) << form;
    std::filesystem::remove(Path("g.npy.golden.json"));
    const int without = Exists("g.npy") ? 0 : 1;
    EXPECT_FALSE(resumed(without)) << form;
    Sh("rm -f g.npy g.npy.golden.json e.jsonl");
  }
}

TEST_F(RecordTest, ResumeTrustsNoGoldenThatCameOrWent) {
  WriteCase();
  const auto resumed = [this](int exit_code) {
    return Entry("--events e.jsonl --resume", exit_code).value("resumed", false);
  };
  Entry("--record", 0);
  EXPECT_FALSE(resumed(0));
  std::filesystem::rename(Path("g.npy"), Path("away.npy"));
  EXPECT_FALSE(resumed(0));  // by the record's hash
  EXPECT_TRUE(resumed(0));
  ASSERT_EQ(Sh("convgrad gen --fill ones --shape 1,6,6,4 --output g.npy").exit_code, 0);
  EXPECT_FALSE(resumed(1));
  std::filesystem::rename(Path("away.npy"), Path("g.npy"));
  // Without hashes nothing is known of the golden.
  std::filesystem::remove(Path("e.jsonl"));
  ASSERT_EQ(Sh("sed -i 's/\"x.npy\"/{\"fill\":\"normal\",\"shape\":[1,6,6,3]}/' m.json && "
               "convgrad batch m.json --events e.jsonl --no-hash")
                .exit_code,
            0);
  EXPECT_FALSE(resumed(0));
}

TEST_F(RecordTest, AGoldenThatLostItsFileIsComparedByHashAndSaysSo) {
  WriteCase();
  Entry("--record", 0);
  EXPECT_EQ(Record()["file"], true);
  ASSERT_EQ(Sh("rm g.npy").exit_code, 0);
  const ShellResult result = Sh("convgrad batch m.json");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("convgrad: g.npy: there is no such file any more"));
  EXPECT_THAT(Entry("", 0)["check"]["detail"].get<std::string>(), HasSubstr("file is missing"));
  WriteCase(/*seed=*/1);
  EXPECT_THAT(Entry("", 1)["check"]["detail"].get<std::string>(), HasSubstr("file is missing"));
  // Where only the hash was kept, nothing is missing.
  Entry("--record --hash-only --force-record", 0);
  EXPECT_EQ(Record()["file"], false);
  EXPECT_EQ(Sh("convgrad batch m.json").err, "");
}

TEST_F(RecordTest, NonFiniteResultsOnlyWhenAllowed) {
  WriteCase();
  WriteFloats("x.npy", {1, 1, 1, 3}, {1, std::numeric_limits<float>::infinity(), 2});
  EXPECT_EQ(Entry("--record", 1)["error"]["code"], "golden/non-finite");
  EXPECT_FALSE(Exists("g.npy"));
  EXPECT_EQ(Entry("--record --allow-non-finite", 0)["status"], "RECORDED");
  EXPECT_EQ(Entry("", 0)["status"], "PASSED");
}

TEST_F(RecordTest, RefusedAsAWhole) {
  WriteCase();
  const auto refused = [this](const std::string& command, const std::string& words) {
    const ShellResult result = Sh(command);
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  const std::string record = "unset CI; convgrad batch m.json --record";
  refused("CI=true convgrad batch m.json --record", "no golden is written in CI");
  refused(record + " --no-hash", "--no-hash");
  for (const char* flag : {"--hash-only", "--force-record", "--allow-non-finite", "--reason x"}) {
    refused(std::string("convgrad batch m.json ") + flag, "give --record too");
  }
  WriteManifest({Case("a", "g.npy"), Case("b", "./g.npy")});
  refused(record, "the case 'a' writes this file too");
  WriteManifest(std::vector<json>{Case("a", "x.npy")});
  refused(record, "depends on the order");
  json both = Case("a", "g.npy");
  both["output"] = "g.npy";
  WriteManifest(std::vector<json>{both});
  refused(record, "the case's output goes there too");
  WriteManifest(std::vector<json>{Case("a", "../record_test_golden.npy")});
  refused(record, "may not leave");
  EXPECT_THAT(Files(), ElementsAre("m.json", "x.npy"));
}

// Killed while goldens are replaced: each file is the old or the new one as a whole, and where the
// record is not that of the file, a plain run says so.
TEST_F(RecordTest, SurvivesKillsAtAnyMoment) {
  constexpr int kCases = 30;
  const int num_rounds = Rounds(25);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  std::vector<json> cases;
  for (int i = 0; i < kCases; ++i)
    cases.push_back(Case(std::to_string(i), fmt::format("{}.npy", i)));
  WriteManifest(cases);
  // The data hash in the record of each whole golden file, one for either input.
  std::map<std::string, json> hashes;
  const auto record_all = [&](int input) {
    const std::string gen = "convgrad gen --fill normal --shape 1,6,6,3 --output x.npy --seed ";
    ASSERT_EQ(Sh(gen + std::to_string(input)).exit_code, 0);
    ASSERT_EQ(Sh("unset CI; convgrad batch m.json --record --force-record").exit_code, 0);
    hashes[ReadBytes(Path("0.npy"))] = json::parse(ReadBytes(Path("0.npy.golden.json")))["sha256"];
  };
  record_all(1);
  record_all(0);
  ASSERT_EQ(hashes.size(), 2);
  int mixed = 0;
  for (int round = 0; round < num_rounds; ++round) {
    ASSERT_EQ(Sh(fmt::format("unset CI; convgrad gen --fill normal --shape 1,6,6,3 --output x.npy "
                             "--seed {}; convgrad batch m.json --record --force-record --jobs 2 "
                             "--quiet & sleep 0.0{:02}; kill -9 $!; wait; true",
                             1 - round % 2, random() % 60))
                  .exit_code,
              0);
    const int code = Sh("convgrad batch m.json --report r.json").exit_code;
    EXPECT_THAT(code, AnyOf(0, 1));
    const json report = Report();
    for (int i = 0; i < kCases; ++i) {
      const std::string file = ReadBytes(Path(fmt::format("{}.npy", i)));
      const json record = json::parse(ReadBytes(Path(fmt::format("{}.npy.golden.json", i))));
      ASSERT_EQ(hashes.count(file), 1);
      const json& entry = report["benchmarks"][i];
      const bool is_new = record["sha256"] == entry["output"]["sha256"];
      const bool is_whole = hashes[file] == record["sha256"];
      EXPECT_EQ(entry["status"] == "PASSED", is_new && is_whole);
      if (is_whole) continue;
      ++mixed;
      EXPECT_THAT(entry["check"]["detail"].get<std::string>(),
                  HasSubstr("the golden was changed after it was recorded"));
    }
    record_all(1 - round % 2);
    ASSERT_EQ(Sh("convgrad batch m.json").exit_code, 0);
  }
  RecordProperty("mixed", mixed);  // of chance: a file in place, its record not yet
  for (const std::string& name : Files()) EXPECT_THAT(name, Not(HasSubstr(".tmp-")));
}

TEST_F(RecordTest, AFullDiskFailsTheCaseAlone) {
  json large = Case("large", "large.npy");
  large["filter"]["shape"] = {3, 3, 3, 4000};
  WriteCase();
  WriteManifest({Case("small", "small.npy"), large, Case("after", "after.npy")});
  ASSERT_EQ(Sh("mkdir disk").exit_code, 0);
  const ShellResult result =
      Sh("unset CI; unshare -m sh -c 'mount -t tmpfs -o size=128k none disk || exit 99; "
         "cp m.json x.npy disk; convgrad batch disk/m.json --record --report r.json; code=$?; "
         "ls -A disk >files; exit $code'");
  if (result.exit_code == 99 || result.err.find("unshare") != std::string::npos) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json entries = Report()["benchmarks"];
  EXPECT_EQ(entries[0]["status"], "RECORDED");
  EXPECT_EQ(entries[1]["error"]["code"], "io/no-space");
  EXPECT_EQ(entries[2]["status"], "RECORDED");
  EXPECT_EQ(ReadBytes(Path("files")),
            "after.npy\nafter.npy.golden.json\nm.json\nsmall.npy\nsmall.npy.golden.json\nx.npy\n");
}

TEST_F(RecordTest, OtherCasesAreRunAsEver) {
  WriteCase();
  json plain = Case("plain", "");
  plain.erase("expect");
  json hash = Case("hash", "");
  hash["expect"] = {{"sha256", std::string(64, '0')}};
  WriteManifest({Case("a", "g.npy"), plain, hash});
  const ShellResult result = Sh("unset CI; convgrad batch m.json --record");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("3 cases, 1 FAILED, 1 COMPUTED, 1 RECORDED"));
}

}  // namespace
}  // namespace convgrad::testing
