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
  return dtype == DType::kFloat16 ? "f16" : "bf16";
}

// What the elements were held to.
enum class Yardstick { kBound, kExactClass, kExactSum };

std::string PassedReason(const Tally& tally, Yardstick yardstick) {
  if (tally.elements == 0) return "there are no elements to compare";
  const std::string all = All(tally.elements);
  switch (yardstick) {
    case Yardstick::kBound:
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

std::string SuspectReason(const Tally& tally, DType dtype) {
  if (tally.narrow_explains > 0) {
    return fmt::format("{} right only if summed in {}",
                       SomeAre(tally.narrow_explains, tally.elements), InfoOf(dtype).name);
  }
  const std::string some = SomeAre(tally.suspect.count(), tally.elements);
  if (std::isinf(tally.bound.value)) {
    return some + " infinite or NaN where only an overflow on the way explains it";
  }
  if (tally.bound.value > 1) {
    return some + " right only if its maker flushes subnormal numbers to zero";
  }
  return fmt::format(
      "{} farther off than rounding usually goes, though some order of summation "
      "could go there; {}",
      some, UsedOfBound(tally.bound.value));
}

std::string FailedReason(const Tally& tally, DType accumulator, Yardstick yardstick) {
  const std::string some = SomeAre(tally.fail.count(), tally.elements);
  switch (yardstick) {
    case Yardstick::kBound:
      return fmt::format("{} farther off than any order of {} summation goes; {}", some,
                         InfoOf(accumulator).name, UsedOfBound(tally.bound.value));
    case Yardstick::kExactClass:
      return some + " not the exact value, which every order of summation gives on such data";
    case Yardstick::kExactSum: return some + " not the exact sum, rounded once to nearest";
  }
  ThrowInternal("unknown yardstick");
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

void ExplainByData(const Tally& tally, DType dtype, DType accumulator, bool exact_sums,
                   CheckResult& result) {
  const bool exact_class = tally.exact_class == tally.elements;
  const Yardstick yardstick = exact_class  ? Yardstick::kExactClass
                              : exact_sums ? Yardstick::kExactSum
                                           : Yardstick::kBound;
  result.policy = exact_class ? "exact class" : "bound";
  switch (result.status) {
    case Verdict::kPassed: result.reason = PassedReason(tally, yardstick); break;
    case Verdict::kSuspect: result.reason = SuspectReason(tally, dtype); break;
    case Verdict::kFailed: result.reason = FailedReason(tally, accumulator, yardstick); break;
  }
  if (tally.own_fail > 0) {
    result.detail = fmt::format(
        "the computed result itself breaks this program's promise at {} of {} elements: please "
        "report it",
        tally.own_fail, tally.elements);
  } else if (tally.narrow_explains > 0 &&
             tally.narrow_explains >= tally.fail.count() + tally.suspect.count()) {
    result.detail = fmt::format(
        "a kernel that sums in {} could give this; --golden-accumulator {} "
        "judges by such sums",
        InfoOf(dtype).name, AccumulatorFlag(dtype));
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
