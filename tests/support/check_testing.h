// The end-to-end tests of `check` share this: a golden of one problem, and the check against it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "order/canonical_order.h"
#include "support/cli_testing.h"
#include "tensor/tensor_hash.h"

namespace convgrad::testing {

inline constexpr const char* kCheck =
    "convgrad check conv2d --padding SAME --input fill:normal@1,6,6,4 --filter fill:normal@3,3,4,4 "
    "--report r.json ";
inline constexpr const char* kRun =
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

}  // namespace convgrad::testing
