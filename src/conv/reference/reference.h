// The slow, obvious form of all six operations: every element of the result from its own terms, in
// canonical order. It is the truth that kernels, tests and `check` are held against, and knows
// nothing of speed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/checked.h"
#include "conv/plan/algorithm.h"
#include "order/canonical_order.h"
#include "order/rounding.h"
#include "order/term_walk.h"

namespace convgrad {

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

// Every element of the result by a `Visitor(first, second)` of its own, the operands as Stored:
// its Result(), a double, is rounded to the type.
template <class Stored, class Visitor>
void VisitElements(const ConvArgs& args);

// The algorithm "reference": one element at a time, every problem.
extern const Algorithm kReferenceAlgorithm;
inline constexpr const char* kReferenceTiles = "1 element";

template <class Stored, class Visitor>
void VisitElements(const ConvArgs& args) {
  const TermWalk walk(args.problem);
  const auto& operands = InfoOf(args.problem.op).operands;
  const auto* first = static_cast<const Stored*>(args.OperandOf(operands[0]));
  const auto* second = static_cast<const Stored*>(args.OperandOf(operands[1]));
  Stored* result = static_cast<Stored*>(args.result);
  const int64_t num_elements = args.problem.NumResults();
  constexpr int64_t kPiece = 64;
  args.parallel.For(CeilDiv(num_elements, kPiece), [&](int64_t piece) {
    const int64_t end = std::min(num_elements, (piece + 1) * kPiece);
    for (int64_t element = piece * kPiece; element < end; ++element) {
      Visitor visitor(first, second);
      walk.Visit(element, visitor);
      result[element] = Narrow<Stored>(WithCanonicalNaN(visitor.Result()));
    }
  });
}

// One element at a time, by a visitor.
template <void (*kRun)(const ConvArgs&)>
class VisitPlan : public Plan {
 public:
  int64_t ScratchBytes() const override { return 0; }
  std::string Tiles() const override { return kReferenceTiles; }
  bool Run(const ConvArgs& args) const override {
    kRun(args);
    return true;
  }
};

}  // namespace convgrad
