// A case that is too large for one shard, end to end: `batch --shard --split-images` deals its
// images, and `merge` makes the result and the verdict of one batch; shards that are killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/cli_testing.h"
#include "support/from_environment.h"
#include "support/split_images_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(SplitImagesTest, TheMergeIsThatOfOneBatch) {
  std::mt19937_64 random(std::random_device{}());
  for (const std::string dtype : {"float64", "float32"}) {
    MakeOperand("x.npy", 8, "input", 1, dtype);
    MakeOperand("g.npy", 16, "out_backprop", 2, dtype);
    for (const json& huge : {Sum(), Images(), Images({{"precision", "double"}})}) {
      json cases = json::array({huge});
      for (int i = 0; i < 6; ++i) {
        cases.insert(cases.begin() + static_cast<int>(random() % (cases.size() + 1)), Small(i));
      }
      WriteManifest(cases);
      ExpectEveryDealAgrees(huge["output"], dtype == "float32" && huge["name"] == "sum" ? 5 : 2);
    }
  }
}

TEST_F(SplitImagesTest, EntriesAndPlansSayWhatAPartIs) {
  WriteManifest({Small(0), Sum()});
  const ShellResult planned = Ok("convgrad plan m.json --shards 3 --split-images --report p.json");
  EXPECT_THAT(planned.out, HasSubstr("the images of sum:\n"));
  const json split = Report("p.json")["context"]["plan"]["split"];
  ASSERT_EQ(split.size(), 1u);
  EXPECT_EQ(split[0]["case"], 1);
  RunShards(3, "--junit j.xml");
  const std::vector<json> parts = Parts(3);
  ASSERT_EQ(parts.size(), 3u);
  for (size_t i = 0; i < parts.size(); ++i) {
    const json& entry = parts[i];
    EXPECT_EQ(entry["status"], "COMPUTED");
    EXPECT_EQ(entry["split"]["part"], i + 1);
    EXPECT_EQ(entry["split"]["parts"], 3);
    EXPECT_EQ(entry["split"]["images"], split[0]["parts"][i]["images"]);
    EXPECT_EQ(entry["part"]["images"][0], split[0]["parts"][i]["images"]);
    EXPECT_EQ(entry["part"]["path"], fmt::format("{}.json.case-1.cgp", i + 1));
    EXPECT_TRUE(Exists(entry["part"]["path"]));
  }
  EXPECT_THAT(ReadBytes(Path("j.xml")), HasSubstr("part 3 of 3, which merge puts together"));
  const ShellResult listed =
      Ok("convgrad batch m.json --shard 2/3 --split-images --report l.json --list 2>/dev/null | "
         "tee l | "
         "sh && cmp l.json.case-1.cgp 2.json.case-1.cgp");
  EXPECT_THAT(ReadBytes(Path("l")), HasSubstr("--partial l.json.case-1.cgp"));
  // Where it is not asked for, nothing is cut, and `plan` says what could be.
  EXPECT_THAT(Ok("convgrad plan m.json --shards 3").out,
              HasSubstr("--split-images would deal its images"));
}

// What `merge` can't check, or where sums depend on their cut, stays whole.
TEST_F(SplitImagesTest, CasesThatStayWhole) {
  for (const json& whole :
       {Sum({{"precision", "standard"}}), Sum({{"tolerance", "auto"}}), Sum({{"probe", true}}),
        Images({{"invariance", true}}), Images({{"tolerance", "bits"}})}) {
    WriteManifest({Small(0), whole});
    const ShellResult planned =
        Ok("convgrad plan m.json --shards 2 --split-images --report p.json");
    EXPECT_FALSE(Report("p.json")["context"]["plan"].contains("split")) << whole;
    EXPECT_THAT(planned.out, AnyOf(Not(HasSubstr("images")), HasSubstr("fill"))) << whole;
  }
}

TEST_F(SplitImagesTest, GoldensDecideAtTheMerge) {
  WriteManifest({Small(0), Sum({{"expect", "golden.npy"}})});
  Ok("CI= convgrad batch m.json --record --hash-only");
  std::filesystem::remove(Path("sum.npy"));
  // A part has passed nothing.
  const std::string reports = RunShards(3);
  for (const json& part : Parts(3)) EXPECT_EQ(part["status"], "COMPUTED");
  Ok("convgrad merge --report r.json" + reports);
  EXPECT_EQ(Report()["benchmarks"][1]["status"], "PASSED");
  EXPECT_EQ(Report()["benchmarks"][1]["check"]["counts"]["differ"], 0);
  // Another result fails, as in one batch.
  MakeOperand("x.npy", 8, "input", 9);
  Sh("convgrad batch m.json --report whole.json");
  RunShards(3);
  const ShellResult wrong = Sh("convgrad merge --report r.json" + reports);
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err + wrong.out, HasSubstr("FAILED  sum"));
  EXPECT_EQ(WithoutTimes(Report())["benchmarks"][1],
            WithoutTimes(Report("whole.json"))["benchmarks"][1]);
  // Where a golden is wanted and there is none, nothing is green.
  WriteManifest({Small(0), Sum()});
  RunShards(3, "--require-golden", 1);
  EXPECT_EQ(Sh("convgrad merge --report r.json" + reports).exit_code, 1);
  EXPECT_EQ(Report()["benchmarks"][1]["error"]["code"], "golden/none");
}

// Reports and parts that were moved together stay beside each other.
TEST_F(SplitImagesTest, PartsLieBesideTheirReports) {
  WriteManifest({Small(0), Sum()});
  RunShards(2);
  Ok("mkdir there && mv *.cgp [12].json there && convgrad merge there/[12].json --report r.json");
  EXPECT_TRUE(Exists("sum.npy"));
}

TEST_F(SplitImagesTest, ResumeTrustsThePartThatIsThere) {
  WriteManifest({Small(0), Sum()});
  const auto resumed = [&] {
    EXPECT_EQ(RunShard(1, 2, "--events e.jsonl --resume").exit_code, 0);
    const json entries = Report("1.json")["benchmarks"];
    for (const json& entry : entries) {
      if (entry.contains("split")) return entry.contains("resumed");
    }
    ADD_FAILURE() << "no part";
    return false;
  };
  const std::string part = Path("1.json.case-1.cgp");
  EXPECT_FALSE(resumed());
  const std::string bytes = ReadBytes(part);
  EXPECT_TRUE(resumed());
  std::filesystem::remove(part);
  EXPECT_FALSE(resumed());
  std::string flipped = bytes;
  flipped[bytes.size() - 100] ^= 1;
  WriteBytes(part, flipped);
  EXPECT_FALSE(resumed());
  EXPECT_TRUE(ReadBytes(part) == bytes);
  // Images of other shards count as well: all parts have samples of them.
  for (const char* operand : {"x.npy", "g.npy"}) {
    std::string text = ReadBytes(Path(operand));
    text[text.size() - 5] ^= 1;
    WriteBytes(Path(operand), text);
    EXPECT_FALSE(resumed()) << operand;
    EXPECT_TRUE(resumed());
  }
  RunShard(2, 2);
  Ok("convgrad merge 1.json 2.json --report r.json");
}

// Parts are there whole or not at all, and a last run makes up for every kill.
TEST_F(SplitImagesTest, ShardsThatAreKilledGoOn) {
  const int num_rounds = Rounds(60);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  WriteManifest({Small(0), Sum(), Small(1)});
  Ok("convgrad batch m.json --report whole.json");
  const std::string sum = ReadBytes(Path("sum.npy"));
  RunShard(2, 2);
  const auto begin = std::chrono::steady_clock::now();
  const auto start = [&] {
    return Start({"batch", "m.json", "--shard", "1/2", "--split-images", "--events", "e.jsonl",
                  "--resume", "--report", "1.json", "--quiet"});
  };
  ASSERT_EQ(ExitCodeOf(start()), 0);
  KillMoments moments(seed, std::chrono::steady_clock::now() - begin);
  const std::string part = ReadBytes(Path("1.json.case-1.cgp"));
  for (int round = 0; round < num_rounds; ++round) {
    if (round % 3 == 0) {
      for (const char* name : {"e.jsonl", "1.json", "1.json.case-1.cgp", "sum.npy"}) {
        std::filesystem::remove(Path(name));
      }
    }
    const int signal = random() % 3 == 0 ? SIGTERM : SIGKILL;
    const pid_t batch = start();
    std::this_thread::sleep_for(moments.Next());
    kill(batch, signal);
    const int exit_code = ExitCodeOf(batch);
    ASSERT_THAT(exit_code, AnyOf(0, 128 + signal));
    moments.Learn(exit_code != 0);
    if (Exists("1.json.case-1.cgp")) {
      ASSERT_TRUE(ReadBytes(Path("1.json.case-1.cgp")) == part);
    }
    if (round % 3 != 2) continue;
    ASSERT_EQ(ExitCodeOf(start()), 0);
    Ok("convgrad merge 1.json 2.json --report merged.json");
    ASSERT_TRUE(ReadBytes(Path("sum.npy")) == sum);
  }
  EXPECT_EQ(WithoutTimes(Report("whole.json"))["benchmarks"][1],
            WithoutTimes(Report("merged.json"))["benchmarks"][1]);
  for (const std::string& name : Files()) EXPECT_THAT(name, Not(HasSubstr(".tmp-")));
}

}  // namespace
}  // namespace convgrad::testing
