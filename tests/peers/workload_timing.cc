// Times workloads in this process: ms, GFLOP/s and the share of a roofline whose two peaks are
// given. Those of data/workloads.json, or a sweep over shapes that are not on that list, which
// names the ones that fall behind their family. For developers; not run by the tests.
//
//   workload_timing [--match TEXT] [--pass forward|input|filter] [--format NHWC|NCHW] [--dtype
//   NAME]
//                   [--isa NAME] [--algorithm NAME] [--threads N] [--gflops PEAK] [--gbs PEAK]
//                   [--precision NAME] [--batch IMAGES]
//                   [--seconds EACH] [--sweep SHAPES [--seed N]]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "support/operands.h"
#include "support/swept_shapes.h"
#include "support/workloads.h"

namespace convgrad {
namespace {

struct Options {
  std::string match, pass, format, isa, algorithm, dtype = "float32", precision = "standard";
  int threads = 1;
  int64_t batch = 0;  // 0: the workload's own
  double gflops = 100, gbs = 25, seconds = 0.2;
  int64_t sweep = 0;
  uint64_t seed = 1;
};

// Milliseconds of the fastest of several runs.
double Time(const Problem& problem, const Execution& execution, double seconds, RunInfo& info) {
  const testing::Operands operands =
      testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
  using Clock = std::chrono::steady_clock;
  const auto stop = Clock::now() + std::chrono::duration<double>(seconds);
  double best = HUGE_VAL;
  for (int run = 0; run < 3 || Clock::now() < stop; ++run) {
    const auto start = Clock::now();
    Compute(problem, operands.first, operands.second, execution, &info);
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return best;
}

struct Timing {
  std::string line;
  bool depthwise;
  double share, ms;
};

Timing TimeWorkload(const nlohmann::json& workload, const char* pass, const Problem& problem,
                    const Execution& execution, const Options& options) {
  RunInfo info;
  const double ms = Time(problem, execution, options.seconds, info);
  const double bytes = static_cast<double>(problem.OperandBytes() + problem.ResultBytes());
  const double flops = static_cast<double>(problem.Flops());
  const double share = std::max(flops / options.gflops, bytes / options.gbs) / 1e6 / ms;
  return {
      fmt::format("{:7} {} {:26} {:8.3f} ms {:7.1f} GFLOP/s {:6.1f} GB/s  share {:.3f}  {} {}\n",
                  pass, NameOf(problem.data_format), workload.at("name").get<std::string>(), ms,
                  flops / ms / 1e6, bytes / ms / 1e6, share, info.algorithm, info.tiles),
      workload.at("op") == "depthwise", share, ms};
}

// 0: of none.
double MeanShare(const std::vector<Timing>& timings, bool depthwise) {
  double log_sum = 0;
  int count = 0;
  for (const Timing& timing : timings) {
    if (timing.depthwise != depthwise) continue;
    log_sum += std::log(timing.share);
    ++count;
  }
  return count == 0 ? 0 : std::exp(log_sum / count);
}

// The means of both families and, after a sweep, who has less than a third of them.
void Summarise(const char* pass, const char* format, const std::vector<Timing>& timings,
               bool swept) {
  for (const bool depthwise : {false, true}) {
    const double mean = MeanShare(timings, depthwise);
    if (mean == 0) continue;
    double total_ms = 0;
    for (const Timing& timing : timings) total_ms += timing.depthwise == depthwise ? timing.ms : 0;
    fmt::print("{:7} {} {} geometric mean of shares {:.3f}, together {:.1f} ms\n", pass, format,
               depthwise ? "depthwise" : "conv2d", mean, total_ms);
    if (!swept) continue;
    for (const Timing& timing : timings) {
      if (timing.depthwise == depthwise && timing.share < mean / 3) {
        fmt::print("BEHIND {}", timing.line);
      }
    }
  }
}

int Run(int argc, char** argv) {
  Options options;
  CLI::App app;
  app.add_option("--match", options.match);
  app.add_option("--pass", options.pass);
  app.add_option("--format", options.format);
  app.add_option("--isa", options.isa);
  app.add_option("--algorithm", options.algorithm);
  app.add_option("--dtype", options.dtype);
  app.add_option("--threads", options.threads);
  app.add_option("--gflops", options.gflops);
  app.add_option("--gbs", options.gbs);
  app.add_option("--seconds", options.seconds);
  app.add_option("--batch", options.batch);
  app.add_option("--precision", options.precision);
  app.add_option("--sweep", options.sweep);
  app.add_option("--seed", options.seed);
  CLI11_PARSE(app, argc, argv);
  Execution execution;
  execution.num_threads = options.threads;
  execution.isa = ParseIsa(options.isa);
  for (const Precision precision : kAllPrecisions) {
    if (options.precision == NameOf(precision)) execution.precision = precision;
  }
  if (!options.algorithm.empty()) execution.algorithm = options.algorithm;

  nlohmann::json workloads =
      options.sweep > 0 ? nlohmann::json(testing::SweptShapes(options.seed).All(options.sweep))
                        : testing::ReadWorkloads();
  for (auto& workload : workloads) {
    if (options.batch > 0) workload["n"] = options.batch;
  }
  for (const auto& [direction, pass] : testing::kPasses) {
    if (!options.pass.empty() && options.pass != pass) continue;
    for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
      if (!options.format.empty() && options.format != NameOf(format)) continue;
      std::vector<Timing> timings;
      for (const auto& workload : workloads) {
        if (workload.at("name").get<std::string>().find(options.match) == std::string::npos)
          continue;
        const Problem problem =
            MakeProblem(testing::SpecOf(workload, direction, format, *ParseDType(options.dtype)));
        timings.push_back(TimeWorkload(workload, pass, problem, execution, options));
        fmt::print("{}", timings.back().line);
        std::fflush(stdout);
      }
      Summarise(pass, NameOf(format), timings, options.sweep > 0);
    }
  }
  return 0;
}

}  // namespace
}  // namespace convgrad

int main(int argc, char** argv) {
  return convgrad::Run(argc, argv);
}
