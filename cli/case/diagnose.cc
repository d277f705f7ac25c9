#include "cli/case/diagnose.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cli/case/golden_recorder.h"
#include "conv/compute.h"
#include "verify/compare/other_type.h"
#include "verify/diagnosis/diagnosis.h"

namespace convgrad::cli {
namespace {

void AddDetail(const std::string& text, CheckResult& check) {
  check.detail += (check.detail.empty() ? "" : "; ") + text;
}

// True if the comparison looked at no term of any sum.
bool WasQuick(const CaseSpec& spec, const CheckResult& check) {
  return spec.compare.tolerance.kind != Tolerance::Kind::kAuto || check.policy == "bits";
}

// The diagnosis of a tensor that has the problem's type, once it is rounded to it.
std::optional<Diagnosis> DiagnosisOf(const Doubted& doubted, const CaseSpec& spec,
                                     const Parallel& parallel, CheckResult& check) {
  const Problem& problem = doubted.problem;
  const bool has_type = doubted.made.dtype() == problem.dtype;
  const Tensor golden = has_type ? doubted.made : ConvertTo(doubted.made, problem.dtype, parallel);
  const Tensor right = doubted.right
                           ? *doubted.right
                           : Compute(problem, doubted.first, doubted.second, spec.execution);
  std::optional<DType> accumulator;
  if (spec.compare.golden_accumulator) accumulator = spec.compare.golden_accumulator->dtype;
  WrongGolden wrong = {problem, doubted.first, doubted.second, right, golden, accumulator};
  // A few seconds beside a comparison that took none, a minute beside one that did.
  constexpr int64_t kQuickTerms = int64_t{1} << 30, kMostTerms = int64_t{1} << 34;
  wrong.max_terms = WasQuick(spec, check) ? kQuickTerms : kMostTerms;
  wrong.spare_bytes = doubted.spare_bytes;
  wrong.as_given = &doubted.made;
  std::string untried;
  std::optional<Diagnosis> diagnosis = Diagnose(wrong, parallel, &untried);
  if (!untried.empty()) AddDetail(untried, check);
  return diagnosis;
}

// A mistake that explains every number is at fault where rounding alone makes them unlikely.
void FailByMistake(CheckResult& check) {
  // Beyond its bound is what only flushed numbers or an overflow explain: other doubts.
  const bool is_by_odds = check.worst.bound && check.worst.bound->value <= 1;
  if (check.status != Verdict::kSuspect || !is_by_odds) return;
  check.status = Verdict::kFailed;
  check.reason += "; a usual mistake explains them all";
  check.detail.clear();
}

}  // namespace

void AddDiagnosis(const Doubted& doubted, const CaseSpec& spec, const Parallel& parallel,
                  CheckResult& check) {
  if (check.policy == "none") return;
  // Hypotheses are of results of the problem's type: a finer one is rounded to it, a coarser one
  // says too little.
  const int fraction_bits = InfoOf(doubted.made.dtype()).fraction_bits;
  if (fraction_bits < InfoOf(doubted.problem.dtype).fraction_bits) return;
  std::optional<Diagnosis> diagnosis = DiagnosisOf(doubted, spec, parallel, check);
  if (!diagnosis) return;
  // By the data, a right golden passes: then our own result is what failed, and the detail says so;
  // unless an order of summation is known that led so far off.
  const bool is_right = diagnosis->hypothesis == kRightGolden;
  if (is_right && !WasQuick(spec, check) && !diagnosis->bit_for_bit) return;
  if (!is_right && diagnosis->is_mistake) FailByMistake(check);
  if (doubted.is_yours) diagnosis->sentence = ToItsMaker(std::move(diagnosis->sentence));
  check.diagnosis = std::move(diagnosis);
}

void NameChangedInputs(const GoldenRecord& recorded, const std::vector<InputRecord>& inputs,
                       CheckResult& check) {
  std::string changed;
  for (const RecordedInput& now : RecordedInputsOf(inputs)) {
    for (const RecordedInput& then : recorded.inputs) {
      if (then.role != now.role || then.sha256 == now.sha256) continue;
      changed += (changed.empty() ? "" : ", ") + now.role;
    }
  }
  if (changed.empty()) return;
  AddDetail("not what they were when the golden was recorded: " + changed, check);
}

}  // namespace convgrad::cli
