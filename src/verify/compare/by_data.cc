#include "verify/compare/by_data.h"

#include <mutex>
#include <span>

#include "verify/compare/data_comparison.h"

namespace convgrad {

Accumulator AccumulatorOf(const Problem& problem, DType stored, const CompareOptions& options) {
  const bool is_double = stored == DType::kFloat64 || problem.dtype == DType::kFloat64;
  return options.golden_accumulator.value_or(is_double ? DType::kFloat64 : DType::kFloat32);
}

Tally TallyByData(const DataQuestion& question, const Oracle& oracle, const CompareOptions& options,
                  ErrorSink& errors) {
  const DataComparison comparison(question, oracle, options);
  Tally whole;
  std::mutex joining;
  VisitFloat(question.actual.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    oracle.ForEachPiece([&](int64_t begin, std::span<const Truth> truths) {
      Tally mine;
      for (const Truth& truth : truths) {
        comparison.Compare<Stored>(begin++, truth, mine, errors);
      }
      const std::lock_guard lock(joining);
      whole.Join(mine);
    });
  });
  return whole;
}

OddsVerdict OddsByData(const DataQuestion& question, const Oracle& oracle, const Tally& tally,
                       const CompareOptions& options, const Parallel& parallel) {
  const Tensor* foreign = question.foreign();
  if (foreign == nullptr || tally.odds.count() == 0) return {};
  const Arithmetic arithmetic = ForeignArithmetic(
      foreign->dtype(), AccumulatorOf(question.problem, foreign->dtype(), options));
  return JudgeOdds(
      {question.problem, question.first, question.second, *foreign, arithmetic, options.odds},
      oracle, tally.odds, tally.unusual, parallel);
}

}  // namespace convgrad
