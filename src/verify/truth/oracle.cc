#include "verify/truth/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "conv/precise/compensated_runner.h"
#include "conv/precise/single_elements.h"
#include "conv/precise/widened.h"
#include "conv/reference/reference.h"
#include "order/compensated_chain.h"

namespace convgrad {
namespace {

// high the nearest double to the whole.
Truth TruthOf(const ElementSum& sum) {
  Truth truth;
  truth.high = sum.high + sum.low;
  truth.low = sum.low - (truth.high - sum.high);
  truth.magnitude = sum.magnitude;
  truth.norm = std::sqrt(sum.squares);
  truth.terms = sum.terms;
  return truth;
}

// A problem whose terms are walked over one after the other, which those of bfloat16 are not.
Problem WithoutPairs(Problem problem) {
  problem.dtype = DType::kFloat32;
  return problem;
}

// As CompensatedRunner has it, for a single element.
template <class Stored>
class SumVisitor {
 public:
  SumVisitor(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const double x = Widen(first_[first]), y = Widen(second_[second]);
    const double product = x * y;
    chain_.AddProduct(x, y);
    magnitude_ += std::fabs(product);
    squares_ += product * product;
    ++terms_;
  }
  void EndBlock() {}
  void EndRun() {}

  ElementSum Result() const { return {chain_.high(), chain_.low(), magnitude_, squares_, terms_}; }

 private:
  const Stored* first_;
  const Stored* second_;
  CompensatedSum chain_;
  double magnitude_ = 0;
  double squares_ = 0;
  int64_t terms_ = 0;
};

// Finds what kinds of product there are, and the exponent of the largest finite one.
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

  struct Survey {
    double infinite;  // the sum of products that are; 0 if none is. NaN is not 0
    int exponent;     // every finite |x*y| is below 2^it
  };
  Survey Result() const { return {infinite_, exponent_ == kNone ? 0 : exponent_}; }

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
    Truth truth = TruthOf({sum_.high(), sum_.low(), magnitude_, squares_, terms_});
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

}  // namespace

// The elements of one type, with its sums.
class Oracle::Elements {
 public:
  virtual ~Elements() = default;
  virtual int unit() const = 0;
  // `sum` as CompensatedRunner gives it.
  virtual Truth Of(int64_t element, const ElementSum& sum) const = 0;
  virtual Truth At(int64_t element) const = 0;
  virtual double InCanonicalOrder(int64_t element) const = 0;
};

template <class Stored>
class Oracle::ElementsOf : public Oracle::Elements {
 public:
  ElementsOf(const Problem& problem, const Tensor& first, const Tensor& second,
             const Parallel& parallel)
      : first_(first.data<Stored>()),
        second_(second.data<Stored>()),
        single_(problem, first_, second_, parallel),
        plain_walk_(WithoutPairs(problem)),
        unit_(single_.Unit()) {}

  int unit() const override { return unit_.exponent; }
  Truth Of(int64_t element, const ElementSum& sum) const override {
    Truth truth = InRange(sum) ? TruthOf(sum) : Scaled(element);
    const std::optional<Stored> rounded =
        truth.exponent == 0 ? RoundCertified<Stored>(sum, unit_) : std::nullopt;
    truth.rounded = Widen(rounded ? *rounded : single_.Exact(element));
    return truth;
  }
  Truth At(int64_t element) const override {
    SumVisitor<Stored> visitor(first_, second_);
    plain_walk_.Visit(element, visitor);
    return Of(element, visitor.Result());
  }
  double InCanonicalOrder(int64_t element) const override {
    const double sum = single_.template ResultOf<ChainVisitor<Stored>>(element);
    return Widen(Narrow<Stored>(WithCanonicalNaN(sum)));
  }

 private:
  // True if every number met is finite and, with its square and its error, far from double's ends.
  bool InRange(const ElementSum& sum) const {
    constexpr double kSmallestSafe = 0x1p-400, kLargestSafe = 0x1p+500;
    if (!std::isfinite(sum.high) || !std::isfinite(sum.low)) return false;
    if (!std::is_same_v<Stored, double>) return true;
    if (sum.magnitude == 0) return !unit_.may_underflow;
    return kSmallestSafe < sum.magnitude && sum.magnitude < kLargestSafe;
  }

  Truth Scaled(int64_t element) const {
    const auto survey = single_.template ResultOf<SurveyVisitor<Stored>>(element);
    ScaledVisitor<Stored> scaled(first_, second_, survey.exponent);
    single_.Visit(element, scaled);
    Truth truth = scaled.Result();
    if (survey.infinite != 0) {
      truth.high = survey.infinite;
      truth.low = 0;
    }
    return truth;
  }

  const Stored* const first_;
  const Stored* const second_;
  const SingleElements<Stored> single_;
  const TermWalk plain_walk_;  // in the order of CompensatedRunner
  const ProductUnit unit_;
};

Oracle::Oracle(const Problem& problem, const Tensor& first, const Tensor& second,
               const Parallel& parallel)
    : problem_(problem), first_(first), second_(second), parallel_(parallel) {
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    elements_ = std::make_unique<ElementsOf<Stored>>(problem_, first, second, parallel);
  });
}

Oracle::~Oracle() = default;

int Oracle::unit_exponent() const {
  return elements_->unit();
}

void Oracle::ForEachPiece(const Visit& visit) const {
  CompensatedRunner(problem_).ForEachPiece(
      first_.raw(), second_.raw(), parallel_, [&](int64_t begin, std::span<const ElementSum> sums) {
        std::vector<Truth> truths(sums.size());
        for (size_t i = 0; i < sums.size(); ++i) {
          truths[i] = elements_->Of(begin + static_cast<int64_t>(i), sums[i]);
        }
        visit(begin, truths);
      });
}

bool Oracle::ForEachSized(int64_t most_scratch_bytes, const VisitSizedSums& visit) const {
  if (!TakesWidened(problem_) || !problem_.HasTerms()) return false;
  const KernelTable& kernels = SupportedKernels().front();
  const WidenedPlan plan(problem_, kernels, parallel_.num_threads(), WidenedUse::kShownExact);
  if (plan.ScratchBytes() > most_scratch_bytes) return false;
  const auto& operands = InfoOf(problem_.op).operands;
  const auto operand = [&](Role role) -> const void* {
    if (role == operands[0]) return first_.raw();
    return role == operands[1] ? second_.raw() : nullptr;
  };
  plan.Show({problem_, operand(Role::kInput), operand(Role::kFilter), operand(Role::kOutBackprop),
             nullptr, kernels, parallel_},
            visit);
  return true;
}

Truth Oracle::At(int64_t element) const {
  return elements_->At(element);
}

double Oracle::InCanonicalOrder(int64_t element) const {
  return elements_->InCanonicalOrder(element);
}

Tensor Oracle::Rounded() const {
  Tensor result(problem_.dtype, problem_.ResultShape());
  VisitFloat(problem_.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored* elements = result.mutable_data<Stored>();
    ForEachPiece([&](int64_t begin, std::span<const Truth> truths) {
      for (const Truth& truth : truths) elements[begin++] = Narrow<Stored>(truth.rounded);
    });
  });
  return result;
}

}  // namespace convgrad
