// The fixture of tests of `batch --split-images`: a manifest with a case too large for one shard,
// its operands, and shards run one after the other.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/cli_testing.h"

namespace convgrad::testing {

inline constexpr int kImages = 24;

class SplitImagesTest : public CliTest {
 protected:
  using json = nlohmann::json;

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
      EXPECT_THAT(result.exit_code, ::testing::AnyOf(0, exit_code)) << result.err;
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
    EXPECT_THAT(result.err, ::testing::HasSubstr(words));
    EXPECT_EQ(Report()["error"]["code"], code) << result.err;
    EXPECT_FALSE(Exists("sum.npy"));
    const ShellResult look = Sh("convgrad merge --allow-missing --report r.json" + reports);
    EXPECT_EQ(look.exit_code, 3);
    EXPECT_EQ(Report()["error"]["code"], code);
    const json entries = Report()["benchmarks"];
    for (const json& entry : entries) EXPECT_NE(entry["name"], "sum");
  }
};

}  // namespace convgrad::testing
