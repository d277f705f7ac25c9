// Manifests in parts, as a user meets them: what `plan MANIFEST --shards n` predicts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ShardsTest : public CliTest {
 protected:
  // Cases with images of side 4, 8, ... pixels, from fills.
  void WriteManifest(const std::string& name, int num_cases) const {
    json cases = json::array();
    for (int i = 0; i < num_cases; ++i) {
      cases.push_back({{"name", fmt::format("case{}", i)},
                       {"input", fmt::format("fill:normal@1,{0},{0},8", 4 * (i + 1))}});
    }
    WriteBytes(Path(name), json{{"schema", "convgrad-manifest/1"},
                                {"defaults", {{"op", "conv2d"}, {"filter", "fill:normal@3,3,8,8"}}},
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

TEST_F(ShardsTest, PlanKnowsFilesByTheirHeaders) {
  WriteFloats("small.npy", {1, 2, 2, 1}, std::vector<float>(4));
  WriteFloats("large.npy", {1, 500, 500, 1}, std::vector<float>(250000));
  WriteBytes(Path("m.jsonl"),
             R"({"name": "a", "op": "conv2d", "input": "small.npy", "filter": "fill:ones@3,3,1,1"}
{"name": "b", "op": "conv2d", "input": "large.npy", "filter": "fill:ones@3,3,1,1"}
{"name": "c", "op": "conv2d", "input": "none.npy", "filter": "fill:ones@3,3,1,1"}
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
  EXPECT_EQ(Sh("convgrad plan empty.json --shards 2").exit_code, 0);
}

}  // namespace
}  // namespace convgrad::testing
