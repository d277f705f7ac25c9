#include "verify/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "conv/product_unit.h"
#include "conv/rounding.h"

namespace convgrad {
namespace {

// A sum of doubles with the rounding errors of its additions (Knuth's TwoSum).
class CompensatedSum {
 public:
  void Add(double term, double term_error) {
    const double sum = sum_ + term;
    const double back = sum - sum_;
    error_ += ((sum_ - (sum - back)) + (term - back)) + term_error;
    sum_ = sum;
  }
  // As high + low with high the nearest double to the whole.
  void Split(Truth& truth) const {
    truth.high = sum_ + error_;
    truth.low = error_ - (truth.high - sum_);
  }

 private:
  double sum_ = 0;
  double error_ = 0;
};

// Products as they are: right while no float64 product or square leaves double's range.
template <class Stored>
class PlainVisitor {
 public:
  PlainVisitor(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const double x = Widen(first_[first]), y = Widen(second_[second]);
    const double product = x * y;  // exact for all types but double
    sum_.Add(product, std::is_same_v<Stored, double> ? std::fma(x, y, -product) : 0);
    magnitude_ += std::fabs(product);
    squares_ += product * product;
    if (std::is_same_v<Stored, double>) any_ |= (x != 0) & (y != 0);
    ++terms_;
  }
  void EndBlock() {}
  void EndRun() {}

  // Whether every number met is finite and, with its square and its error, far from double's ends.
  bool InRange() const {
    if (!std::is_same_v<Stored, double>) return std::isfinite(magnitude_);
    if (magnitude_ == 0) return !any_;
    return kSmallestSafe < magnitude_ && magnitude_ < kLargestSafe;
  }
  Truth Result() const {
    Truth truth;
    sum_.Split(truth);
    truth.magnitude = magnitude_;
    truth.norm = std::sqrt(squares_);
    truth.terms = terms_;
    return truth;
  }

 private:
  static constexpr double kSmallestSafe = 0x1p-400, kLargestSafe = 0x1p+500;
  const Stored* first_;
  const Stored* second_;
  CompensatedSum sum_;
  double magnitude_ = 0;
  double squares_ = 0;
  int64_t terms_ = 0;
  bool any_ = false;  // a product that is not zero, though it may have become so by underflow
};

// What kinds of product there are, and the exponent of the largest finite one.
template <class Stored>
class SurveyVisitor {
 public:
  SurveyVisitor(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const double x = Widen(first_[first]), y = Widen(second_[second]);
    if (std::isfinite(x) && std::isfinite(y)) {
      if (x != 0 && y != 0) exponent_ = std::max(exponent_, std::ilogb(x) + std::ilogb(y) + 2);
    } else {
      infinite_ += x * y;  // NaN, or infinities, whose sum is NaN when their signs differ
    }
  }
  void EndBlock() {}
  void EndRun() {}

  bool finite() const { return infinite_ == 0; }
  double infinite() const { return infinite_; }
  int exponent() const { return exponent_ == kNone ? 0 : exponent_; }  // every |x*y| is below 2^it

 private:
  static constexpr int kNone = std::numeric_limits<int>::min();
  const Stored* first_;
  const Stored* second_;
  double infinite_ = 0;
  int exponent_ = kNone;
};

// The finite products, each divided by 2^exponent.
template <class Stored>
class ScaledVisitor {
 public:
  ScaledVisitor(const Stored* first, const Stored* second, int exponent)
      : first_(first), second_(second), exponent_(exponent) {}

  void Term(int64_t first, int64_t second) {
    ++terms_;
    int x_exponent = 0, y_exponent = 0;
    const double x = std::frexp(Widen(first_[first]), &x_exponent);
    const double y = std::frexp(Widen(second_[second]), &y_exponent);
    if (!std::isfinite(x) || !std::isfinite(y)) return;
    const int shift = x_exponent + y_exponent - exponent_;
    const double product = std::ldexp(x * y, shift);
    sum_.Add(product, std::ldexp(std::fma(x, y, -(x * y)), shift));
    magnitude_ += std::fabs(product);
    squares_ += product * product;
  }
  void EndBlock() {}
  void EndRun() {}

  Truth Result() const {
    Truth truth;
    sum_.Split(truth);
    truth.magnitude = magnitude_;
    truth.norm = std::sqrt(squares_);
    truth.terms = terms_;
    truth.exponent = exponent_;
    return truth;
  }

 private:
  const Stored* first_;
  const Stored* second_;
  int exponent_;
  CompensatedSum sum_;
  double magnitude_ = 0;
  double squares_ = 0;
  int64_t terms_ = 0;
};

template <class Stored>
Truth TruthOf(const TermWalk& walk, int64_t element, const Stored* first, const Stored* second) {
  PlainVisitor<Stored> plain(first, second);
  walk.Visit(element, plain);
  if (plain.InRange()) return plain.Result();

  SurveyVisitor<Stored> survey(first, second);
  walk.Visit(element, survey);
  ScaledVisitor<Stored> scaled(first, second, survey.exponent());
  walk.Visit(element, scaled);
  Truth truth = scaled.Result();
  if (!survey.finite()) {
    truth.high = survey.infinite();
    truth.low = 0;
  }
  return truth;
}

}  // namespace

double RoundTo(DType dtype, const Truth& truth) {
  if (dtype == DType::kFloat64) return std::ldexp(truth.high, truth.exponent);
  const double odd = std::ldexp(RoundToOdd(truth.high, truth.low), truth.exponent);
  return VisitFloat(dtype,
                    [&](auto tag) { return Widen(Narrow<typename decltype(tag)::Type>(odd)); });
}

Oracle::Oracle(const Problem& problem, const Tensor& first, const Tensor& second,
               const Parallel& parallel)
    : dtype_(problem.dtype),
      shape_(problem.ResultShape()),
      walk_(problem),
      first_(first),
      second_(second),
      parallel_(parallel),
      num_elements_(*CheckedProduct(shape_)),
      piece_(std::clamp<int64_t>((1 << 16) / std::max<int64_t>(1, problem.MaxTerms()), 1, 1 << 12)),
      unit_exponent_(ProductUnit(dtype_, first.raw(), first.num_elements(), second.raw(),
                                 second.num_elements(), parallel)) {}

void Oracle::ForEachPiece(const Visit& visit) const {
  VisitFloat(dtype_, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    parallel_.For(CeilDiv(num_elements_, piece_), [&](int64_t piece) {
      const int64_t begin = piece * piece_;
      std::vector<Truth> truths(static_cast<size_t>(std::min(piece_, num_elements_ - begin)));
      for (size_t i = 0; i < truths.size(); ++i) {
        truths[i] = TruthOf(walk_, begin + static_cast<int64_t>(i), first_.data<Stored>(),
                            second_.data<Stored>());
      }
      visit(begin, truths);
    });
  });
}

Truth Oracle::At(int64_t element) const {
  return VisitFloat(dtype_, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    return TruthOf(walk_, element, first_.data<Stored>(), second_.data<Stored>());
  });
}

Tensor Oracle::Rounded() const {
  Tensor result(dtype_, shape_);
  VisitFloat(dtype_, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored* elements = result.mutable_data<Stored>();
    ForEachPiece([&](int64_t begin, std::span<const Truth> truths) {
      for (size_t i = 0; i < truths.size(); ++i) {
        elements[begin + static_cast<int64_t>(i)] = Narrow<Stored>(RoundTo(dtype_, truths[i]));
      }
    });
  });
  return result;
}

}  // namespace convgrad
