// Times every workload of data/workloads.json in this process: ms, GFLOP/s and the share of a
// roofline whose two peaks are given. For developers; not run by the tests.
//
//   workload_timing [--match TEXT] [--pass forward|input|filter] [--format NHWC|NCHW] [--dtype
//   NAME]
//                   [--isa NAME] [--algorithm NAME] [--threads N] [--gflops PEAK] [--gbs PEAK]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>

#include "conv/compute.h"
#include "operands.h"
#include "workloads.h"

namespace convgrad {
namespace {

struct Options {
  std::string match, pass, format, isa, algorithm, dtype = "float32";
  int threads = 1;
  double gflops = 100, gbs = 25, seconds = 0.2;
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
  CLI11_PARSE(app, argc, argv);
  Execution execution;
  execution.num_threads = options.threads;
  execution.isa = ParseIsa(options.isa);
  if (!options.algorithm.empty()) execution.algorithm = options.algorithm;

  const nlohmann::json workloads = testing::ReadWorkloads();
  for (const auto& [direction, pass] : testing::kPasses) {
    for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
      double log_sum = 0;
      int count = 0;
      for (const auto& w : workloads) {
        const std::string name = w.at("name");
        if (name.find(options.match) == std::string::npos) continue;
        if (!options.pass.empty() && options.pass != pass) continue;
        if (!options.format.empty() && options.format != NameOf(format)) continue;
        const Problem problem =
            MakeProblem(testing::SpecOf(w, direction, format, *ParseDType(options.dtype)));
        RunInfo info;
        const double ms = Time(problem, execution, options.seconds, info);
        const double bytes = static_cast<double>(problem.OperandBytes() + problem.ResultBytes());
        const double floor =
            std::max(static_cast<double>(problem.Flops()) / options.gflops, bytes / options.gbs) /
            1e6;
        fmt::print("{:7} {} {:26} {:8.3f} ms {:7.1f} GFLOP/s {:6.1f} GB/s  share {:.3f}  {} {}\n",
                   pass, NameOf(format), name, ms, static_cast<double>(problem.Flops()) / ms / 1e6,
                   bytes / ms / 1e6, floor / ms, info.algorithm, info.tiles);
        std::fflush(stdout);
        log_sum += std::log(floor / ms);
        ++count;
      }
      if (count > 1) {
        fmt::print("{:7} {} geometric mean of shares {:.3f}\n", pass, NameOf(format),
                   std::exp(log_sum / count));
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace convgrad

int main(int argc, char** argv) {
  return convgrad::Run(argc, argv);
}
