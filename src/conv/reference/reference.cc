#include "conv/reference/reference.h"

#include <memory>

namespace convgrad {
namespace {

void VisitChains(const ConvArgs& args) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    VisitElements<Stored, ChainVisitor<Stored>>(args);
  });
}

}  // namespace

const Algorithm kReferenceAlgorithm = {
    .name = "reference",
    .summary = "one element at a time, by definition; slow, for checking",
    .can = [](const Problem&, const KernelTable&) { return true; },
    .plan = [](const Problem&, const KernelTable&, int) -> std::unique_ptr<Plan> {
      return std::make_unique<VisitPlan<VisitChains>>();
    },
};

}  // namespace convgrad
