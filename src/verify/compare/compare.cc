#include "verify/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "verify/compare/by_data.h"
#include "verify/compare/by_tolerance.h"
#include "verify/compare/error_sink.h"
#include "verify/compare/other_type.h"
#include "verify/compare/screen.h"
#include "verify/compare/tally.h"
#include "verify/compare/verdict_text.h"
#include "verify/diagnosis/golden_shape.h"
#include "verify/truth/oracle.h"
#include "verify/truth/rounded.h"
#include "verify/where/where.h"

namespace convgrad {
namespace {

bool IsByData(const CompareOptions& options) {
  return options.tolerance.kind == Tolerance::Kind::kAuto && !options.golden_is_ours;
}

CheckResult Incomparable(const DTypeInfo& actual, const Shape& actual_shape,
                         const DTypeInfo& expected, const Shape& expected_shape) {
  CheckResult result;
  result.policy = "none";
  result.status = Verdict::kFailed;
  result.reason = "incomparable";
  result.detail = fmt::format("{} {} against {} {}", actual.name, ToString(actual_shape),
                              expected.name, ToString(expected_shape));
  result.power = std::numeric_limits<double>::quiet_NaN();
  return result;
}

CheckResult Incomparable(const Tensor& actual, const Tensor& expected) {
  return Incomparable(InfoOf(actual.dtype()), actual.shape(), InfoOf(expected.dtype()),
                      expected.shape());
}

// Adds what a tensor of another shape than the one wanted may be.
void AddHint(const Problem& problem, const Shape& given, const Shape& wanted, CheckResult& result) {
  if (given == wanted) return;
  const std::string hint = RecogniseShape(problem, given);
  if (!hint.empty()) result.detail += "; " + hint;
}

// Floats of any types are.
bool Comparable(const Tensor& actual, const Tensor& expected) {
  const bool are_floats = InfoOf(actual.dtype()).is_float && InfoOf(expected.dtype()).is_float;
  return (are_floats || actual.dtype() == expected.dtype()) && actual.shape() == expected.shape();
}

void AddDetail(const std::string& text, CheckResult& result) {
  result.detail += (result.detail.empty() ? "" : "; ") + text;
}

// Someone's tensor in the type whose numbers it holds, and what to say of it.
struct Seen {
  Tensor tensor;
  std::string detail;
};

Seen SeenBy(const Problem& problem, const Tensor& given, const CompareOptions& options,
            const Parallel& parallel) {
  if (given.dtype() == problem.dtype) return {given, ""};
  const DType numbers = TypeOfNumbers(given, problem.dtype, parallel);
  const bool is_widened = numbers != given.dtype();
  std::string detail =
      fmt::format("is {}{}", InfoOf(given.dtype()).name,
                  is_widened ? fmt::format(", all of it {} numbers", InfoOf(numbers).name) : "");
  if (options.tolerance.kind == Tolerance::Kind::kAuto) {
    detail +=
        fmt::format(": held to sums in {}, rounded to {}",
                    AccumulatorOf(problem, numbers, options).format().name, InfoOf(numbers).name);
  }
  return {is_widened ? ConvertTo(given, numbers, parallel) : given, detail};
}

void NoteTypes(const Tensor& actual, const Tensor* expected, CheckResult& result) {
  result.actual_type = actual.dtype();
  result.expected_type = expected != nullptr ? expected->dtype() : actual.dtype();
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
    if constexpr (!std::integral<Stored>) {
      if (expected != nullptr) return;
      element.expected = RoundedTo(oracle->At(worst.element), actual.dtype());
      element.expected_bits = BitsOf(Narrow<Stored>(element.expected));
    }
  });
  if (expected == nullptr) return element;
  VisitAny(expected->dtype(), [&](auto tag) {
    const auto e = expected->data<typename decltype(tag)::Type>()[worst.element];
    element.expected = ValueOf(e);
    element.expected_bits = BitsOf(e);
  });
  return element;
}

void FillNumbers(const Tally& tally, const Layout& layout, const Tensor& actual,
                 const Tensor* expected, const Oracle* oracle, CheckResult& result) {
  const auto worst = [&](const WorstSoFar& so_far) {
    return Worst(so_far, layout, actual, expected, oracle);
  };
  NoteTypes(actual, expected, result);
  result.counts = {tally.elements,     tally.differ, tally.suspect.count(),
                   tally.fail.count(), tally.nan,    tally.inf};
  result.actual = tally.actual;
  result.expected = tally.expected;
  result.worst = {worst(tally.bound), worst(tally.abs), worst(tally.rel), worst(tally.ulp)};
  result.needs = {tally.ulp.value, tally.abs.value, tally.rel.value};
  const Whereabouts& bad = tally.fail.count() > 0 ? tally.fail : tally.suspect;
  result.where = bad.Describe(layout);
  result.box = bad.LeastBox(layout);
  result.picture = bad.Picture(layout);
  result.status = tally.fail.count() > 0      ? Verdict::kFailed
                  : tally.suspect.count() > 0 ? Verdict::kSuspect
                                              : Verdict::kPassed;
  result.power =
      std::isfinite(tally.least_seen) ? tally.least_seen : std::numeric_limits<double>::quiet_NaN();
  result.hidden_terms = tally.hidden_terms;
}

bool IsProfiled(const CompareOptions& options, const Tensor& actual) {
  return options.profile_failures && actual.num_elements() <= kMostProfiledElements;
}

void AddProfile(std::optional<ErrorProfile> profile, const Layout& layout, const Tensor& actual,
                const Tensor* expected, const Oracle* oracle, CheckResult& result) {
  result.profile = std::move(profile);
  if (!result.profile) return;
  for (const LargeError& large : result.profile->worst) {
    result.worst_elements.push_back(
        *Worst({large.error, large.element}, layout, actual, expected, oracle));
  }
}

CheckResult ByTolerance(const Tensor& actual, const Tensor& expected, const Layout& layout,
                        const CompareOptions& options, const Parallel& parallel) {
  Tolerance tolerance = options.tolerance;
  if (tolerance.kind == Tolerance::Kind::kAuto) tolerance.kind = Tolerance::Kind::kBits;
  CheckResult result;
  const auto tally_with = [&](ErrorSink& errors) {
    return TallyByTolerance(actual, expected, tolerance, layout, errors, parallel);
  };
  ErrorSink errors(actual.shape(), options.keep_errors, /*profile=*/false, /*model=*/false);
  const Tally tally = tally_with(errors);
  result.policy = tolerance.ToString();
  FillNumbers(tally, layout, actual, &expected, nullptr, result);
  result.errors = errors.TakeErrors();
  if (result.status != Verdict::kPassed && IsProfiled(options, actual)) {
    // Where no term is looked at, to go over the elements again is less than to keep something of
    // each while all of them may pass.
    ErrorSink again(actual.shape(), /*keep=*/false, /*profile=*/true, /*model=*/false);
    tally_with(again);
    AddProfile(again.Profile(layout, tolerance.Measure(), tolerance.Limit()), layout, actual,
               &expected, nullptr, result);
  }
  ExplainByTolerance(tally, tolerance, result);
  if (actual.dtype() != expected.dtype()) {
    AddDetail(fmt::format("the types differ, {} and {}: ULP are counted in {}",
                          InfoOf(actual.dtype()).name, InfoOf(expected.dtype()).name,
                          InfoOf(CoarserOf(actual.dtype(), expected.dtype())).name),
              result);
  }
  return result;
}

// Elements that turned out to be right have no place to show.
void ForgetWhere(CheckResult& result) {
  result.where.clear();
  result.box = {};
  result.picture.reset();
}

CheckResult ByData(const DataQuestion& question, const Oracle& oracle,
                   const CompareOptions& options, const Parallel& parallel) {
  CheckResult result;
  std::optional<Tally> screened = TallyScreened(question, oracle, options, parallel);
  const bool is_screened = screened.has_value();
  const bool is_profiled = IsProfiled(options, question.actual) && !is_screened;
  ErrorSink errors(question.actual.shape(), options.keep_errors, is_profiled, /*model=*/true);
  const Tally tally =
      is_screened ? *std::move(screened) : TallyByData(question, oracle, options, errors);
  const Layout layout(question.problem);
  FillNumbers(tally, layout, question.actual, question.golden, &oracle, result);
  const Accumulator accumulator = AccumulatorOf(question.problem, question.foreign_type(), options);
  OddsVerdict odds;
  if (question.foreign() != nullptr) {
    const bool is_excluded = tally.fail.count() > 0;
    if (!is_excluded && !is_screened) odds = OddsByData(question, oracle, tally, options, parallel);
    result.odds = CheckResult::Odds{accumulator.format(), options.operand_rounding,
                                    is_excluded ? 0 : odds.odds, options.odds};
    if (!is_excluded) result.status = odds.verdict;
    if (tally.other_suspect > 0) result.status = std::max(result.status, Verdict::kSuspect);
  }
  const bool exact_sums =
      question.golden == nullptr && !question.is_foreign && options.precision == Precision::kExact;
  ExplainByData(tally, odds, question.foreign_type(), accumulator.format(), exact_sums, result);
  if (result.status == Verdict::kPassed) {
    ForgetWhere(result);
  } else {
    AddProfile(errors.Profile(layout, "bound", 1), layout, question.actual, question.golden,
               &oracle, result);
  }
  result.errors = errors.TakeErrors();
  return result;
}

}  // namespace

ExitCode ExitCodeOf(Verdict verdict, bool allow_suspect) {
  const bool wrong =
      verdict == Verdict::kFailed || (!allow_suspect && verdict == Verdict::kSuspect);
  return wrong ? ExitCode::kWrong : ExitCode::kOk;
}

CheckResult CompareToGolden(const Problem& problem, const Tensor& first, const Tensor& second,
                            const Tensor& actual, const Tensor& golden,
                            const CompareOptions& options, const Parallel& parallel) {
  if (!Comparable(actual, golden)) {
    CheckResult result = Incomparable(actual, golden);
    AddHint(problem, golden.shape(), actual.shape(), result);
    return result;
  }
  const Seen seen = SeenBy(problem, golden, options, parallel);
  CheckResult result;
  if (IsByData(options)) {
    const Oracle oracle(problem, first, second, parallel);
    result = ByData({problem, first, second, actual, &seen.tensor, /*is_foreign=*/false}, oracle,
                    options, parallel);
  } else {
    result = ByTolerance(actual, seen.tensor, Layout(problem), options, parallel);
  }
  if (!seen.detail.empty()) AddDetail("the golden " + seen.detail, result);
  return result;
}

CheckResult CompareToReference(const Problem& problem, const Tensor& first, const Tensor& second,
                               const Tensor& actual, const CompareOptions& options,
                               const Parallel& parallel) {
  const Oracle oracle(problem, first, second, parallel);
  CompareOptions without_golden = options;
  without_golden.golden_accumulator.reset();
  CheckResult result =
      options.tolerance.kind == Tolerance::Kind::kAuto
          ? ByData({problem, first, second, actual, nullptr, /*is_foreign=*/false}, oracle,
                   without_golden, parallel)
          : ByTolerance(actual, oracle.Rounded(), Layout(problem), options, parallel);
  result.against = Against::kReference;
  return result;
}

CheckResult CompareToExact(const Problem& problem, const Tensor& first, const Tensor& second,
                           const Tensor& yours, const CompareOptions& options,
                           const Parallel& parallel) {
  const Oracle oracle(problem, first, second, parallel);
  const Seen seen = SeenBy(problem, yours, options, parallel);
  const DType dtype = seen.tensor.dtype();
  const bool keeps_type = dtype == problem.dtype;
  const bool is_by_data = options.tolerance.kind == Tolerance::Kind::kAuto;
  CheckResult result =
      is_by_data
          ? ByData({problem, first, second, seen.tensor, nullptr, /*is_foreign=*/true}, oracle,
                   options, parallel)
          : ByTolerance(seen.tensor,
                        keeps_type ? oracle.Rounded() : RoundedTo(dtype, oracle, yours.shape()),
                        Layout(problem), options, parallel);
  if (!seen.detail.empty()) AddDetail("yours " + seen.detail, result);
  result.against = Against::kExactValue;
  return result;
}

CheckResult Incomparable(const Problem& problem, const Tensor& yours, const Shape& wanted) {
  CheckResult result =
      Incomparable(InfoOf(yours.dtype()), yours.shape(), InfoOf(problem.dtype), wanted);
  AddHint(problem, yours.shape(), wanted, result);
  result.against = Against::kExactValue;
  return result;
}

CheckResult CompareTensors(const Tensor& actual, const Tensor& expected,
                           const CompareOptions& options, const Parallel& parallel) {
  CheckResult result =
      Comparable(actual, expected)
          ? ByTolerance(actual, expected, Layout(actual.shape()), options, parallel)
          : Incomparable(actual, expected);
  result.against = Against::kFile;
  result.power = std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace convgrad
