// Single numbers as precision `exact` needs them: widening operands to double while their squares
// are added up, cutting those of float64, and rounding sums that are known but for a bound. It
// knows nothing of convolutions.
#pragma once

#include <cstdint>
#include <limits>

#include "base/float16.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// How far sums may be off, by the size of each: a number that its terms' absolute values don't
// exceed in all.
struct SumBounds {
  double relative;     // a sum, rounded or not, is off by less than relative * size
  double exact_below;  // where its size is less than this, it is not off at all
};

inline constexpr int kNoBit = std::numeric_limits<int>::max();

// Stored is Float16, BFloat16 or float.
template <class Stored>
struct PreciseKernels {
  // to[i] = from[i], exactly, for i < rows * cols; squares[j] grows by the squares of column j.
  void (*widen)(const Stored* from, double* to, double* squares, int64_t rows, int64_t cols);
  // The same with sums by rows, which are set.
  void (*widen_rows)(const Stored* from, double* to, double* squares, int64_t rows, int64_t cols);
  // to[i] = |from[i]|.
  void (*take_sizes)(const Stored* from, float* to, int64_t count);
  // The exponent of the lowest bit set in any number of `count`; kNoBit where none has a finite
  // one.
  int (*lowest_bit)(const Stored* from, int64_t count);
  // to[i] = sums[i] rounded to nearest even, for i < count. Where that is not certainly what the
  // true sum rounds to, i goes to `doubts`, which has room for all; their number is returned.
  // Infinite and NaN sums are certain, and no size is NaN where a sum is finite.
  int64_t (*round)(const double* sums, const double* sizes, const SumBounds& bounds, Stored* to,
                   int64_t count, int64_t* doubts);
};

// Float64, whose products no type holds: numbers cut in two, and sums of two numbers.
struct PairKernels {
  // The largest absolute value of a finite number; 0 if there is none.
  double (*largest)(const double* from, int64_t count);
  // upper[i] is from[i] rounded to the last bit of `to_unit`, 1.5 * 2^n, lower[i] what that leaves.
  void (*cut)(const double* from, double to_unit, double* upper, double* lower, int64_t count);
  // high + low grows by terms: without an error in high, and low is rounded.
  void (*add)(const double* terms, double* high, double* low, int64_t count);
  // As above, to[i] = high[i] + low[i], which is off by less than `bound`. Infinite and NaN sums
  // are in doubt too.
  int64_t (*round)(const double* high, const double* low, double bound, double* to, int64_t count,
                   int64_t* doubts);
};

// The kernels of the instruction set, which this machine must have.
template <class Stored>
const PreciseKernels<Stored>& PreciseKernelsOf(Isa isa);
const PairKernels& PairKernelsOf(Isa isa);

}  // namespace convgrad
