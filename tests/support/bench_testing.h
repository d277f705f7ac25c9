// The end-to-end tests of `bench` share this: a case that is timed quickly, and times made up of
// it.
#pragma once

#include <string>

#include "support/cli_testing.h"

namespace convgrad::testing {

class BenchTest : public CliTest {
 protected:
  ShellResult Bench(const std::string& flags) { return Sh("convgrad bench " + flags); }
  ShellResult Ok(const std::string& flags) {
    const ShellResult result = Bench(flags);
    EXPECT_EQ(result.exit_code, 0) << flags << "\n" << result.err;
    return result;
  }
  // The report with every time of every case scaled.
  void ScaleTimes(const std::string& from, const std::string& to, double factor) {
    nlohmann::json report = Report(from);
    for (nlohmann::json& entry : report["benchmarks"]) {
      for (const char* key : {"real_time", "cpu_time"}) {
        entry[key] = factor * entry[key].get<double>();
      }
      for (const char* key : {"compute_ms", "min", "median", "mean", "p5", "p95", "max"}) {
        entry["timing"][key] = factor * entry["timing"][key].get<double>();
      }
      for (nlohmann::json& end : entry["timing"]["ci"]) end = factor * end.get<double>();
    }
    WriteBytes(Path(to), report.dump());
  }
};

// An interval, however busy the machine is: it takes the samples that this needs, and no more.
inline constexpr const char* kEnoughSamples = "--max-time 1min --ci 100% ";

inline constexpr const char* kCase =
    "depthwise_conv2d_backprop_filter --padding SAME --input fill:normal@1,14,14,32 --filter-sizes "
    "3,3,32,1 --out-backprop fill:normal --threads 1 --max-time 1min --ci 100% ";
// In the time for measurements, another binary is to be run many times.
inline constexpr const char* kShortCase =
    "depthwise_conv2d_backprop_filter --padding SAME --input fill:normal@1,14,14,32 --filter-sizes "
    "3,3,32,1 --out-backprop fill:normal --threads 1 --max-time 150ms ";

}  // namespace convgrad::testing
