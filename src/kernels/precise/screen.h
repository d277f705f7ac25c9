// Results held against sums that are known with bounds, many at a time: which numbers can't tell a
// comparison anything new, because they are well within what rounding explains and no extreme. It
// knows nothing of verdicts.
#pragma once

#include <cstdint>

#include "base/float16.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Numbers that are screened together, at most.
inline constexpr int64_t kScreenedNumbers = 1024;

// A bit for each of them.
struct ScreenBits {
  uint64_t words[kScreenedNumbers / 64] = {};
};

// A floating-point format: half a unit in the last place of x is half_ulp * 2^exponent(x), of
// numbers below the least normal one as of that.
struct ScreenFormat {
  double least_normal, half_ulp;
};

// How far a number may be off, K being its terms and S the sum of their absolute values.
struct ScreenLimits {
  // Its sum, by min(K, longest_chain) * roundoff * S + K * underflow + underflow_once.
  double roundoff, longest_chain, underflow, underflow_once;
  double root_of_longest;
  // By so many times roundoff * sqrt(min(K, longest_chain)) * max(S / sqrt(K), |sum|), it may be
  // beyond what is usual.
  double usual;
  ScreenFormat stored, accumulator;
  // Sums with a smaller S are not rounded: they are multiples of `unit`. No others are either, if
  // is_exact.
  double exact_below, unit;
  bool is_exact;
  double tiny;      // a smaller S may have lost something, by each of its terms
  double relative;  // the sums to hold against are off by less than this, by S
};

// Extremes of some numbers: some number has at least so large an error as a share of its bound, at
// most so small a bound, at least so large a bound over its average term.
struct ScreenExtremes {
  double used, least_seen, hidden_terms;
};

// Sums and numbers side by side. Stored is Float16, BFloat16 or float.
template <class Stored>
struct ScreenedNumbers {
  const double* sums;
  const float* sizes;  // S but for 2^-15 of it
  // K is terms[i] * terms_scale, its root's inverse roots[i] * roots_scale, 0 where K is.
  const double* terms;
  const double* roots;
  double terms_scale, roots_scale;
  const Stored* numbers;
  const Stored* rounded;  // the sums, rounded once
};

// Squares of errors beyond the last rounding, in units of what rounding errors add up to: as large
// as they may be, of numbers that the exact class does not have.
struct ScreenedOdds {
  int64_t count = 0;
  double squares = 0, largest = 0;
};

// The largest differences so far.
struct ScreenDifferences {
  double absolute, relative, ulp;
};

template <class Stored>
struct ScreenKernels {
  // Of `count` numbers: adds the bits of those that may be wrong or an extreme, which they then
  // move, and of those of the exact class; and adds to `odds` unless it is null.
  void (*judge)(const ScreenLimits& limits, const ScreenedNumbers<Stored>& numbers, int64_t count,
                ScreenExtremes& extremes, ScreenBits& doubtful, ScreenBits& exact,
                ScreenedOdds* odds);
  // Adds the bits of pairs that may differ by more, or are special (infinite, NaN, subnormal), and
  // of all that are not the same number.
  void (*differ)(const Stored* numbers, const Stored* others, const ScreenFormat& stored,
                 const ScreenDifferences& largest, int64_t count, ScreenBits& doubtful,
                 ScreenBits& differ);
};

// The kernels of the instruction set, which this machine must have.
template <class Stored>
const ScreenKernels<Stored>& ScreenKernelsOf(Isa isa);

}  // namespace convgrad
