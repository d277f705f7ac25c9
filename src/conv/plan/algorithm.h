// What an algorithm is, and the lists to choose from. Which of them is the best is decided in
// conv/choose.cc, which knows them all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "conv/plan/plan.h"
#include "problem/precision.h"

namespace convgrad {

// All algorithms of one precision give the same bits for the problems they can do (at standard
// precision those of the canonical order), on every table and any number of threads.
struct Algorithm {
  const char* name;
  const char* summary;  // one line for people: when it is the right one
  // Whether it is able to compute a problem that has terms; never whether it is quick.
  bool (*can)(const Problem& problem, const KernelTable& kernels);
  // Whether it is worth a choice where it can. Null: always.
  bool (*wins)(const Problem& problem, const KernelTable& kernels) = nullptr;
  // A rough count of what a run takes, for one thread, of a problem that it can do and that has
  // terms. Null: it is the choice wherever it is the first that can.
  double (*cycles)(const Problem& problem, const KernelTable& kernels) = nullptr;
  std::unique_ptr<Plan> (*plan)(const Problem& problem, const KernelTable& kernels,
                                int num_threads);
  // Whether the plan may refuse data (Plan::Run).
  bool may_refuse_data = false;
};

// Best first, but for neighbours that count cycles. The last, "reference", can do everything.
std::span<const Algorithm> AlgorithmsOf(Op op, Precision precision = Precision::kStandard);

// The first that can do a problem on a table and wins; if it counts cycles, the one that counts
// fewest of those.
const Algorithm& BestAlgorithm(const Problem& problem, const KernelTable& kernels,
                               Precision precision = Precision::kStandard);

// An algorithm's plan, and where data may forbid it that of the best one that takes all data.
class Planned {
 public:
  Planned(const Algorithm& algorithm, const Problem& problem, const KernelTable& kernels,
          int num_threads);

  const Algorithm& algorithm() const { return *algorithm_; }
  int64_t ScratchBytes() const;
  std::string Tiles() const { return plan_->Tiles(); }
  void Run(const ConvArgs& args) const;

 private:
  const Algorithm* algorithm_;
  std::unique_ptr<Plan> plan_, instead_;
};

}  // namespace convgrad
