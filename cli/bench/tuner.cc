#include "cli/bench/tuner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "conv/plan/algorithm.h"
#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
// What a round takes of each algorithm, unless a single run takes longer.
constexpr std::chrono::duration<double> kSlice{0.02};
// The default must take so much longer in every round.
constexpr double kMargin = 1.03;
// An algorithm that took so much longer than the default in a round will not win.
constexpr double kHopeless = 1.5;

// Ordinary numbers of every type: the speed does not depend on which.
Tensor MakeOperand(DType dtype, const Shape& shape) {
  constexpr int kByte = 0x3C;  // in float16 1.06, in others between 1e-18 and 0.02
  Tensor tensor(dtype, shape);
  std::memset(tensor.mutable_raw(), kByte, static_cast<size_t>(tensor.num_bytes()));
  return tensor;
}

struct Form {
  std::string name;
  std::vector<double> rounds = {};  // seconds of a run
};

// The default is the first form.
class Race {
 public:
  Race(const Problem& problem, const Execution& execution)
      : problem_(problem),
        execution_(execution),
        first_(MakeOperand(problem.dtype, problem.ShapeOf(InfoOf(problem.op).operands[0]))),
        second_(MakeOperand(problem.dtype, problem.ShapeOf(InfoOf(problem.op).operands[1]))),
        result_(problem.dtype, problem.ResultShape()) {
    const RunInfo by_default = PlanRun(problem, execution);
    const KernelTable& kernels = *FindKernels(by_default.isa);
    forms_.push_back({by_default.algorithm});
    for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
      const bool is_form = std::string_view(algorithm.name) != "reference";
      if (is_form && by_default.algorithm != algorithm.name && algorithm.can(problem, kernels)) {
        forms_.push_back({algorithm.name});
      }
    }
  }

  Tuned Run() {
    for (int round = 0; round < kRounds && forms_.size() > 1; ++round) {
      for (Form& form : forms_) form.rounds.push_back(Time(form.name));
      std::erase_if(forms_, [&](const Form& form) { return 1 / GainOf(form, round) > kHopeless; });
    }
    return Winner();
  }

 private:
  // Only one computation at a time has threads that wait for work.
  double Time(const std::string& algorithm) {
    Execution execution = execution_;
    execution.algorithm = algorithm;
    const Computation computation(problem_, execution);
    computation.Run(first_, second_, result_);  // warms up
    const auto begin = Clock::now();
    int64_t runs = 0;
    std::chrono::duration<double> seconds(0);
    do {
      computation.Run(first_, second_, result_);
      ++runs;
      seconds = Clock::now() - begin;
    } while (seconds < kSlice);
    return seconds.count() / static_cast<double>(runs);
  }

  double GainOf(const Form& form, int round) const {
    const auto index = static_cast<size_t>(round);
    return forms_.front().rounds[index] / form.rounds[index];
  }

  Tuned Winner() const {
    Tuned tuned = {forms_.front().name, forms_.front().name};
    for (const Form& form : forms_) {
      std::vector<double> gains;
      gains.reserve(form.rounds.size());
      for (int round = 0; round < static_cast<int>(form.rounds.size()); ++round) {
        gains.push_back(GainOf(form, round));
      }
      std::sort(gains.begin(), gains.end());
      if (gains.empty() || gains.front() < kMargin) continue;
      const double median = gains[gains.size() / 2];
      if (median > tuned.gain) tuned = {tuned.by_default, form.name, median};
    }
    return tuned;
  }

  const Problem& problem_;
  const Execution& execution_;
  const Tensor first_, second_;
  Tensor result_;
  std::vector<Form> forms_;
};

}  // namespace

Tuned TuneProblem(const Problem& problem, const Execution& execution) {
  Execution untuned = execution;
  untuned.tuned = nullptr;
  untuned.algorithm.reset();
  return Race(problem, untuned).Run();
}

}  // namespace convgrad::cli
