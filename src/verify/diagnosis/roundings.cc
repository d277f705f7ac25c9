// Mistaken arithmetic: operands, sums or results in a narrower type than was said, rounded another
// way, or read as another type.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "verify/diagnosis/hypotheses.h"
#include "verify/truth/float_format.h"

namespace convgrad {
namespace {

template <class Stored>
double ThroughType(double value) {
  return Widen(Narrow<Stored>(value));
}

// To `bits` explicit bits of the significand; float32's exponents.
double RoundToBits(double value, int bits, bool truncate) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -126) - bits);
  return (truncate ? std::trunc(value / unit) : std::nearbyint(value / unit)) * unit;
}

// A format that numbers of the problem's type may have been squeezed into.
struct Narrower {
  const char* name;
  double (*round)(double);
  std::optional<DType> dtype;  // none: a format of operands only
};

constexpr Narrower kNarrowerThanFloat64[] = {
    {"float32", ThroughType<float>, DType::kFloat32},
};
constexpr Narrower kNarrowerThanFloat32[] = {
    {"TF32", [](double value) { return RoundToBits(value, 10, false); }, std::nullopt},
    {"truncated TF32", [](double value) { return RoundToBits(value, 10, true); }, std::nullopt},
    {"bfloat16", ThroughType<BFloat16>, DType::kBFloat16},
    {"truncated bfloat16", [](double value) { return RoundToBits(value, 7, true); }, std::nullopt},
    {"float16", ThroughType<Float16>, DType::kFloat16},
};

std::span<const Narrower> NarrowerThan(DType dtype) {
  if (dtype == DType::kFloat64) return kNarrowerThanFloat64;
  if (dtype == DType::kFloat32) return kNarrowerThanFloat32;
  return {};
}

void ChangeOperands(Alternative& alternative, double (*change)(double)) {
  alternative.first.change =
      alternative.second.change = [change](int64_t, double value) { return change(value); };
}

void AddNarrowOperands(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const Narrower& narrower : NarrowerThan(problem.dtype)) {
    Alternative alternative(problem);
    ChangeOperands(alternative, narrower.round);
    hypotheses.push_back(
        {"operands-rounded",
         fmt::format("the golden's maker rounded both operands to {} before multiplying: switch "
                     "that off there (allow_tf32 and the like), or round the files too",
                     narrower.name),
         alternative});
    if (!narrower.dtype) continue;
    alternative.stored = *narrower.dtype;
    hypotheses.push_back({"computed-narrow",
                          fmt::format("the golden was computed on operands in {} and its result "
                                      "stored in it: check it with --dtype {} files",
                                      narrower.name, narrower.name),
                          std::move(alternative)});
  }
}

void AddNarrowResults(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const Narrower& narrower : NarrowerThan(problem.dtype)) {
    if (!narrower.dtype) continue;
    Alternative alternative(problem);
    alternative.stored = *narrower.dtype;
    hypotheses.push_back({"result-rounded",
                          fmt::format("the golden is right, but was rounded to {} before it was "
                                      "saved: save it in full",
                                      narrower.name),
                          alternative});
    alternative.finish = Finish::kTruncated;
    hypotheses.push_back(
        {"result-truncated",
         fmt::format("the golden is right, but was cut off to {}, not rounded", narrower.name),
         std::move(alternative)});
  }
  if (InfoOf(problem.dtype).bytes == 2) {
    Alternative alternative(problem);
    alternative.finish = Finish::kTruncated;
    hypotheses.push_back({"result-truncated",
                          fmt::format("the golden's sums were cut off to {}, not rounded to the "
                                      "nearest: round when narrowing",
                                      InfoOf(problem.dtype).name),
                          std::move(alternative)});
  }
}

// Subnormal operands taken as zero.
void FlushOperands(Alternative& alternative, DType dtype) {
  alternative.first.change =
      alternative.second.change = [least = FormatOf(dtype).least_normal()](int64_t, double value) {
        return std::fabs(value) < least ? 0.0 : value;
      };
}

void AddFlushes(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const char* const remedy = "clear FTZ and DAZ there (fast-math options set them at start)";
  Alternative results(problem);
  results.finish = Finish::kFlushed;
  Alternative operands(problem);
  FlushOperands(operands, problem.dtype);
  Alternative both = operands;
  both.finish = Finish::kFlushed;
  const auto add = [&](const char* what, Alternative alternative) {
    hypotheses.push_back(
        {"subnormals-flushed",
         fmt::format("the golden's maker takes subnormal {} for zero: {}", what, remedy),
         std::move(alternative)});
  };
  add("results", std::move(results));
  add("operands", std::move(operands));
  add("operands and results", std::move(both));
}

template <class Stored>
double FromSwappedBits(uint64_t bits) {
  uint64_t swapped = 0;
  for (size_t byte = 0; byte < sizeof(Stored); ++byte) {
    swapped = swapped << 8 | (bits >> (8 * byte) & 0xFF);
  }
  return FromBits<Stored>(swapped);
}

void AddMisreadings(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  Alternative swapped(problem);
  VisitFloat(problem.dtype,
             [&](auto tag) { swapped.golden = FromSwappedBits<typename decltype(tag)::Type>; });
  hypotheses.push_back({"byte-swapped",
                        "the golden's bytes are in the other order than its header says: save it "
                        "with numpy, or correct '<' and '>' in its descr",
                        std::move(swapped)});
  if (InfoOf(problem.dtype).bytes != 2) return;
  const bool is_half = problem.dtype == DType::kFloat16;
  Alternative other(problem);
  other.stored = is_half ? DType::kBFloat16 : DType::kFloat16;
  other.golden = is_half ? FromBits<BFloat16> : FromBits<Float16>;
  hypotheses.push_back({"other-16-bits",
                        fmt::format("the golden holds {}, not {}: look at --dtype and at how it "
                                    "was saved",
                                    InfoOf(other.stored).name, InfoOf(problem.dtype).name),
                        std::move(other)});
}

// Sums in a narrower type, in an order that is not known. In the stored type itself any noise of
// that size would look like them.
void AddNarrowSums(const Problem& problem, DType accumulator, bool narrow_operands,
                   std::vector<Hypothesis>& hypotheses) {
  Alternative alternative(problem);
  alternative.accumulator = alternative.stored = accumulator;
  if (narrow_operands) {
    ChangeOperands(alternative, accumulator == DType::kFloat32    ? ThroughType<float>
                                : accumulator == DType::kBFloat16 ? ThroughType<BFloat16>
                                                                  : ThroughType<Float16>);
  }
  alternative.finish = Finish::kNarrowSums;
  hypotheses.push_back(
      {"narrow-sums",
       fmt::format("the golden was summed in {}{}: sum in float32, or judge by such sums with "
                   "--golden-accumulator {}",
                   InfoOf(accumulator).name, narrow_operands ? ", on operands rounded to it" : "",
                   accumulator == DType::kFloat16    ? "f16"
                   : accumulator == DType::kBFloat16 ? "bf16"
                                                     : "f32"),
       std::move(alternative)});
}

}  // namespace

void AddRoundings(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  AddMisreadings(problem, hypotheses);
  AddNarrowOperands(problem, hypotheses);
  AddNarrowResults(problem, hypotheses);
  AddFlushes(problem, hypotheses);
  for (const DType accumulator : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (InfoOf(accumulator).bytes >= InfoOf(problem.dtype).bytes) continue;
    AddNarrowSums(problem, accumulator, /*narrow_operands=*/false, hypotheses);
    AddNarrowSums(problem, accumulator, /*narrow_operands=*/true, hypotheses);
  }
}

}  // namespace convgrad
