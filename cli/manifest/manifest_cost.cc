#include "cli/manifest/manifest_cost.h"

#include <algorithm>
#include <optional>

#include "base/input_file.h"
#include "base/parallel.h"
#include "cli/case/golden.h"
#include "cli/case/operands.h"
#include "cli/console/console.h"
#include "cli/shards/cost.h"
#include "files/tensor_path.h"

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

// Says whether a shard can compute some images of the case, and `merge` the rest.
bool CanSplit(const CaseSpec& spec, const Problem& problem) {
  if (spec.actual || spec.probe || spec.invariance || spec.images) return false;
  const auto is_stream = [](const std::string& text) { return IsStream(TensorFileOf(text)); };
  if (std::ranges::any_of(spec.operands, is_stream)) return false;
  return CheckingOf(spec) != Checking::kBound &&
         (InfoOf(problem.op).direction != Direction::kBackpropFilter ||
          spec.execution.precision == Precision::kExact);
}

CaseWork PredictCase(const ManifestCase& one, const Console& silent) {
  try {
    const CaseSpec spec = ParseCase(one.request);
    const Operands operands(spec, silent);
    const double seconds =
        PredictSeconds(operands.problem(), CheckingOf(spec), spec.execution.precision);
    if (!CanSplit(spec, operands.problem())) return {seconds};
    return {seconds, std::max<int64_t>(1, operands.batch()), PredictCutFactor(operands.problem())};
  } catch (const Error&) {
    return {PredictFailureSeconds()};
  }
}

}  // namespace

std::vector<CaseWork> PredictCases(const ManifestFile& file, const ManifestOptions& options,
                                   const CaseSelection& selection) {
  const Console silent(Arguments({"convgrad", "--quiet"}));
  const Parallel parallel(kNumReaders);
  ManifestReader reader(file, options);
  std::vector<CaseWork> cases;
  std::vector<ManifestCase> block;
  const auto predict_block = [&] {
    const size_t begin = cases.size();
    cases.resize(begin + block.size());
    parallel.For(static_cast<int64_t>(block.size()),
                 [&](int64_t at) { cases[begin + at] = PredictCase(block[at], silent); });
    block.clear();
  };
  while (std::optional<ManifestCase> one = reader.Next()) {
    if (!selection(*one)) continue;
    block.push_back(std::move(*one));
    if (block.size() == kBlock) predict_block();
  }
  predict_block();
  return cases;
}

CasesOfShard FindCasesOfShard(std::span<const CaseWork> cases, const Shard& shard, bool split) {
  if (shard.count == 1) return {std::vector<bool>(cases.size(), true), {}};
  const SharedDeal shared = DealShares(cases, shard.count, split);
  CasesOfShard found = {std::vector<bool>(cases.size()), {}};
  for (size_t i = 0; i < cases.size(); ++i) {
    found.is_ours[i] = shared.deal.shard_of[i] == shard.index;
  }
  for (const auto& [index, shares] : shared.shares) {
    const std::vector<PartOfCase> parts = PartsOfCase(shares);
    for (size_t part = 0; part < shares.size(); ++part) {
      if (shares[part].shard != shard.index) continue;
      found.is_ours[index] = true;
      found.parts.emplace(index, parts[part]);
    }
  }
  return found;
}

std::vector<PartOfCase> PartsOfCase(std::span<const CaseShare> shares) {
  std::vector<PartOfCase> parts;
  for (const CaseShare& share : shares) {
    parts.push_back(
        {std::ssize(parts) + 1, std::ssize(shares), ImageRange{share.begin, share.end}});
  }
  return parts;
}

}  // namespace convgrad::cli
