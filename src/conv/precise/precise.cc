#include "conv/precise/precise.h"

#include <memory>
#include <span>
#include <vector>

#include "conv/precise/compensated.h"
#include "conv/precise/compensated_runner.h"
#include "conv/precise/sliced.h"
#include "conv/precise/widened.h"
#include "conv/reference/reference.h"
#include "order/compensated_chain.h"
#include "order/exact_sum.h"

namespace convgrad {
namespace {

bool IsNarrow(const Problem& problem, const KernelTable&) {
  return TakesWidened(problem);
}
bool IsWide(const Problem& problem, const KernelTable&) {
  return !TakesWidened(problem);
}
bool CanAll(const Problem&, const KernelTable&) {
  return true;
}

class CompensatedPlan : public Plan {
 public:
  CompensatedPlan(const Problem& problem, int num_threads)
      : scratch_bytes_(CompensatedRunner::ScratchBytes(num_threads)),
        tiles_(CompensatedRunner::DescribeTiles(problem)) {}

  int64_t ScratchBytes() const override { return scratch_bytes_; }
  std::string Tiles() const override { return tiles_; }
  bool Run(const ConvArgs& args) const override {
    RunCompensated(args);
    return true;
  }

 private:
  const int64_t scratch_bytes_;
  const std::string tiles_;
};

void VisitCompensated(const ConvArgs& args) {
  VisitElements<double, CompensatedChain>(args);
}

void VisitExact(const ConvArgs& args) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    VisitElements<Stored, ExactSum<Stored>>(args);
  });
}

std::unique_ptr<Plan> PlanDouble(const Problem& problem, const KernelTable& kernels,
                                 int num_threads) {
  return std::make_unique<WidenedPlan>(problem, kernels, num_threads, WidenedUse::kDouble);
}

std::unique_ptr<Plan> PlanCompensated(const Problem& problem, const KernelTable&, int num_threads) {
  return std::make_unique<CompensatedPlan>(problem, num_threads);
}

std::unique_ptr<Plan> PlanCertified(const Problem& problem, const KernelTable& kernels,
                                    int num_threads) {
  if (TakesWidened(problem)) {
    return std::make_unique<WidenedPlan>(problem, kernels, num_threads, WidenedUse::kExact);
  }
  return std::make_unique<SlicedPlan>(problem, kernels, num_threads);
}

// Defines the bits of `double`, element by element.
std::unique_ptr<Plan> PlanDoubleReference(const Problem& problem, const KernelTable& kernels,
                                          int num_threads) {
  if (TakesWidened(problem)) {
    return std::make_unique<WidenedPlan>(problem, kernels, num_threads,
                                         WidenedUse::kDoubleByReference);
  }
  return std::make_unique<VisitPlan<VisitCompensated>>();
}

std::unique_ptr<Plan> PlanExactReference(const Problem&, const KernelTable&, int) {
  return std::make_unique<VisitPlan<VisitExact>>();
}

constexpr Algorithm kWidened = {.name = "widened",
                                .summary = "the standard algorithms of float64 on widened operands",
                                .can = IsNarrow,
                                .plan = PlanDouble};
constexpr Algorithm kCompensated = {.name = "compensated",
                                    .summary = "sums of float64 in twice its precision",
                                    .can = IsWide,
                                    .plan = PlanCompensated};
constexpr Algorithm kCertified = {
    .name = "certified",
    .summary =
        "sums in twice the data's precision with a bound on their error; once more, exactly, "
        "where that leaves a doubt",
    .can = CanAll,
    .plan = PlanCertified};

Algorithm ReferenceBy(decltype(Algorithm::plan) plan) {
  Algorithm algorithm = kReferenceAlgorithm;
  algorithm.plan = plan;
  return algorithm;
}

}  // namespace

std::span<const Algorithm> PreciseAlgorithms(Precision precision) {
  static const std::vector<Algorithm> in_double = {kWidened, kCompensated,
                                                   ReferenceBy(PlanDoubleReference)};
  static const std::vector<Algorithm> exact = {kCertified, ReferenceBy(PlanExactReference)};
  return precision == Precision::kExact ? exact : in_double;
}

}  // namespace convgrad
