// One usual mistake on trial: whether it explains single numbers of a golden, then all of them, and
// what speaks for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/parallel.h"
#include "order/term_walk.h"
#include "tensor/tensor.h"
#include "verify/diagnosis/diagnosis.h"
#include "verify/diagnosis/explanation.h"
#include "verify/diagnosis/hypotheses.h"
#include "verify/truth/oracle.h"

namespace convgrad {

// The evidence for an alternative, over all elements or some.
struct Evidence {
  double bits = 0;
  bool exactly = true;
  // For narrow sums: elements of several terms, those that wide sums don't explain, and in how many
  // of these the golden is the larger number.
  int64_t sums = 0, off = 0, larger = 0;

  void Join(const Evidence& other) {
    bits += other.bits;
    exactly &= other.exactly;
    sums += other.sums;
    off += other.off;
    larger += other.larger;
  }
};

class Trial {
 public:
  // Both must outlive it.
  Trial(const WrongGolden& wrong, const Alternative& alternative, DType accumulator);

  // True if it may explain these elements; quick.
  bool Survives(std::span<const int64_t> positions) const;

  // The sum at a position, nearly exact; none where only a more careful one can tell.
  std::optional<Truth> RoughAt(int64_t position) const;

  // The evidence for it once it is found to explain every element; none if it doesn't.
  std::optional<Evidence> Confirm(const Parallel& parallel) const;

  // True if the evidence is beyond chance.
  bool IsConvincing(const Evidence& evidence) const;

  // The memory that Confirm needs for operands seen otherwise than they lie.
  int64_t CopiedBytes() const;

 private:
  // Blocks of other programs take no terms in pairs.
  static TermWalk InPlainOrder(const Alternative& alternative);

  const Tensor& First() const;
  const Tensor& Second() const;

  // An operand as `view` shows it, of the alternative's shape.
  Tensor Seen(const View& view, int operand, const Tensor& tensor, const Parallel& parallel) const;
  int64_t SeenBytes(const View& view, int operand) const;

  int64_t SourceOf(int64_t position) const {
    return alternative_.result ? alternative_.result(position) : position;
  }

  double GoldenAt(int64_t position) const;
  // The right result's number, read in the same way.
  double ActualAt(int64_t position) const;

  // None where only a more careful sum can tell.
  std::optional<Truth> RoughTruthAt(int64_t element) const;

  bool MayExplain(const Explanation& explanation, int64_t position) const;

  Truth TruthAt(const Oracle& oracle, int64_t position) const;

  // With the number added that the golden tells: of those that it may be, the one nearest to it.
  Truth WithBias(Truth truth, int64_t position) const;

  bool Explained(const Explanation& explanation, int64_t position, const Truth& truth) const;

  // Only an element that the right result would not have explained speaks for an alternative.
  void Weigh(const Explanation& explanation, int64_t position, const Truth& truth,
             Evidence& evidence) const;

  // That all its numbers are of the narrow type speaks for narrow sums where the right ones aren't.
  void WeighSum(double golden, const Truth& truth, Evidence& evidence) const;

  const WrongGolden& wrong_;
  const Alternative& alternative_;
  DType accumulator_;
  TermWalk walk_;
};

}  // namespace convgrad
