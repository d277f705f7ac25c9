#include "conv/axes/kept_positions.h"

#include <algorithm>
#include <iterator>

#include "base/checked.h"

namespace convgrad {
namespace {

// Rows of fewer kept pixels are not worth being copied apart.
constexpr int64_t kFewestKeptCols = 8;
// Rows of a result with more are not put together from kept ones: up to 16 of 16 planes would have
// to be held at a time.
constexpr int64_t kMostApartCols = 4096;

// The positions that a phase meets are source_step apart in the source.
KeptPositions MetPositions(const std::vector<AxisPhase>& phases, int64_t size) {
  if (phases.size() != 1 || phases[0].offsets.empty()) return AllPositions(size);
  const AxisPhase& phase = phases[0];
  KeptPositions kept{size, phase.source_step, {}};
  for (const int64_t offset : phase.offsets) {
    const int64_t residue = (phase.source_first + offset) % kept.period;
    kept.residues.push_back(residue < 0 ? residue + kept.period : residue);
  }
  std::ranges::sort(kept.residues);
  // Not of std::ranges, whose subrange Clang 14 can't make with this standard library.
  const auto repeated = std::unique(kept.residues.begin(), kept.residues.end());
  kept.residues.erase(repeated, kept.residues.end());
  return kept.all() ? AllPositions(size) : kept;
}

void NumberSource(const KeptPositions& kept, std::vector<AxisPhase>& phases) {
  if (kept.all()) return;
  AxisPhase& phase = phases[0];
  for (int64_t& offset : phase.offsets) offset = kept.CountBefore(phase.source_first + offset);
  phase.source_first = 0;
  phase.source_step = std::ssize(kept.residues);
}

KeptPositions SummedPositions(const std::vector<AxisPhase>& phases, int64_t size) {
  KeptPositions kept{size, phases[0].step, {}};
  for (const AxisPhase& phase : phases) {
    if (!phase.taps.empty()) kept.residues.push_back(phase.first);
  }
  return std::ssize(kept.residues) == std::ssize(phases) ? AllPositions(size) : kept;
}

void NumberResult(const KeptPositions& kept, std::vector<AxisPhase>& phases) {
  if (kept.all()) return;
  std::erase_if(phases, [](const AxisPhase& phase) { return phase.taps.empty(); });
  for (size_t i = 0; i < phases.size(); ++i) {
    phases[i].first = static_cast<int64_t>(i);
    phases[i].step = std::ssize(phases);
  }
}

}  // namespace

int64_t KeptPositions::PositionOf(int64_t index) const {
  const int64_t num = std::ssize(residues);
  return index / num * period + residues[static_cast<size_t>(index % num)];
}

int64_t KeptPositions::CountBefore(int64_t position) const {
  const int64_t residue = (position % period + period) % period;
  const int64_t below = std::ranges::lower_bound(residues, residue) - residues.begin();
  return (position - residue) / period * std::ssize(residues) + below;
}

int64_t KeptPositions::CountOf(size_t rank) const {
  return std::max<int64_t>(0, CeilDiv(size - residues[rank], period));
}

std::vector<int64_t> KeptPositions::DroppedResidues() const {
  std::vector<int64_t> dropped;
  for (int64_t residue = 0; residue < period; ++residue) {
    if (!std::ranges::binary_search(residues, residue)) dropped.push_back(residue);
  }
  return dropped;
}

KeptPixels KeepMetSource(TapSum& sum) {
  KeptPixels kept{MetPositions(sum.row_phases, sum.source_h),
                  MetPositions(sum.col_phases, sum.source_w)};
  if (kept.cols.count() < kFewestKeptCols) {
    return {AllPositions(sum.source_h), AllPositions(sum.source_w)};
  }
  NumberSource(kept.rows, sum.row_phases);
  NumberSource(kept.cols, sum.col_phases);
  sum.source_h = kept.rows.count();
  sum.source_w = kept.cols.count();
  return kept;
}

KeptPixels SummedResult(const TapSum& sum) {
  KeptPixels summed{SummedPositions(sum.row_phases, sum.result_h),
                    SummedPositions(sum.col_phases, sum.result_w)};
  if (!summed.rows.residues.empty() && !summed.cols.residues.empty()) return summed;
  return {AllPositions(sum.result_h), AllPositions(sum.result_w)};
}

KeptPixels KeepSummedResult(TapSum& sum) {
  KeptPixels kept = SummedResult(sum);
  if (kept.cols.count() < kFewestKeptCols || sum.result_w > kMostApartCols) {
    return {AllPositions(sum.result_h), AllPositions(sum.result_w)};
  }
  NumberResult(kept.rows, sum.row_phases);
  NumberResult(kept.cols, sum.col_phases);
  sum.result_h = kept.rows.count();
  sum.result_w = kept.cols.count();
  return kept;
}

}  // namespace convgrad
