// Times convgrad and oneDNN in turn, in this process, on the workloads of data/workloads.json and
// prints medians, minimums and ratios as Markdown. Nothing is timed whose results differ. For
// developers; not run by the tests.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "peers/contestant.h"
#include "support/workloads.h"
#include "verify/truth/fill.h"

namespace convgrad::peers {
namespace {

struct Options {
  std::string match, pass, format, isa, dtype = "float32";
  int threads = 1, rounds = 5;
  double seconds = 0.03;
};

Options ReadOptions(int argc, char** argv) {
  Options options;
  CLI::App app{"Times convgrad and oneDNN in turn on the workloads of data/workloads.json."};
  app.add_option("--match", options.match, "only workloads whose name contains this");
  app.add_option("--pass", options.pass, "only forward, input or filter");
  app.add_option("--format", options.format, "only NHWC or NCHW");
  app.add_option("--dtype", options.dtype, "float16, bfloat16, float32 (default) or float64");
  app.add_option("--isa", options.isa, "instruction set of convgrad; oneDNN: ONEDNN_MAX_CPU_ISA");
  app.add_option("--threads", options.threads, "threads of each");
  app.add_option("--rounds", options.rounds, "turns that each gets");
  app.add_option("--seconds", options.seconds, "length of a turn");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

struct Times {
  double median = HUGE_VAL, least = HUGE_VAL;
};

// In turn, so that what disturbs the machine meets all of them.
std::vector<Times> TimeInTurn(const std::vector<Contestant*>& contestants, const Options& options) {
  std::vector<std::vector<double>> samples(contestants.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      const std::vector<double> ms = TimeRuns(*contestants[i], options.seconds);
      samples[i].insert(samples[i].end(), ms.begin(), ms.end());
    }
  }
  std::vector<Times> times;
  for (const auto& ms : samples) {
    times.push_back({Median(ms), *std::min_element(ms.begin(), ms.end())});
  }
  return times;
}

// One workload: the tensors, everyone who computes it, and what came of it.
class Match {
 public:
  Match(const Problem& problem, const Options& options) : options_(options), dtype_(problem.dtype) {
    const OpInfo& op = InfoOf(problem.op);
    const Parallel parallel(1);
    const auto fill = [&](Role role) {
      return MakeFill(FillSpec{}, dtype_, problem.ShapeOf(role), /*seed=*/1, role, parallel);
    };
    first_ = fill(op.operands[0]);
    second_ = fill(op.operands[1]);
    Execution execution;
    execution.num_threads = options.threads;
    execution.isa = ParseIsa(options.isa);
    ours_ = MakeConvgrad(problem, first_, second_, execution);
    peers_ = MakeOneDnn(problem, first_, second_, options.threads, refusal_);
  }

  // The rest of a line of the table, from "ours" on; adds the logarithm of the ratio to `ratios`.
  std::string Play(std::vector<double>& log_ratios) {
    std::vector<Contestant*> fit = Fit();
    const std::vector<Times> times = TimeInTurn(fit, options_);
    const std::string ours =
        fmt::format("{:.3f} ({:.3f}) | {}", times[0].median, times[0].least, ours_->How());
    if (fit.size() == 1) return fmt::format("{} | | none: {} | |", ours, refusal_);
    const auto best =
        std::min_element(times.begin() + 1, times.end(),
                         [](const Times& a, const Times& b) { return a.median < b.median; });
    log_ratios.push_back(std::log(best->median / times[0].median));
    return fmt::format("{} | {:.3f} ({:.3f}) | {} | {:.2f} ({:.2f}) |", ours, best->median,
                       best->least, fit[static_cast<size_t>(best - times.begin())]->How(),
                       best->median / times[0].median, best->least / times[0].least);
  }

 private:
  // Us and those of oneDNN's ways whose result is ours and that are not out of the running.
  std::vector<Contestant*> Fit() {
    std::vector<Contestant*> fit = {ours_.get()};
    const double our_ms = Median(TimeRuns(*ours_, options_.seconds));
    for (const auto& peer : peers_) {
      const double ms = Median(TimeRuns(*peer, 0));
      const double difference = WorstDifference(peer->Result(), ours_->Result());
      if (!(difference <= AllowedDifference(dtype_))) {
        refusal_ = fmt::format("{}: results differ by {:.1e}", peer->How(), difference);
      } else if (fit.size() == 1 || ms < 30 * our_ms) {
        fit.push_back(peer.get());
      }
    }
    return fit;
  }

  const Options& options_;
  const DType dtype_;
  Tensor first_, second_;
  std::unique_ptr<Contestant> ours_;
  std::vector<std::unique_ptr<Contestant>> peers_;
  std::string refusal_;
};

void PlayAll(const Options& options, Direction direction, const char* pass, DataFormat format) {
  std::vector<double> log_ratios;
  for (const auto& workload : testing::ReadWorkloads()) {
    const std::string name = workload.at("name");
    if (name.find(options.match) == std::string::npos) continue;
    const DType dtype = *ParseDType(options.dtype);
    Match match(MakeProblem(testing::SpecOf(workload, direction, format, dtype)), options);
    fmt::print("| {} | {} | {} | {}\n", name, pass, NameOf(format), match.Play(log_ratios));
    std::fflush(stdout);
  }
  if (log_ratios.empty()) return;
  double sum = 0;
  for (const double value : log_ratios) sum += value;
  fmt::print("| geometric mean | {} | {} | | | | | {:.2f} |\n", pass, NameOf(format),
             std::exp(sum / static_cast<double>(log_ratios.size())));
}

int Run(int argc, char** argv) {
  const Options options = ReadOptions(argc, argv);
  fmt::print(
      "convgrad and {}, {}, threads: {}; median (minimum) of all runs in ms; "
      "ratio: how many times as fast convgrad is\n\n",
      OneDnnName(), options.dtype, options.threads);
  fmt::print(
      "| workload | pass | format | convgrad | algorithm | oneDNN | how | ratio |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const auto& [direction, pass] : testing::kPasses) {
    for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
      if (!options.pass.empty() && options.pass != pass) continue;
      if (!options.format.empty() && options.format != NameOf(format)) continue;
      PlayAll(options, direction, pass, format);
    }
  }
  return 0;
}

}  // namespace
}  // namespace convgrad::peers

int main(int argc, char** argv) {
  return convgrad::peers::Run(argc, argv);
}
