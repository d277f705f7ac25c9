// `batch --split-images` and its merge, where something is wrong: parts that are missing, stale or
// foreign, reports that don't agree, shards that failed, flags that don't go together.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/cli_testing.h"
#include "support/split_images_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace convgrad::testing
