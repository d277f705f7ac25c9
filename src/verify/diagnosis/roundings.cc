// Mistaken arithmetic: operands, sums or results in a narrower type than was said, rounded another
// way, or read as another type.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "verify/diagnosis/hypotheses.h"
#include "verify/truth/float_format.h"

namespace convgrad {
namespace {

void RoundOperands(Alternative& alternative, Format format) {
  alternative.first.change =
      alternative.second.change = [format](int64_t, double value) { return Round(format, value); };
}

void AddNarrowOperands(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const Format narrower : NarrowerThan(problem.dtype)) {
    const char* const name = InfoOf(narrower).name;
    Alternative alternative(problem);
    RoundOperands(alternative, narrower);
    hypotheses.push_back(
        {"operands-rounded",
         fmt::format("the golden's maker rounded both operands to {} before multiplying: switch "
                     "that off there (allow_tf32 and the like), or round the files too",
                     name),
         alternative});
    const std::optional<DType> stored = StoredType(narrower);
    if (!stored) continue;
    alternative.stored = *stored;
    hypotheses.push_back({"computed-narrow",
                          fmt::format("the golden was computed on operands in {} and its result "
                                      "stored in it: check it with --dtype {} files",
                                      name, name),
                          std::move(alternative)});
  }
}

void AddNarrowResults(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const Format narrower : NarrowerThan(problem.dtype)) {
    const std::optional<DType> stored = StoredType(narrower);
    if (!stored) continue;
    const char* const name = InfoOf(narrower).name;
    Alternative alternative(problem);
    alternative.stored = *stored;
    hypotheses.push_back({"result-rounded",
                          fmt::format("the golden is right, but was rounded to {} before it was "
                                      "saved: save it in full",
                                      name),
                          alternative});
    alternative.finish = Finish::kTruncated;
    hypotheses.push_back(
        {"result-truncated",
         fmt::format("the golden is right, but was cut off to {}, not rounded", name),
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
  if (narrow_operands) RoundOperands(alternative, StoredFormat(accumulator));
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
