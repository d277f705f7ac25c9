#include "verify/verdict_text.h"

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
  return fmt::format("worst: {:.2g} % of the bound", used * 100);
}

const char* AccumulatorFlag(DType dtype) {
  return dtype == DType::kFloat16 ? "f16" : "bf16";
}

std::string PassedReason(const Tally& tally, bool exact) {
  if (tally.elements == 0) return "there are no elements to compare";
  if (exact) {
    return fmt::format("exact in {}: every order of summation gives the same value on such data",
                       All(tally.elements));
  }
  return fmt::format("within the error that its own terms allow in {}; {}", All(tally.elements),
                     UsedOfBound(tally.bound.value));
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

std::string FailedReason(const Tally& tally, DType accumulator, bool exact) {
  const std::string some = SomeAre(tally.fail.count(), tally.elements);
  if (exact) {
    return some + " not the exact value, which every order of summation gives on such data";
  }
  return fmt::format("{} farther off than any order of {} summation goes; {}", some,
                     InfoOf(accumulator).name, UsedOfBound(tally.bound.value));
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

void ExplainByData(const Tally& tally, DType dtype, DType accumulator, CheckResult& result) {
  const bool exact = tally.exact_class == tally.elements;
  result.policy = exact ? "exact class" : "bound";
  switch (result.status) {
    case Verdict::kPassed: result.reason = PassedReason(tally, exact); break;
    case Verdict::kSuspect: result.reason = SuspectReason(tally, dtype); break;
    case Verdict::kFailed: result.reason = FailedReason(tally, accumulator, exact); break;
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
