// The end-to-end tests of recorded goldens share this: a manifest of cases with goldens.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/cli_testing.h"

namespace convgrad::testing {

using nlohmann::json;

class RecordTest : public CliTest {
 protected:
  static json Case(const std::string& name, const std::string& expect) {
    return {{"name", name},
            {"op", "conv2d"},
            {"padding", "SAME"},
            {"input", "x.npy"},
            {"filter", {{"fill", "normal"}, {"shape", {3, 3, 3, 4}}}},
            {"expect", expect}};
  }
  void WriteManifest(const std::vector<json>& cases) const {
    WriteBytes(Path("m.json"), json({{"schema", "convgrad-manifest/1"}, {"cases", cases}}).dump());
  }
  // The case "a" of an input that follows from `seed`.
  void WriteCase(int seed = 0) const {
    WriteManifest(std::vector<json>{Case("a", "g.npy")});
    const std::string gen = "convgrad gen --fill normal --shape 1,6,6,3 --output x.npy --seed ";
    ASSERT_EQ(Sh(gen + std::to_string(seed)).exit_code, 0);
  }
  // The only entry of the report, which says why where it is an error.
  json Entry(const std::string& flags, int exit_code) const {
    const ShellResult result = Sh("unset CI; convgrad batch m.json --report r.json " + flags);
    EXPECT_EQ(result.exit_code, exit_code) << flags << "\n" << result.out << result.err;
    return Report()["benchmarks"][0];
  }
  json Record() const { return json::parse(ReadBytes(Path("g.npy.golden.json"))); }
};

}  // namespace convgrad::testing
