#include "verify/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/checked.h"
#include "verify/compare/tally.h"
#include "verify/compare/verdict_text.h"
#include "verify/diagnosis/golden_shape.h"
#include "verify/truth/distance.h"
#include "verify/truth/oracle.h"
#include "verify/where/where.h"

namespace convgrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool IsByData(const CompareOptions& options) {
  return options.tolerance.kind == Tolerance::Kind::kAuto && !options.golden_is_ours;
}

// Whether a user's tolerance (or bits) lets an element through. Equal infinities are equal; NaN
// matches NaN only.
bool Tolerates(const Tolerance& tolerance, const Distance& distance, double expected) {
  if (tolerance.kind == Tolerance::Kind::kBits) return distance.same_bits;
  if (distance.same_value()) return true;
  if (distance.nan_mismatch) return false;
  switch (tolerance.kind) {
    case Tolerance::Kind::kUlp: return distance.ulp <= tolerance.ulp;
    case Tolerance::Kind::kAbs: return distance.absolute <= tolerance.absolute;
    case Tolerance::Kind::kRel: return distance.relative <= tolerance.relative;
    case Tolerance::Kind::kNumpy:
      return distance.absolute < kInfinity &&
             distance.absolute <= tolerance.absolute + tolerance.relative * std::fabs(expected);
    case Tolerance::Kind::kAuto:
    case Tolerance::Kind::kBits: break;
  }
  ThrowInternal("a tolerance that is none of the user's");
}

// How far apart two numbers are by the measure of a tolerance.
double ErrorBy(const Tolerance& tolerance, const Distance& distance, double expected) {
  if (distance.same_value()) return 0;
  if (distance.nan_mismatch) return kInfinity;
  switch (tolerance.kind) {
    case Tolerance::Kind::kAbs: return distance.absolute;
    case Tolerance::Kind::kRel: return distance.relative;
    case Tolerance::Kind::kNumpy: {
      const double allowed = tolerance.absolute + tolerance.relative * std::fabs(expected);
      return distance.absolute / allowed;
    }
    case Tolerance::Kind::kUlp:
    case Tolerance::Kind::kAuto:
    case Tolerance::Kind::kBits: break;
  }
  return static_cast<double>(distance.ulp);
}

// One element's error for the map of them; `errors` may be null.
void Keep(float* errors, int64_t element, double error) {
  if (errors != nullptr) errors[element] = static_cast<float>(error);
}

// A map for the errors of a comparison, if they are to be kept.
std::optional<Tensor> ErrorsOf(const Tensor& actual, const CompareOptions& options) {
  if (!options.keep_errors) return std::nullopt;
  return Tensor(DType::kFloat32, actual.shape());
}

// The largest difference from `expected` that a user's tolerance lets through.
double AllowedDifference(const Tolerance& tolerance, double expected, DType dtype) {
  const double size = std::fabs(expected);
  const DTypeInfo& info = InfoOf(dtype);
  const int exponent = std::max(1 - info.max_exponent, size == 0 ? -2000 : std::ilogb(size));
  const double ulp = std::ldexp(1.0, exponent - info.fraction_bits);
  switch (tolerance.kind) {
    case Tolerance::Kind::kAbs: return tolerance.absolute;
    case Tolerance::Kind::kRel: return tolerance.relative * size;
    case Tolerance::Kind::kNumpy: return tolerance.absolute + tolerance.relative * size;
    case Tolerance::Kind::kUlp: return (static_cast<double>(tolerance.ulp) + 0.5) * ulp;
    case Tolerance::Kind::kAuto:
    case Tolerance::Kind::kBits: return 0.5 * ulp;
  }
  ThrowInternal("unknown kind of tolerance");
}

// Runs body(begin, end, tally) over pieces of the elements on all threads and joins their tallies.
template <class Body>
Tally TallyPieces(int64_t num_elements, const Parallel& parallel, const Body& body) {
  constexpr int64_t kPiece = 1 << 16;
  Tally whole;
  std::mutex joining;
  parallel.For(CeilDiv(num_elements, kPiece), [&](int64_t piece) {
    Tally mine;
    body(piece * kPiece, std::min(num_elements, (piece + 1) * kPiece), mine);
    const std::lock_guard lock(joining);
    whole.Join(mine);
  });
  return whole;
}

// By bits or a user's tolerance: no operands are needed.
Tally TallyByTolerance(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                       const Layout& layout, float* errors, const Parallel& parallel) {
  const DType dtype = actual.dtype();
  return VisitAny(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* a = actual.data<Stored>();
    const Stored* e = expected.data<Stored>();
    const auto body = [&](int64_t begin, int64_t end, Tally& tally) {
      for (int64_t i = begin; i < end; ++i) {
        const Distance distance = tally.Measure(a[i], e[i], dtype, i);
        if (!distance.same_bits && distance.same_value()) {
          tally.differ += tolerance.kind == Tolerance::Kind::kBits;  // +0 and -0
        }
        const bool passes = Tolerates(tolerance, distance, ValueOf(e[i]));
        tally.Count(passes ? Verdict::kPassed : Verdict::kFailed, layout, i);
        Keep(errors, i, ErrorBy(tolerance, distance, ValueOf(e[i])));
        if (ValueOf(e[i]) == 0 || !std::isfinite(ValueOf(e[i]))) continue;
        tally.least_seen =
            std::min(tally.least_seen, AllowedDifference(tolerance, ValueOf(e[i]), dtype));
      }
    };
    return TallyPieces(actual.num_elements(), parallel, body);
  });
}

// What a golden was summed in, as far as is known.
DType AccumulatorOf(DType dtype, std::optional<DType> golden_accumulator) {
  return golden_accumulator.value_or(dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
}

// By the data: exact class or bound, element by element.
class DataComparison {
 public:
  // `golden` may be null: then the exact values, rounded, are expected.
  //
  // Without a `golden_accumulator` nobody knows what a 16-bit golden was summed in: most kernels
  // take float32, TensorFlow's plain ones the type itself. Then an error that sums in the type
  // itself could give is no more than suspect.
  DataComparison(const Problem& problem, const Oracle& oracle, const Tensor& actual,
                 const Tensor* golden, const CompareOptions& options, float* errors)
      : dtype_(problem.dtype),
        oracle_(oracle),
        layout_(problem),
        actual_(actual),
        golden_(golden),
        errors_(errors),
        own_(OwnArithmetic(dtype_, options.precision), oracle.unit_exponent()),
        accumulator_is_known_(options.golden_accumulator.has_value()),
        foreign_(ForeignArithmetic(dtype_, AccumulatorOf(dtype_, options.golden_accumulator)),
                 oracle.unit_exponent()),
        narrow_(ForeignArithmetic(dtype_, dtype_), oracle.unit_exponent()) {}

  Tally Run() const {
    Tally whole;
    std::mutex joining;
    VisitFloat(dtype_, [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      oracle_.ForEachPiece([&](int64_t begin, std::span<const Truth> truths) {
        Tally mine;
        for (size_t i = 0; i < truths.size(); ++i) {
          Compare<Stored>(begin + static_cast<int64_t>(i), truths[i], mine);
        }
        const std::lock_guard lock(joining);
        whole.Join(mine);
      });
    });
    return whole;
  }

 private:
  template <class Stored>
  void Compare(int64_t element, const Truth& truth, Tally& tally) const {
    const double rounded = truth.rounded;
    const Stored actual = actual_.data<Stored>()[element];
    const Stored expected =
        golden_ != nullptr ? golden_->data<Stored>()[element] : Narrow<Stored>(rounded);
    tally.Measure(actual, expected, dtype_, element);

    const Judgement own = own_.Of(Widen(actual), truth, rounded);
    tally.own_suspect += own.verdict == Verdict::kSuspect;
    tally.own_fail += own.verdict == Verdict::kFailed;
    Judgement judged = own;
    if (golden_ != nullptr) judged = JudgeGolden(Widen(expected), truth, rounded, tally);
    NotePower(judged, truth, tally);
    tally.exact_class += judged.exact_class;
    const double used = std::max(own.used, judged.used);
    tally.bound.Offer(used, element);
    Keep(errors_, element, used);
    tally.Count(std::max(own.verdict, judged.verdict), layout_, element);
  }

  Judgement JudgeGolden(double value, const Truth& truth, double rounded, Tally& tally) const {
    Judgement judged = foreign_.Of(value, truth, rounded);
    if (judged.verdict != Verdict::kFailed) return judged;
    if (narrow_.Of(value, truth, rounded).verdict == Verdict::kFailed) return judged;
    ++tally.narrow_explains;
    if (!accumulator_is_known_) judged.verdict = Verdict::kSuspect;
    return judged;
  }

  void NotePower(const Judgement& judged, const Truth& truth, Tally& tally) const {
    if (truth.magnitude == 0 || !std::isfinite(truth.high)) return;
    tally.least_seen = std::min(tally.least_seen, judged.least_seen);
    const double average =
        std::ldexp(truth.magnitude / static_cast<double>(truth.terms), truth.exponent);
    if (average > 0) tally.hidden_terms = std::max(tally.hidden_terms, judged.least_seen / average);
  }

  DType dtype_;
  const Oracle& oracle_;
  Layout layout_;
  const Tensor& actual_;
  const Tensor* golden_;
  float* errors_;  // may be null
  Judge own_;
  bool accumulator_is_known_;
  Judge foreign_, narrow_;  // narrow_: summed in the stored type itself
};

CheckResult Incomparable(const Tensor& actual, const Tensor& expected) {
  CheckResult result;
  result.policy = "none";
  result.status = Verdict::kFailed;
  result.reason = "incomparable";
  result.detail =
      fmt::format("{} {} against {} {}", InfoOf(actual.dtype()).name, ToString(actual.shape()),
                  InfoOf(expected.dtype()).name, ToString(expected.shape()));
  result.power = std::numeric_limits<double>::quiet_NaN();
  return result;
}

bool Comparable(const Tensor& actual, const Tensor& expected) {
  return actual.dtype() == expected.dtype() && actual.shape() == expected.shape();
}

// The worst element with its two values; `expected` is null where the exact value is expected.
std::optional<WorstElement> Worst(const WorstSoFar& worst, const Layout& layout,
                                  const Tensor& actual, const Tensor* expected,
                                  const Oracle* oracle) {
  if (worst.element < 0) return std::nullopt;
  WorstElement element;
  element.index = layout.IndexOf(worst.element);
  element.value = worst.value;
  VisitAny(actual.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored a = actual.data<Stored>()[worst.element];
    element.actual = ValueOf(a);
    element.actual_bits = BitsOf(a);
    if (expected != nullptr) {
      const Stored e = expected->data<Stored>()[worst.element];
      element.expected = ValueOf(e);
      element.expected_bits = BitsOf(e);
    } else if constexpr (!std::integral<Stored>) {
      element.expected = oracle->At(worst.element).rounded;
      element.expected_bits = BitsOf(Narrow<Stored>(element.expected));
    }
  });
  return element;
}

void FillNumbers(const Tally& tally, const Layout& layout, const Tensor& actual,
                 const Tensor* expected, const Oracle* oracle, CheckResult& result) {
  const auto worst = [&](const WorstSoFar& so_far) {
    return Worst(so_far, layout, actual, expected, oracle);
  };
  result.counts = {tally.elements,     tally.differ, tally.suspect.count(),
                   tally.fail.count(), tally.nan,    tally.inf};
  result.actual = tally.actual;
  result.expected = tally.expected;
  result.worst = {worst(tally.bound), worst(tally.abs), worst(tally.rel), worst(tally.ulp)};
  result.needs = {tally.ulp.value, tally.abs.value, tally.rel.value};
  const Whereabouts& bad = tally.fail.count() > 0 ? tally.fail : tally.suspect;
  result.where = bad.Describe(layout);
  result.picture = bad.Picture(layout);
  result.status = tally.fail.count() > 0      ? Verdict::kFailed
                  : tally.suspect.count() > 0 ? Verdict::kSuspect
                                              : Verdict::kPassed;
  result.power =
      std::isfinite(tally.least_seen) ? tally.least_seen : std::numeric_limits<double>::quiet_NaN();
  result.hidden_terms = tally.hidden_terms;
}

float* DataOf(std::optional<Tensor>& errors) {
  return errors ? errors->mutable_data<float>() : nullptr;
}

CheckResult ByTolerance(const Tensor& actual, const Tensor& expected, const Layout& layout,
                        const CompareOptions& options, const Parallel& parallel) {
  Tolerance tolerance = options.tolerance;
  if (tolerance.kind == Tolerance::Kind::kAuto) tolerance.kind = Tolerance::Kind::kBits;
  CheckResult result;
  result.errors = ErrorsOf(actual, options);
  const Tally tally =
      TallyByTolerance(actual, expected, tolerance, layout, DataOf(result.errors), parallel);
  result.policy = tolerance.ToString();
  FillNumbers(tally, layout, actual, &expected, nullptr, result);
  ExplainByTolerance(tally, tolerance, result);
  return result;
}

CheckResult ByData(const Problem& problem, const Oracle& oracle, const Tensor& actual,
                   const Tensor* golden, const CompareOptions& options) {
  CheckResult result;
  result.errors = ErrorsOf(actual, options);
  const Tally tally =
      DataComparison(problem, oracle, actual, golden, options, DataOf(result.errors)).Run();
  FillNumbers(tally, Layout(problem), actual, golden, &oracle, result);
  const bool exact_sums = golden == nullptr && options.precision == Precision::kExact;
  ExplainByData(tally, problem.dtype, AccumulatorOf(problem.dtype, options.golden_accumulator),
                exact_sums, result);
  return result;
}

}  // namespace

ExitCode ExitCodeOf(Verdict verdict, bool strict) {
  const bool wrong = verdict == Verdict::kFailed || (strict && verdict == Verdict::kSuspect);
  return wrong ? ExitCode::kWrong : ExitCode::kOk;
}

CheckResult CompareToGolden(const Problem& problem, const Tensor& first, const Tensor& second,
                            const Tensor& actual, const Tensor& golden,
                            const CompareOptions& options, const Parallel& parallel) {
  if (!Comparable(actual, golden)) {
    CheckResult result = Incomparable(actual, golden);
    const std::string hint = RecogniseShape(problem, golden.shape());
    if (golden.shape() != actual.shape() && !hint.empty()) result.detail += "; " + hint;
    return result;
  }
  if (!IsByData(options)) {
    return ByTolerance(actual, golden, Layout(problem), options, parallel);
  }
  const Oracle oracle(problem, first, second, parallel);
  return ByData(problem, oracle, actual, &golden, options);
}

CheckResult CompareToReference(const Problem& problem, const Tensor& first, const Tensor& second,
                               const Tensor& actual, const CompareOptions& options,
                               const Parallel& parallel) {
  const Oracle oracle(problem, first, second, parallel);
  if (options.tolerance.kind != Tolerance::Kind::kAuto) {
    return ByTolerance(actual, oracle.Rounded(), Layout(problem), options, parallel);
  }
  CompareOptions without_golden = options;
  without_golden.golden_accumulator.reset();
  return ByData(problem, oracle, actual, nullptr, without_golden);
}

CheckResult CompareTensors(const Tensor& actual, const Tensor& expected,
                           const CompareOptions& options, const Parallel& parallel) {
  if (!Comparable(actual, expected)) return Incomparable(actual, expected);
  CheckResult result = ByTolerance(actual, expected, Layout(actual.shape()), options, parallel);
  result.power = std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace convgrad
