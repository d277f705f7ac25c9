#include "conv/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/checked.h"

namespace convgrad {
namespace {

// Follows the canonical tree of one element: chains of fused multiply-adds, folded block by block.
template <class Stored>
class ChainVisitor {
 public:
  using Compute = ComputeType<Stored>;

  ChainVisitor(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    chain_ = std::fma(static_cast<Compute>(Widen(first_[first])),
                      static_cast<Compute>(Widen(second_[second])), chain_);
  }
  void EndBlock() {
    fold_.AddBlock(chain_);
    chain_ = 0;
  }
  void EndRun() { fold_.EndRun(); }
  double Result() const { return fold_.Result(); }

 private:
  const Stored* first_;
  const Stored* second_;
  Compute chain_ = 0;
  std::conditional_t<std::is_same_v<Stored, double>, FoldDouble, FoldFloat> fold_;
};

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
