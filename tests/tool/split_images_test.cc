// A case that is too large for one shard, end to end: `batch --shard --split-images` deals its
// images, and `merge` makes the result and the verdict of one batch; parts that are missing, stale,
// foreign or of failed shards; shards that are killed.
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

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kImages = 24;

class SplitImagesTest : public CliTest {
 protected:
  void SetUp() override {
    MakeOperand("x.npy", 8, "input", 1);
    MakeOperand("g.npy", 16, "out_backprop", 2);
  }

  // Parts of a sum in float32 take longer than the case does, so that few shards don't share it.
  void MakeOperand(const std::string& name, int channels, const std::string& role, int seed,
                   const std::string& dtype = "float64") const {
    Ok(fmt::format(
        "convgrad gen --fill normal --shape {},20,20,{} --dtype {} --role {} --seed {} -o {}",
        kImages, channels, dtype, role, seed, name));
  }
  ShellResult Ok(const std::string& command) const {
    ShellResult result = Sh(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.out << result.err;
    return result;
  }

  static json Small(int number) {
    return {{"name", fmt::format("small {}", number)},
            {"op", "conv2d"},
            {"input", fmt::format("fill:normal@1,{0},{0},4", 4 + number)},
            {"filter", "fill:normal@3,3,4,4"}};
  }
  static json Sum(const json& more = json::object()) {
    json one = {{"name", "sum"},           {"op", "conv2d_backprop_filter"},
                {"input", "x.npy"},        {"filter_sizes", {3, 3, 8, 16}},
                {"out_backprop", "g.npy"}, {"precision", "exact"},
                {"output", "sum.npy"},     {"tags", {"huge"}}};
    one.update(more);
    return one;
  }
  static json Images(const json& more = json::object()) {
    json one = {{"name", "images"},
                {"op", "conv2d_backprop_input"},
                {"input_sizes", {kImages, 20, 20, 8}},
                {"filter", "fill:normal@16,8,3,3"},
                {"filter_format", "OIHW"},
                {"out_backprop", "g.npy"},
                {"output", "sub/images.npy"}};
    one.update(more);
    return one;
  }
  void WriteManifest(const json& cases) const {
    WriteBytes(Path("m.json"), json{{"schema", "convgrad-manifest/1"},
                                    {"defaults", {{"padding", "SAME"}}},
                                    {"cases", cases}}
                                   .dump(1));
  }

  ShellResult RunShard(int shard, int count, const std::string& flags = "") const {
    return Sh(
        fmt::format("convgrad batch m.json --shard {0}/{1} --split-images --report {0}.json {2}",
                    shard, count, flags));
  }
  // Returns the reports' names.
  std::string RunShards(int count, const std::string& flags = "", int exit_code = 0) const {
    std::string reports;
    for (int shard = 1; shard <= count; ++shard) {
      const ShellResult result = RunShard(shard, count, flags);
      EXPECT_THAT(result.exit_code, AnyOf(0, exit_code)) << result.err;
      reports += fmt::format(" {}.json", shard);
    }
    return reports;
  }
  // The entries of parts in the shards' reports, in their order.
  std::vector<json> Parts(int count) const {
    std::vector<json> parts;
    for (int shard = 1; shard <= count; ++shard) {
      const json entries = Report(fmt::format("{}.json", shard))["benchmarks"];
      for (const json& entry : entries) {
        if (entry.contains("split")) parts.push_back(entry);
      }
    }
    return parts;
  }
  // `cut_from`: fewer shards don't cut the case.
  void ExpectEveryDealAgrees(const std::string& output, int cut_from) const {
    Ok("convgrad batch m.json --report whole.json");
    const json whole = WithoutTimes(Report("whole.json"));
    const std::string bytes = ReadBytes(Path(output));
    for (const int count : {1, 2, 3, 4, 5}) {
      std::filesystem::remove(Path(output));
      const std::string reports = RunShards(count, count == 3 ? "--isolate" : "");
      if (count != 4) {
        EXPECT_EQ(Parts(count).size(), count < cut_from ? 0 : static_cast<size_t>(count));
        EXPECT_EQ(Exists(output), count < cut_from);
      }
      Ok("convgrad merge --report merged.json" + reports);
      EXPECT_EQ(WithoutTimes(Report("merged.json")), whole) << count;
      EXPECT_TRUE(ReadBytes(Path(output)) == bytes) << count;
    }
  }

  // One line that names what is wrong, exit code 3, and nothing written.
  void MergeIsRefused(const std::string& reports, const std::string& code,
                      const std::string& words) const {
    const ShellResult result = Sh("convgrad merge --report r.json" + reports);
    EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_EQ(Report()["error"]["code"], code) << result.err;
    EXPECT_FALSE(Exists("sum.npy"));
    const ShellResult look = Sh("convgrad merge --allow-missing --report r.json" + reports);
    EXPECT_EQ(look.exit_code, 3);
    EXPECT_EQ(Report()["error"]["code"], code);
    const json entries = Report()["benchmarks"];
    for (const json& entry : entries) EXPECT_NE(entry["name"], "sum");
  }
};

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

TEST_F(SplitImagesTest, WhatIsMissingStaleOrForeignIsRefused) {
  WriteManifest({Small(0), Sum()});
  const std::string reports = RunShards(3);
  const std::string part = Path("2.json.case-1.cgp");
  const std::string bytes = ReadBytes(part);
  MergeIsRefused(" 1.json 3.json", "merge/missing", "shard 2");
  std::filesystem::remove(part);
  MergeIsRefused(reports, "merge/missing", "2.json.case-1.cgp");
  WriteBytes(part, bytes.substr(0, bytes.size() / 2));
  MergeIsRefused(reports, "part/truncated", "2.json.case-1.cgp");
  std::string flipped = bytes;
  flipped[bytes.size() - 100] ^= 1;
  WriteBytes(part, flipped);
  MergeIsRefused(reports, "part/hash", "2.json.case-1.cgp");
  WriteBytes(part, ReadBytes(Path("1.json.case-1.cgp")));
  MergeIsRefused(reports, "part/duplicate", "has images");
  // The part that another run has written, of operands that are others now.
  MakeOperand("x.npy", 8, "input", 3);
  Sh("convgrad batch m.json --shard 2/3 --split-images --report other.json && "
     "cp other.json.case-1.cgp 2.json.case-1.cgp");
  MergeIsRefused(reports, "part/other-operand", "input");
  WriteBytes(part, bytes);
  MergeIsRefused(reports, "part/operand-changed", "x.npy");
  MakeOperand("x.npy", 8, "input", 1);
  Ok("convgrad merge --report r.json" + reports);
}

// The part that a report tells of, not one that fits as well.
TEST_F(SplitImagesTest, APartThatIsNotTheReportsIsStale) {
  WriteManifest({Small(0), Images({{"output", "sum.npy"}, {"name", "sum"}})});
  const std::string reports = RunShards(2);
  Ok(fmt::format(
      "convgrad run conv2d_backprop_input --padding SAME --input-sizes {},20,20,8 "
      "--filter fill:normal@16,8,3,3 --filter-format OIHW --out-backprop g.npy --images "
      "{}:{} --partial 1.json.case-1.cgp",
      kImages, 0, Parts(2)[0]["split"]["images"][1].get<int>()));
  Ok("convgrad merge --report r.json" + reports);
  json report = Report("1.json");
  for (json& entry : report["benchmarks"]) {
    if (entry.contains("part")) entry["part"]["sha256"] = std::string(64, '0');
  }
  WriteBytes(Path("1.json"), report.dump());
  std::filesystem::remove(Path("sum.npy"));
  MergeIsRefused(reports, "merge/stale", "1.json.case-1.cgp: it is not the part");
}

TEST_F(SplitImagesTest, ReportsThatDontAgreeAreRefused) {
  WriteManifest({Small(0), Sum()});
  const std::string reports = RunShards(2);
  const json first = Report("1.json"), second = Report("2.json");
  const auto with = [&](const std::string& key, const json& value) {
    json changed = second;
    for (json& entry : changed["benchmarks"]) {
      if (entry.contains("split")) entry["split"][key] = value;
    }
    WriteBytes(Path("2.json"), changed.dump());
  };
  with("parts", 3);
  MergeIsRefused(reports, "merge/different-parts", "dealt differently");
  with("part", 1);
  MergeIsRefused(reports, "merge/double", "part 1 of 2");
  with("part", 3);
  MergeIsRefused(reports, "report/malformed", "3 is no part of 2");
  json without = second;
  without["benchmarks"].erase(without["benchmarks"].size() - 1);
  WriteBytes(Path("2.json"), without.dump());
  MergeIsRefused(reports, "merge/missing", "no report has part 2 of 2");
  with("images", "all");
  MergeIsRefused(reports, "report/malformed", "2.json");
  WriteBytes(Path("2.json"), second.dump());
  // One shard ran without the flag: it has the whole case, or nothing of it.
  Ok("convgrad batch m.json --report 1.json --shard 1/2 && rm -f sum.npy");
  MergeIsRefused(reports, "merge/double", "case 'sum'");
}

TEST_F(SplitImagesTest, AFailedPartIsTheCasesEnd) {
  WriteManifest({Small(0), Sum()});
  const std::string reports = RunShards(2);
  std::filesystem::remove(Path("2.json.case-1.cgp"));
  std::filesystem::create_directory(Path("2.json.case-1.cgp"));
  EXPECT_EQ(RunShard(2, 2).exit_code, 4);
  const ShellResult merged = Sh("convgrad merge --report r.json" + reports);
  EXPECT_EQ(merged.exit_code, 4);
  const json entry = Report()["benchmarks"][1];
  EXPECT_EQ(entry["status"], "ERROR");
  EXPECT_THAT(entry["error"]["message"].get<std::string>(), HasSubstr("2.json.case-1.cgp"));
  EXPECT_EQ(entry["name"], "sum");
  EXPECT_FALSE(entry.contains("split"));
  EXPECT_THAT(entry["repro"].get<std::string>(), Not(HasSubstr("--images")));
  EXPECT_FALSE(Exists("sum.npy"));
}

// Reports and parts that were moved together stay beside each other.
TEST_F(SplitImagesTest, PartsLieBesideTheirReports) {
  WriteManifest({Small(0), Sum()});
  RunShards(2);
  Ok("mkdir there && mv *.cgp [12].json there && convgrad merge there/[12].json --report r.json");
  EXPECT_TRUE(Exists("sum.npy"));
}

TEST_F(SplitImagesTest, FlagsThatDontGoTogether) {
  WriteManifest({Small(0), Sum({{"expect", "golden.npy"}})});
  for (const char* flags :
       {"--report r.json", "--shard 1/2", "--shard 1/2 --report -",
        "--shard 1/2 --report r.json --no-hash", "--shard 1/2 --report r.json --record",
        "--shard 1/2 --report r.json --write-pending new"}) {
    const ShellResult result =
        Sh(fmt::format("CI= convgrad batch m.json --split-images {}", flags));
    EXPECT_EQ(result.exit_code, 2) << flags;
  }
  EXPECT_EQ(Sh("convgrad plan conv2d --padding SAME --input fill:ones@1,2,2,1 --filter "
               "fill:ones@1,1,1,1 --split-images")
                .exit_code,
            2);
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
