// Manifests in parts, as a user meets them: what `plan MANIFEST --shards n` predicts, what `batch
// --shard` runs, and what `merge` makes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ShardsTest : public CliTest {
 protected:
  // Cases with images of side 4, 8, ... pixels, from fills.
  void WriteManifest(const std::string& name, int num_cases) const {
    json cases = json::array();
    for (int i = 0; i < num_cases; ++i) {
      cases.push_back({{"name", fmt::format("case{}", i)},
                       {"input", fmt::format("fill:normal@1,{0},{0},8", 4 * (i + 1))}});
    }
    WriteBytes(Path(name),
               json{{"schema", "convgrad-manifest/1"},
                    {"defaults",
                     {{"op", "conv2d"}, {"padding", "SAME"}, {"filter", "fill:normal@3,3,8,8"}}},
                    {"cases", cases}}
                   .dump());
  }
};

TEST_F(ShardsTest, PlanPredictsEachShard) {
  WriteManifest("m.json", 11);
  const ShellResult result = Sh("convgrad plan m.json --shards 3 --report r.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("m.json: 11 cases, plan "));
  EXPECT_THAT(result.out, HasSubstr("3/3"));
  EXPECT_THAT(result.out, HasSubstr("imbalance"));
  const json plan = Report()["context"]["plan"];
  EXPECT_EQ(plan["cases"], 11);
  EXPECT_EQ(plan["shard"], nullptr);
  ASSERT_EQ(plan["shards"].size(), 3u);
  int64_t cases = 0;
  for (const json& shard : plan["shards"]) {
    cases += shard["cases"].get<int64_t>();
    EXPECT_GT(shard["seconds"], 0);
  }
  EXPECT_EQ(cases, 11);
  EXPECT_EQ(plan["shards"][2]["shard"], "3/3");
  EXPECT_GE(plan["imbalance"], 0);
  // The plan is that of the cases, whatever becomes of them and wherever they lie.
  Sh("mkdir there && cp m.json there && convgrad plan there/m.json --report r2.json");
  EXPECT_EQ(Report("r2.json")["context"]["plan"]["sha256"], plan["sha256"]);
  EXPECT_EQ(Report("r2.json")["context"]["plan"]["shards"].size(), 1u);
}

// The entries of a batch's cases, less what only running them tells.
TEST_F(ShardsTest, PlanReportsEachCase) {
  WriteManifest("m.json", 5);
  json manifest = json::parse(ReadBytes(Path("m.json")));
  manifest["cases"][3]["input"] = "missing.npy";
  manifest["cases"][4]["input"] = "fill:normal@1,500,500,8";  // all threads
  WriteBytes(Path("m.json"), manifest.dump());
  const ShellResult result = Sh("convgrad plan m.json --report plan.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 of 5 cases can't be planned now"));
  EXPECT_EQ(Sh("convgrad batch m.json --report batch.json").exit_code, 4);
  const json planned = Report("plan.json")["benchmarks"], run = Report("batch.json")["benchmarks"];
  ASSERT_EQ(planned.size(), 5u);
  for (const int i : {0, 1, 2, 4}) {
    EXPECT_EQ(planned[i]["status"], "SKIPPED");
    EXPECT_EQ(planned[i]["exit_code"], 0);
    EXPECT_FALSE(planned[i].contains("timing"));
    for (const char* key : {"name", "family_index", "identity", "problem", "repro"}) {
      EXPECT_EQ(planned[i][key], run[i][key]) << key;
    }
    for (const char* key : {"algorithm", "threads", "tiles", "memory_bytes"}) {
      EXPECT_EQ(planned[i]["run"][key], run[i]["run"][key]) << key;
    }
    EXPECT_EQ(planned[i]["inputs"][0]["path"], run[i]["inputs"][0]["path"]);
  }
  EXPECT_EQ(planned[3]["error"], run[3]["error"]);
  EXPECT_EQ(Sh("convgrad plan m.json --report missing.npy").exit_code, 2);
}

TEST_F(ShardsTest, PlanKnowsFilesByTheirHeaders) {
  WriteFloats("small.npy", {1, 2, 2, 1}, std::vector<float>(4));
  WriteFloats("large.npy", {1, 500, 500, 1}, std::vector<float>(250000));
  WriteBytes(
      Path("m.jsonl"),
      R"({"name": "a", "op": "conv2d", "padding": "SAME", "input": "small.npy", "filter": "fill:ones@3,3,1,1"}
{"name": "b", "op": "conv2d", "padding": "SAME", "input": "large.npy", "filter": "fill:ones@3,3,1,1"}
{"name": "c", "op": "conv2d", "padding": "SAME", "input": "none.npy", "filter": "fill:ones@3,3,1,1"}
)");
  const ShellResult result = Sh("convgrad plan m.jsonl --shards 2 --report r.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("one case alone takes"));
  const json shards = Report()["context"]["plan"]["shards"];
  EXPECT_EQ(shards[0]["cases"], 1);
  EXPECT_EQ(shards[1]["cases"], 2);
  EXPECT_GT(shards[0]["seconds"], shards[1]["seconds"]);
}

TEST_F(ShardsTest, PlanOfWrongManifests) {
  WriteManifest("m.json", 2);
  for (const char* wrong : {"--shards 0", "--shards -1", "--shards 1000001", "--shards 2.5",
                            "--shards 2 --strides 2", "--shards 2 --seed 1", "--shard 1/2"}) {
    EXPECT_EQ(Sh(fmt::format("convgrad plan m.json {}", wrong)).exit_code, 2) << wrong;
  }
  EXPECT_EQ(Sh("convgrad plan none.json --shards 2").exit_code, 4);
  EXPECT_EQ(Sh("convgrad plan m.json --shards 5").exit_code, 0);
  WriteManifest("empty.json", 0);
  EXPECT_EQ(Sh("convgrad plan empty.json --shards 2").exit_code, 6);
}

// A plan is of what `batch` would run, and that refuses a case that writes over its manifest.
TEST_F(ShardsTest, PlanOfAManifestThatACaseWrites) {
  WriteBytes(
      Path("m.json"),
      R"({"schema": "convgrad-manifest/1", "cases": [{"name": "a", "op": "conv2d", "padding": "SAME",)"
      R"( "input": "fill:ones@1,4,4,1", "filter": "fill:ones@3,3,1,1", "output": "m.json"}]})");
  for (const char* command : {"plan m.json --shards 2", "batch m.json", "bench m.json"}) {
    const ShellResult result = Sh(fmt::format("convgrad {}", command));
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("MANIFEST")) << command;
  }
}

TEST_F(ShardsTest, MergedShardsEqualTheWholeButForTimes) {
  WriteManifest("m.json", 13);
  ASSERT_EQ(Sh("convgrad batch m.json --report whole.json").exit_code, 0);
  for (const int count : {1, 2, 5}) {
    std::string parts;
    for (int i = 1; i <= count; ++i) {
      const ShellResult result =
          Sh(fmt::format("convgrad batch m.json --shard {0}/{1} --report part{0}.json", i, count));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_THAT(result.err, HasSubstr(fmt::format("convgrad: shard {}/{}\n", i, count)));
      const json part = Report(fmt::format("part{}.json", i));
      EXPECT_EQ(part["context"]["plan"]["shard"], fmt::format("{}/{}", i, count));
      EXPECT_EQ(part["context"]["plan"]["cases"], 13);
      parts = fmt::format("part{}.json ", i) + parts;
    }
    const ShellResult merged = Sh("convgrad merge " + parts);
    ASSERT_EQ(merged.exit_code, 0) << merged.err;
    EXPECT_EQ(WithoutTimes(ReportIn(merged.out)), WithoutTimes(Report("whole.json"))) << count;
    EXPECT_EQ(Sh("convgrad merge --report m2.json " + parts).out, "");
    EXPECT_EQ(WithoutTimes(Report("m2.json")), WithoutTimes(Report("whole.json"))) << count;
  }
}

TEST_F(ShardsTest, MoreShardsThanCases) {
  WriteManifest("m.json", 2);
  std::string parts;
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(
        Sh(fmt::format("convgrad batch m.json --shard {0}/4 --report part{0}.json", i)).exit_code,
        0);
    parts += fmt::format(" part{}.json", i);
  }
  EXPECT_EQ(Report("part4.json")["benchmarks"].size(), 0u);
  EXPECT_EQ(Sh("convgrad merge --report whole.json" + parts).exit_code, 0);
  EXPECT_EQ(Report("whole.json")["benchmarks"].size(), 2u);
}

TEST_F(ShardsTest, HolesDoublesAndOtherPlansDoNotMerge) {
  WriteManifest("m.json", 4);
  WriteManifest("other.json", 5);
  Sh("for i in 1 2 3; do convgrad batch m.json --shard $i/3 --report $i.json; done");
  Sh("convgrad batch other.json --shard 3/3 --report other3.json");
  ShellResult result = Sh("convgrad merge 1.json 3.json --report whole.json");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, IsOneErrorLine());
  EXPECT_THAT(result.err, HasSubstr("shard 2: missing"));
  EXPECT_EQ(Report("whole.json")["error"]["code"], "merge/missing");
  EXPECT_THAT(Sh("convgrad merge 1.json 2.json 3.json 2.json").err,
              HasSubstr("both are shard 2/3"));
  result = Sh("convgrad merge 1.json 2.json other3.json");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("different plans"));
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(Sh("convgrad merge 1.json none.json").exit_code, 4);
  EXPECT_EQ(Sh("convgrad merge m.json").exit_code, 3);
  EXPECT_EQ(Sh("convgrad merge 1.json 2.json --report 1.json").exit_code, 2);
  // An output that no report may be.
  EXPECT_EQ(Sh("convgrad merge 1.json 2.json 3.json --summary -").exit_code, 2);
}

TEST_F(ShardsTest, TheMergeExitsAsTheWorstCaseDid) {
  WriteBytes(Path("m.json"),
             R"({"schema": "convgrad-manifest/1", "defaults": {"op": "conv2d", "padding": "SAME",
      "filter": "fill:ones@1,1,1,1"}, "cases": [{"name": "right", "input": "fill:ones@1,2,2,1"},
      {"name": "missing", "input": "none.npy"}]})");
  EXPECT_EQ(Sh("convgrad batch m.json --shard 1/2 --report 1.json").exit_code, 0);
  EXPECT_EQ(Sh("convgrad batch m.json --shard 2/2 --report 2.json").exit_code, 4);
  EXPECT_EQ(Sh("convgrad merge 1.json 2.json --report all.json --junit j.xml").exit_code, 4);
  EXPECT_THAT(ReadBytes(Path("j.xml")), HasSubstr("<error message="));
}

TEST_F(ShardsTest, TheMergeNamesWhatIsNotRight) {
  WriteBytes(Path("m.json"),
             R"({"schema": "convgrad-manifest/1", "defaults": {"op": "conv2d", "padding": "SAME",
      "filter": "fill:ones@1,1,1,1"}, "cases": [{"name": "right", "input": "fill:ones@1,2,2,1"},
      {"name": "gone", "input": "none.npy"}, {"name": "also right", "input": "fill:ones@1,3,3,1"}]})");
  for (const int i : {1, 2, 3}) {
    Sh(fmt::format("convgrad batch m.json --shard {0}/3 --report {0}.json", i));
  }
  ShellResult result = Sh("convgrad merge 1.json 2.json 3.json --report all.json");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, AllOf(HasSubstr("ERROR  gone\n  reason   none.npy: "),
                                HasSubstr("\n  repeat   "), Not(HasSubstr("right"))));
  // The report has standard output to itself; --quiet hides nothing that is not right.
  for (const char* flags : {"", "--quiet", "--report all.json --quiet"}) {
    result = Sh(fmt::format("convgrad merge 1.json 2.json 3.json {}", flags));
    EXPECT_THAT(result.err, HasSubstr("ERROR  gone\n")) << flags;
    EXPECT_EQ(result.out.find("ERROR  gone"), std::string::npos) << flags;
  }
  result = Sh("GITHUB_ACTIONS=true convgrad merge 1.json 2.json 3.json --report all.json");
  EXPECT_THAT(result.err, HasSubstr("::error title=ERROR gone::none.npy: "));
}

TEST_F(ShardsTest, APartialLookSaysThatItIsOne) {
  WriteManifest("m.json", 6);
  Sh("for i in 1 3; do convgrad batch m.json --shard $i/3 --report $i.json; done");
  EXPECT_EQ(Sh("convgrad merge 1.json 3.json --report look.json").exit_code, 3);
  const ShellResult result =
      Sh("convgrad merge 1.json 3.json --allow-missing --report look.json --summary look.md");
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: shard 2: missing"));
  EXPECT_THAT(result.err, HasSubstr("merged 4 cases of 2 shards, a part of the whole; the worst"));
  const json look = Report("look.json");
  EXPECT_EQ(look["error"]["code"], "merge/missing");
  EXPECT_EQ(look["benchmarks"].size(), 4u);
  EXPECT_THAT(ReadBytes(Path("look.md")), HasSubstr("2 of 6 cases missing: 0 of 4 cases passed"));
  // No whole can be made of it.
  EXPECT_EQ(Sh("convgrad merge look.json").exit_code, 3);
}

// A part whose cases all pass says nothing of the others.
TEST_F(ShardsTest, AllowingWhatIsMissingMakesNoPass) {
  WriteManifest("m.json", 6);
  Sh("for i in 1 2; do convgrad batch m.json --shard $i/2 --report $i.json; done");
  EXPECT_EQ(Sh("convgrad merge 1.json 2.json --allow-missing --report all.json").exit_code, 0);
  EXPECT_FALSE(Report("all.json").contains("error"));
  EXPECT_EQ(Sh("convgrad merge 1.json --allow-missing --report part.json").exit_code, 3);
}

TEST_F(ShardsTest, EventsOfAnotherDealAreNotContinued) {
  WriteManifest("m.json", 6);
  const auto batch = [&](const std::string& flags) {
    return Sh("convgrad batch m.json --events e.jsonl --report r.json " + flags);
  };
  EXPECT_EQ(batch("--shard 3/3").exit_code, 0);
  const std::string events = ReadBytes(Path("e.jsonl"));
  for (const char* other : {"--shard 1/1", "", "--shard 3/4", "--shard 2/3"}) {
    for (const char* resume : {"", " --resume"}) {
      const ShellResult result = batch(std::string(other) + resume);
      EXPECT_EQ(result.exit_code, 3) << other;
      EXPECT_THAT(result.err, HasSubstr("it has the events of shard 3/3, this is "));
      EXPECT_EQ(Report()["error"]["code"], "events/other-shard");
      EXPECT_EQ(ReadBytes(Path("e.jsonl")), events);
    }
  }
  EXPECT_EQ(batch("--shard 3/3 --resume").exit_code, 0);
  const json entries = Report()["benchmarks"];
  for (const json& entry : entries) {
    EXPECT_EQ(entry["resumed"], true);
    EXPECT_FALSE(entry.contains("shard"));
  }
  std::istringstream lines(events);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(json::parse(line)["shard"], "3/3");
  }
  Sh("convgrad batch m.json --events whole.jsonl");
  EXPECT_EQ(Sh("convgrad batch m.json --events whole.jsonl --resume --shard 1/2").exit_code, 3);
}

TEST_F(ShardsTest, ShardsFromLaunchers) {
  WriteManifest("m.json", 6);
  const std::string batch = "convgrad batch m.json --report r.json --shard ";
  ShellResult result =
      Sh("GTEST_SHARD_INDEX=1 GTEST_TOTAL_SHARDS=3 GTEST_SHARD_STATUS_FILE=s " + batch + "auto");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("shard 2/3 (GoogleTest: GTEST_SHARD_INDEX=1)"));
  EXPECT_EQ(Report()["context"]["plan"]["shard"], "2/3");
  EXPECT_TRUE(Exists("s"));
  EXPECT_EQ(Sh("JOB_COMPLETION_INDEX=3 " + batch + "auto/4").exit_code, 0);
  EXPECT_EQ(Report()["context"]["plan"]["shard"], "4/4");
  EXPECT_EQ(Sh("JOB_COMPLETION_INDEX=3 " + batch + "auto").exit_code, 2);
  for (const char* wrong : {"3/2", "0/4", "1/0", "-1/4", "auto", "all"}) {
    result = Sh(batch + wrong);
    EXPECT_EQ(result.exit_code, 2) << wrong;
    EXPECT_THAT(result.err, IsOneErrorLine());
  }
}

}  // namespace
}  // namespace convgrad::testing
