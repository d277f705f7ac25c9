// Algorithms, and the lists to choose from. Which of them is the best is decided in
// conv/choose.cc, which knows them all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "conv/plan/plan.h"
#include "problem/precision.h"

namespace convgrad {

// All algorithms of one precision give the same bits for the problems they can do (at standard
// precision those of the canonical order), on every table and any number of threads.
struct Algorithm {
  const char* name;
  const char* summary;  // one line for people: when it is the right one
  // True if it is able to compute a problem, if that has terms; asked about any. Never asks if it
  // is quick.
  bool (*can)(const Problem& problem, const KernelTable& kernels);
  std::unique_ptr<Plan> (*plan)(const Problem& problem, const KernelTable& kernels,
                                int num_threads);
  // The plan may refuse data (Plan::Run).
  bool may_refuse_data = false;
};

// The last, "reference", can do everything, and is for checking.
std::span<const Algorithm> AlgorithmsOf(Op op, Precision precision = Precision::kStandard);

// The cost model: cycles that work is counted to take with vectors of so many bytes, but for a
// factor that is the machine's.
double CyclesOf(const Work& work, int vector_bytes);

// An algorithm's plan, and where data may forbid it that of the best one that takes all data. Work
// too small to share is planned for the calling thread alone.
class Planned {
 public:
  // The algorithm whose plan is counted to take least, for a problem with terms.
  static Planned Best(const Problem& problem, const KernelTable& kernels, int num_threads,
                      Precision precision = Precision::kStandard);
  static Planned Forced(const Algorithm& algorithm, const Problem& problem,
                        const KernelTable& kernels, int num_threads);

  const Algorithm& algorithm() const { return *algorithm_; }
  int64_t ScratchBytes() const;
  Work CountWork() const { return plan_->CountWork(); }
  std::string Tiles() const;
  void Run(const ConvArgs& args) const;

 private:
  Planned(const Algorithm& algorithm, std::unique_ptr<Plan> plan, std::unique_ptr<Plan> instead,
          bool alone)
      : algorithm_(&algorithm),
        plan_(std::move(plan)),
        instead_(std::move(instead)),
        alone_(alone) {}

  const Algorithm* algorithm_;
  std::unique_ptr<Plan> plan_, instead_;
  bool alone_;  // on the calling thread
};

}  // namespace convgrad
