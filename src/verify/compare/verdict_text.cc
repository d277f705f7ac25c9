#include "verify/compare/verdict_text.h"

#include <fmt/format.h>

#include <cmath>

namespace convgrad {
namespace {

// "3 of 288 elements are" or "1 of 288 elements is".
std::string SomeAre(int64_t some, int64_t all) {
  return fmt::format("{} of {} elements {}", some, all, some == 1 ? "is" : "are");
}

// "the only element" or "all 288 elements".
std::string All(int64_t all) {
  return all == 1 ? "the only element" : fmt::format("all {} elements", all);
}

std::string UsedOfBound(double used) {
  if (std::isinf(used)) return "worst: infinite or NaN where it should not be, or the reverse";
  if (used > 1) return fmt::format("worst: {:.3g} times the bound", used);
  const double percent = used * 100;
  if (percent < 10) return fmt::format("worst: {:.2g} % of the bound", percent);
  return fmt::format("worst: {:.0f} % of the bound", percent);
}

const char* AccumulatorFlag(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return "f16";
    case DType::kBFloat16: return "bf16";
    case DType::kFloat64: return "f64";
    default: return "f32";
  }
}

// Says what the elements were held to.
enum class Yardstick { kBound, kExactClass, kExactSum };

std::string OddsText(double odds) {
  if (odds <= kLeastOdds) return fmt::format("below {:.0e}", kLeastOdds);
  return fmt::format("{:.1g} at most", odds);
}

// Why numbers farther off than is usual are right all the same.
std::string ExcusedReason(const Tally& tally, const OddsVerdict& odds, const char* accumulator) {
  if (!odds.plain_order.empty()) {
    return fmt::format("the very numbers that {} sums one after another give, {}; {}", accumulator,
                       odds.plain_order, UsedOfBound(tally.bound.value));
  }
  return fmt::format(
      "no farther off than {} sums of these terms in their own order, which lose small terms one "
      "after another against a large sum; {}",
      accumulator, UsedOfBound(tally.bound.value));
}

std::string PassedReason(const Tally& tally, const OddsVerdict& odds, Yardstick yardstick,
                         const char* accumulator) {
  if (tally.elements == 0) return "there are no elements to compare";
  const std::string all = All(tally.elements);
  switch (yardstick) {
    case Yardstick::kBound:
      if (odds.is_excused) return ExcusedReason(tally, odds, accumulator);
      return fmt::format("within the error that its own terms allow in {}; {}", all,
                         UsedOfBound(tally.bound.value));
    case Yardstick::kExactClass:
      return fmt::format("exact in {}: every order of summation gives the same value on such data",
                         all);
    case Yardstick::kExactSum:
      return fmt::format("the exact sum, rounded once to nearest, in {}", all);
  }
  ThrowInternal("unknown yardstick");
}

std::string SuspectReason(const Tally& tally, const OddsVerdict& odds) {
  if (tally.other_suspect == 0) {
    const std::string what = tally.unusual > 0
                                 ? SomeAre(tally.unusual, tally.elements)
                                 : fmt::format("{} together are", All(tally.elements));
    return fmt::format(
        "{} farther off than rounding usually goes, though some order of summation could go there "
        "(odds {}); {}",
        what, OddsText(odds.odds), UsedOfBound(tally.bound.value));
  }
  const std::string some = SomeAre(tally.suspect.count(), tally.elements);
  if (std::isinf(tally.bound.value)) {
    return some + " infinite or NaN where only an overflow on the way explains it";
  }
  if (tally.bound.value > 1) {
    return some + " right only if its maker flushes subnormal numbers to zero";
  }
  return fmt::format("{} farther off than rounding usually goes; {}", some,
                     UsedOfBound(tally.bound.value));
}

const char* WordsFor(OddsVerdict::Test test) {
  switch (test) {
    case OddsVerdict::Test::kWorst: return "of the worst element";
    case OddsVerdict::Test::kSquares: return "of all elements' errors together";
    case OddsVerdict::Test::kMean: return "of errors that lie to one side";
  }
  ThrowInternal("unknown test of odds");
}

std::string FailedReason(const Tally& tally, const OddsVerdict& odds, Yardstick yardstick,
                         const char* accumulator) {
  const std::string some = SomeAre(tally.fail.count(), tally.elements);
  switch (yardstick) {
    case Yardstick::kBound:
      if (tally.fail.count() == 0) {
        return fmt::format("no order of {} summation goes so far, but for odds {} ({}); {}",
                           accumulator, OddsText(odds.odds), WordsFor(odds.test),
                           UsedOfBound(tally.bound.value));
      }
      return fmt::format("{} farther off than any order of {} summation goes; {}", some,
                         accumulator, UsedOfBound(tally.bound.value));
    case Yardstick::kExactClass:
      return some + " not the exact value, which every order of summation gives on such data";
    case Yardstick::kExactSum: return some + " not the exact sum, rounded once to nearest";
  }
  ThrowInternal("unknown yardstick");
}

// True if all that did not pass could be sums in the stored type itself, which is another than what
// was taken for the accumulator.
bool IsNarrow(const Tally& tally, DType dtype, const CheckResult& result) {
  if (!result.odds || FormatOf(dtype) == result.odds->accumulator) return false;
  return tally.narrow_explains > 0 &&
         tally.narrow_explains >= tally.fail.count() + tally.suspect.count();
}

}  // namespace

const char* NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return "PASSED";
    case Verdict::kSuspect: return "SUSPECT";
    case Verdict::kFailed: return "FAILED";
  }
  ThrowInternal("unknown verdict");
}

const char* NameOf(Against against) {
  switch (against) {
    case Against::kGolden: return "golden";
    case Against::kReference: return "reference";
    case Against::kExactValue: return "exact value";
    case Against::kFile: return "file";
  }
  ThrowInternal("unknown side of a comparison");
}

void ExplainByData(const Tally& tally, const OddsVerdict& odds, DType dtype,
                   const FloatFormat& accumulator, bool exact_sums, CheckResult& result) {
  const bool exact_class = tally.exact_class == tally.elements;
  const Yardstick yardstick = exact_class  ? Yardstick::kExactClass
                              : exact_sums ? Yardstick::kExactSum
                                           : Yardstick::kBound;
  result.policy = exact_class ? "exact class" : "bound";
  switch (result.status) {
    case Verdict::kPassed:
      result.reason = PassedReason(tally, odds, yardstick, accumulator.name);
      break;
    case Verdict::kSuspect: result.reason = SuspectReason(tally, odds); break;
    case Verdict::kFailed:
      result.reason = FailedReason(tally, odds, yardstick, accumulator.name);
      break;
  }
  if (tally.own_fail > 0) {
    result.detail = fmt::format(
        "the computed result itself breaks this program's promise at {} of {} elements: please "
        "report it",
        tally.own_fail, tally.elements);
  } else if (result.status != Verdict::kPassed && IsNarrow(tally, dtype, result)) {
    result.detail = fmt::format(
        "sums in {} could give this; if they are meant, --golden-accumulator {} judges by them",
        InfoOf(dtype).name, AccumulatorFlag(dtype));
  } else if (result.status == Verdict::kSuspect) {
    result.detail =
        "these data do not decide: results on small integers, where every order of summation gives "
        "the same value, would (gen --fill integer)";
  } else if (tally.hidden_terms > 1) {
    result.detail = fmt::format(
        "the loosest bound could hide {:.3g} terms of average size; a probe with integer data sees "
        "more",
        tally.hidden_terms);
  }
}

void ExplainByTolerance(const Tally& tally, const Tolerance& tolerance, CheckResult& result) {
  result.policy = tolerance.ToString();
  const bool bits = tolerance.kind == Tolerance::Kind::kBits;
  if (tally.elements == 0) {
    result.reason = "there are no elements to compare";
  } else if (result.status == Verdict::kPassed) {
    result.reason = bits ? "equal bit by bit in " + All(tally.elements)
                         : fmt::format("within {} in {}", result.policy, All(tally.elements));
  } else if (bits) {
    result.reason = SomeAre(tally.fail.count(), tally.elements) + " different, bit by bit";
  } else {
    result.reason =
        fmt::format("{} beyond {}", SomeAre(tally.fail.count(), tally.elements), result.policy);
  }
}

}  // namespace convgrad
