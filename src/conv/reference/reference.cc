#include "conv/reference/reference.h"

#include <memory>

namespace convgrad {
namespace {

class ReferencePlan : public Plan {
 public:
  int64_t ScratchBytes() const override { return 0; }
  std::string Tiles() const override { return kReferenceTiles; }
  bool Run(const ConvArgs& args) const override {
    VisitFloat(args.problem.dtype, [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      VisitElements<Stored, ChainVisitor<Stored>>(args);
    });
    return true;
  }
};

}  // namespace

const Algorithm kReferenceAlgorithm = {
    .name = "reference",
    .summary = "one element at a time, by definition; slow, for checking",
    .can = [](const Problem&, const KernelTable&) { return true; },
    .plan = [](const Problem&, const KernelTable&, int) -> std::unique_ptr<Plan> {
      return std::make_unique<ReferencePlan>();
    },
};

}  // namespace convgrad
