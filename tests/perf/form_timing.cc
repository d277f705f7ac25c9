// Times every form of problems, forced, and counts its work: the data that the cost model is fitted
// to (scripts/fit-cost-model). For developers; not run by the tests.
//
//   form_timing --time [--isa NAME,...] [--seconds EACH] < PROBLEMS > TIMES.csv
//   form_timing --count < TIMES.csv > COUNTS.csv
//
// PROBLEMS has a problem a line (Problem::ToLine). TIMES has the columns isa, algorithm, ns and
// problem; COUNTS has what TIMES has, and a column for each kind of work before the problem. Forms
// that a problem no longer has are left out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "support/operands.h"

namespace convgrad {
namespace {

using Clock = std::chrono::steady_clock;

// Nanoseconds of the fastest of several runs, on one thread.
double Time(const Problem& problem, const testing::Operands& operands, Isa isa,
            const std::string& algorithm, double seconds) {
  Execution execution;
  execution.num_threads = 1;
  execution.isa = isa;
  execution.algorithm = algorithm;
  const Computation computation(problem, execution);
  Tensor result(problem.dtype, problem.ResultShape());
  const auto stop = Clock::now() + std::chrono::duration<double>(seconds);
  double best = HUGE_VAL;
  for (int run = 0; run < 3 || Clock::now() < stop; ++run) {
    const auto start = Clock::now();
    computation.Run(operands.first, operands.second, result);
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return best;
}

bool IsForm(const Algorithm& algorithm) {
  return std::string(algorithm.name) != "reference";
}

void TimeForms(const std::vector<Isa>& isas, double seconds) {
  fmt::print("isa,algorithm,ns,problem\n");
  for (std::string line; std::getline(std::cin, line);) {
    const Problem problem = ParseProblem(line);
    const testing::Operands operands =
        testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
    for (const Isa isa : isas) {
      for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
        if (!IsForm(algorithm) || !algorithm.can(problem, *FindKernels(isa))) continue;
        const double ns = Time(problem, operands, isa, algorithm.name, seconds);
        fmt::print("{},{},{:.0f},\"{}\"\n", NameOf(isa), algorithm.name, ns, problem.ToLine());
      }
    }
    std::fflush(stdout);
  }
}

// The kernels of an instruction set, if this processor has it. Times of bfloat16 were taken on
// processors that are quicker by pairs, which this one need not be.
std::optional<KernelTable> KernelsThatCount(const std::string& isa) {
  const KernelTable* kernels = FindKernels(*ParseIsa(isa));
  if (kernels == nullptr) return {};
  KernelTable table = *kernels;
  table.takes_bf16_pairs = table.has_bf16_pairs;
  return table;
}

// A line of TIMES has this: isa, algorithm, nanoseconds as they stand there, and the problem.
struct Row {
  std::string isa, algorithm, ns, problem;
};

Row ParseRow(const std::string& line) {
  const size_t first = line.find(','), second = line.find(',', first + 1);
  const size_t third = line.find(',', second + 1);
  const std::string problem = line.substr(third + 1);
  return {line.substr(0, first), line.substr(first + 1, second - first - 1),
          line.substr(second + 1, third - second - 1), problem.substr(1, problem.size() - 2)};
}

void CountForms() {
  std::string line;
  std::getline(std::cin, line);
  fmt::print("isa,algorithm,ns,{},problem\n", fmt::join(kWorkKindNames, ","));
  while (std::getline(std::cin, line)) {
    const Row row = ParseRow(line);
    const Problem problem = ParseProblem(row.problem);
    const std::optional<KernelTable> kernels = KernelsThatCount(row.isa);
    if (!kernels) continue;
    for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
      if (row.algorithm != algorithm.name || !algorithm.can(problem, *kernels)) continue;
      const Work work = algorithm.plan(problem, *kernels, 1)->CountWork();
      fmt::print("{},{},{},{:.6g},\"{}\"\n", row.isa, row.algorithm, row.ns,
                 fmt::join(work.counts(), ","), row.problem);
    }
  }
}

int Run(int argc, char** argv) {
  bool time = false, count = false;
  std::vector<std::string> isas = {"avx512", "avx2"};
  double seconds = 0.03;
  CLI::App app;
  app.add_flag("--time", time);
  app.add_flag("--count", count);
  app.add_option("--isa", isas)->delimiter(',');
  app.add_option("--seconds", seconds);
  app.require_option(1, 3);
  CLI11_PARSE(app, argc, argv);
  if (count) {
    CountForms();
    return 0;
  }
  std::vector<Isa> known;
  for (const std::string& isa : isas) {
    if (FindKernels(*ParseIsa(isa)) != nullptr) known.push_back(*ParseIsa(isa));
  }
  TimeForms(known, seconds);
  return 0;
}

}  // namespace
}  // namespace convgrad

int main(int argc, char** argv) {
  return convgrad::Run(argc, argv);
}
