#include "cli/case/review.h"

#include "cli/case/golden_recorder.h"
#include "cli/record/pending.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

PendingErrors MeasureErrors(const Operands& operands, const Result& result,
                            const std::optional<Golden>& golden, const Parallel& parallel) {
  constexpr int64_t kMostTerms = int64_t{1} << 30;  // a few seconds
  PendingErrors errors;
  if (operands.problem().ValidTerms() > kMostTerms) return errors;
  const auto error_of = [&](const Tensor& tensor) {
    const CheckResult check = CompareToExact(operands.problem(), operands.first(),
                                             operands.second(), tensor, {}, parallel);
    return ExactError{check.counts.differ, check.worst.bound ? check.worst.bound->value : 0};
  };
  errors.now = error_of(result.computed);
  const bool is_comparable =
      golden && golden->file && golden->file->tensor.shape() == result.written.shape();
  if (is_comparable) errors.before = error_of(golden->tensor);
  return errors;
}

std::optional<PendingRecord> LeaveForReview(const std::string& directory, const CaseSpec& spec,
                                            const Problem& problem, const Tensor& result,
                                            const std::vector<InputRecord>& inputs,
                                            const PendingErrors& errors, NpyReadOptions reading,
                                            const Console& console) {
  const auto say_why_not = [&] {
    console.Note(*spec.expect + ": one of several in its file, so nothing is left for review");
    return std::nullopt;
  };
  if (!IsOwnFile(ParseTensorPath(*spec.expect))) return say_why_not();
  TensorTarget target = ParseTensorTarget(*spec.expect, InfoOf(problem.op).result);
  target.path.file = PendingPath(directory, spec.golden_name);
  if (!IsOwnFile(target.path)) return say_why_not();
  MakePendingPlace(directory, spec.golden_name);
  RecordOptions options;
  options.force = options.allow_non_finite = true;
  GoldenRecorder recorder(target, options, reading);
  recorder.Accept(result);
  recorder.Write(result, problem, spec.execution.precision, inputs);
  MarkPending(target.path.file, *spec.expect, errors);
  return PendingRecord{target.path.file, TensorFileOf(*spec.expect)};
}

}  // namespace convgrad::cli
