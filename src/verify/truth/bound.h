// How far a correct result may lie from the exact one: the bounds that follow from an element's own
// terms, and the judgement of one number by them. bound.cc derives them.
#pragma once

#include <cstdint>

#include "problem/precision.h"
#include "tensor/dtype.h"
#include "verify/truth/float_format.h"
#include "verify/truth/oracle.h"

namespace convgrad {

enum class Verdict { kPassed, kSuspect, kFailed };

// How the terms of an element are added up.
enum class Summation {
  kRounded,      // every product or partial sum is rounded to the accumulator
  kCompensated,  // in twice the accumulator's precision
  kExact,        // not rounded before the end
};

// How a result came about, as far as its errors are concerned.
struct Arithmetic {
  DType stored;  // rounded to at the end
  FloatFormat accumulator;
  int64_t longest_chain;  // roundings that one term passes through, at most (K caps it)
  Summation summation = Summation::kRounded;
};
// A result of this program.
Arithmetic OwnArithmetic(DType stored, Precision precision = Precision::kStandard);
// A result of someone else's kernel that sums in `accumulator`, in any order.
Arithmetic ForeignArithmetic(DType stored, Accumulator accumulator);

// The error that underflow of products and partial sums may add, in the units of `truth`, and
// what more where subnormal numbers are flushed to zero.
double UnderflowOf(const Truth& truth, const Arithmetic& arithmetic);
double FlushOf(const Truth& truth, const Arithmetic& arithmetic);

// The exact class: where all products are multiples of 2^unit_exponent, an element whose S is less
// has sums that no order rounds. 0: no element.
double ExactClassBelow(const FloatFormat& accumulator, int unit_exponent);

struct Judgement {
  Verdict verdict = Verdict::kPassed;
  double used = 0;  // error / bound; infinite where a number is not even finite as it should be
  double least_seen = 0;  // the smallest missing term that would have failed
  bool exact_class = false;
};

// How many of its usual sizes an error of independent roundings has at most, but for odds of
// 2 exp(-32).
inline constexpr double kUsualSizes = 8;

// Judges numbers of one tensor.
class Judge {
 public:
  // `unit_exponent` is the oracle's.
  Judge(const Arithmetic& arithmetic, int unit_exponent);

  // `rounded` is what is expected: truth.rounded.
  Judgement Of(double value, const Truth& truth, double rounded) const;

 private:
  struct Bounds {
    double certain;  // beyond: no summation order gives it
    double usual;    // rounding stays below it, but for the rarest luck
    double flushed;  // added to `certain` where an accumulator flushes subnormals to zero
  };
  bool InExactClass(const Truth& truth) const;
  double RelativeBound(double chain) const;
  Bounds BoundsOf(const Truth& truth) const;
  Verdict JudgeSpecial(double value, const Truth& truth, const Bounds& bounds) const;

  Arithmetic arithmetic_;
  FloatFormat stored_;
  int unit_exponent_;
};

}  // namespace convgrad
