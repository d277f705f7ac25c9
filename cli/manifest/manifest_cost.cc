#include "cli/manifest/manifest_cost.h"

#include <optional>

#include "base/parallel.h"
#include "cli/case/golden.h"
#include "cli/case/operands.h"
#include "cli/console/console.h"
#include "cli/shards/cost.h"
#include "cli/shards/deal.h"

namespace convgrad::cli {
namespace {

// They wait for the file system, not for a CPU.
constexpr int kNumReaders = 16;
constexpr size_t kBlock = 1024;

// A golden of ours, a hash or a fixed tolerance need no bound for every element.
Checking CheckingOf(const CaseSpec& spec) {
  if (!spec.is_checked) return Checking::kNone;
  if (!spec.expect) return Checking::kBound;
  const bool is_fixed = spec.compare.tolerance.kind != Tolerance::Kind::kAuto ||
                        spec.expect->starts_with("sha256:") ||
                        IdentityOf(RecordPathOf(*spec.expect)).has_value();
  return is_fixed ? Checking::kBits : Checking::kBound;
}

double PredictCase(const ManifestCase& one, const Console& silent) {
  try {
    const CaseSpec spec = ParseCase(one.request);
    const Operands operands(spec, silent);
    return PredictSeconds(operands.problem(), CheckingOf(spec), spec.execution.precision);
  } catch (const Error&) {
    return PredictFailureSeconds();
  }
}

}  // namespace

std::vector<double> PredictCases(const ManifestFile& file, const ManifestOptions& options,
                                 const CaseSelection& selection) {
  const Console silent(Arguments({"convgrad", "--quiet"}));
  const Parallel parallel(kNumReaders);
  ManifestReader reader(file, options);
  std::vector<double> costs;
  std::vector<ManifestCase> block;
  const auto predict_block = [&] {
    const size_t begin = costs.size();
    costs.resize(begin + block.size());
    parallel.For(static_cast<int64_t>(block.size()),
                 [&](int64_t at) { costs[begin + at] = PredictCase(block[at], silent); });
    block.clear();
  };
  while (std::optional<ManifestCase> one = reader.Next()) {
    if (!selection(*one)) continue;
    block.push_back(std::move(*one));
    if (block.size() == kBlock) predict_block();
  }
  predict_block();
  return costs;
}

std::vector<bool> CasesOfShard(const ManifestFile& file, const ManifestOptions& options,
                               const CaseSelection& selection, const Shard& shard) {
  const std::vector<double> costs = PredictCases(file, options, selection);
  if (shard.count == 1) return std::vector<bool>(costs.size(), true);
  const Deal deal = DealCases(costs, shard.count);
  std::vector<bool> is_ours(costs.size());
  for (size_t i = 0; i < costs.size(); ++i) is_ours[i] = deal.shard_of[i] == shard.index;
  return is_ours;
}

}  // namespace convgrad::cli
