// The calibrated verdict: how likely a tensor's errors are, at most, under any order of summation
// in the declared accumulator, with roundings as independent errors of the sizes that the data
// give. docs/design/odds.md has the derivation and what becomes of it where roundings are not
// independent. Must not know the worst case: that is Judge's.
#pragma once

#include <cstdint>
#include <string>

#include "base/parallel.h"
#include "tensor/tensor.h"
#include "verify/odds/odds_tally.h"
#include "verify/truth/bound.h"
#include "verify/truth/oracle.h"

namespace convgrad {

// The least odds that are told apart.
inline constexpr double kLeastOdds = 1e-300;

struct OddsVerdict {
  Verdict verdict = Verdict::kPassed;
  double odds = 1;  // at most, of all tests together
  // The test whose odds are least.
  enum class Test { kWorst, kSquares, kMean } test = Test::kWorst;
  // Where a number is farther off than is usual and PASSED all the same: the plain order of
  // summation that gives it bit for bit, else empty: plain orders lose as much.
  bool is_excused = false;
  std::string plain_order;
};

// The tensor to judge: `judged` is someone's, of the numbers' type; at `limit` it is FAILED.
struct OddsQuestion {
  const Problem& problem;
  const Tensor& first;
  const Tensor& second;
  const Tensor& judged;
  const Arithmetic& arithmetic;
  double limit;
};

// `suspects`: elements beyond what is usual, all of them in the tally.
OddsVerdict JudgeOdds(const OddsQuestion& question, const Oracle& oracle, const OddsTally& tally,
                      int64_t suspects, const Parallel& parallel);

}  // namespace convgrad
