#include "conv/depthwise/data/planes_cut.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/move/stream_result.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

// Rows of the source that a part stages stay in the second cache, with the results made from them.
constexpr int64_t kStagedBytes = int64_t{64} << 10;
// Results of a task, so that what it costs to begin one is not seen.
constexpr int64_t kTaskResults = 16384;
constexpr int64_t kTasksPerThread = 4;
// Beyond these, index lists, residues and rows that no cache holds would take much memory.
constexpr int64_t kMostStride = 16, kMostDilation = 256, kMostSize = 1 << 15;
constexpr int64_t kMostStagedSize = 1 << 20;
// Rows that a part stages at least, as a multiple of the filter's, lest parts share most of them.
constexpr int64_t kLeastKernels = 4;

// Taps of one dimension that a result meets at most, and how many results meet one source.
int64_t MostTaps(const Dimension& d) {
  return d.forward ? d.kernel : CeilDiv(d.kernel, d.stride / std::gcd(d.stride, d.dilation));
}
int64_t MostResults(const Dimension& d) {
  return CeilDiv(d.kernel, d.stride / std::gcd(d.stride, d.dilation));
}

// The rows of the source that the results of a line meet, step by step.
VisitedRows VisitRows(const TapLine& line, int64_t first_source) {
  VisitedRows rows = {line, std::max<int64_t>(1, CeilDiv(line.num_taps, line.stride)), {}, 0};
  const int64_t end = line.origin + (line.count - 1) * line.stride + line.num_taps;
  for (int64_t step = 0; step < line.count + rows.most_live - 1; ++step) {
    int64_t weights = 0;
    for (int64_t p = 0; p < std::min(line.stride, line.num_taps); ++p) {
      const int64_t row = line.origin + step * line.stride + p;
      const int64_t num_rows = CeilDiv(line.num_taps - p, line.stride);
      if (row >= 0 && row < std::min(line.num_sources, end)) {
        // Rows of results before the first one need no sums.
        rows.visits.push_back({line.source_first - first_source + row * line.source_step, weights,
                               static_cast<int32_t>(num_rows),
                               static_cast<int16_t>(std::min(num_rows, step + 1)), false});
      }
      weights += num_rows;
    }
    if (rows.visits.empty() || rows.visits.back().ends_step) rows.visits.push_back({});
    rows.visits.back().ends_step = true;
  }
  return rows;
}

}  // namespace

bool PlanesCut::Fits(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = InfoOf(problem.op).direction == Direction::kForward;
  const Dimension rows = Dimension::Rows(g, forward), cols = Dimension::Cols(g, forward);
  for (const Dimension& d : {rows, cols}) {
    if (d.kernel > kBlockTerms || d.stride > kMostStride || d.dilation > kMostDilation ||
        std::max(d.in, d.out) > kMostSize) {
      return false;
    }
  }
  const int64_t planes = forward ? 1 : g.group_out_c;
  const int64_t channels = problem.data_format == DataFormat::kNHWC ? g.in_c : 1;
  if (channels > kBlockTerms || planes > kBlockTerms ||
      MostTaps(rows) * MostTaps(cols) * planes > kBlockTerms)
    return false;
  const int64_t staged_rows = (rows.kernel - 1) * rows.dilation + kLeastKernels * rows.kernel;
  return MostResults(rows) <= kMostLiveRows &&
         staged_rows * std::max(cols.in, cols.out) * planes * channels <= kMostStagedSize;
}

// Finds the zeros that staged rows need on both sides, then every tap's distance in them.
void PlanesCut::StageColumns() {
  num_residues = forward ? cols.stride : 1;
  const int64_t phases = forward ? 1 : std::min(cols.stride, cols.in);
  struct Reach {
    int64_t residue, shift;
  };
  const auto reach = [&](int64_t phase, int64_t tap) -> Reach {
    const int64_t at = tap * cols.dilation - cols.pad;
    if (!forward) return {0, (phase - at) / cols.stride};  // without a rest
    const int64_t shift = FloorDiv(at, num_residues);
    return {at - shift * num_residues, shift};
  };
  const auto num_sources = [&](int64_t residue) {
    return std::max<int64_t>(0, CeilDiv(cols.num_sources() - residue, num_residues));
  };
  const int64_t least = 16 / compute_bytes, count = CeilDiv(cols.num_results(), phases);
  width = std::max(count, least);
  left = 0;
  int64_t right = num_sources(0);
  for (int64_t phase = 0; phase < phases; ++phase) {
    col_phases.push_back({});
    for (const int64_t tap : TapsOfPhase(cols, phase)) {
      const Reach r = reach(phase, tap);
      if (r.shift + count <= 0 || r.shift >= num_sources(r.residue)) continue;
      col_phases.back().taps.push_back(tap);
      left = std::max(left, RoundUp(std::max<int64_t>(0, -r.shift), least));
      right = std::max(right, r.shift + width);
      multiplies_padding |= r.shift < 0 || r.shift + count > num_sources(r.residue);
    }
  }
  residue_size = RoundUp(left + right, least);
  for (int64_t phase = 0; phase < phases; ++phase) {
    ColPhase& of_phase = col_phases[static_cast<size_t>(phase)];
    for (const int64_t tap : of_phase.taps) {
      const Reach r = reach(phase, tap);
      of_phase.offsets.push_back(r.residue * residue_size + left + r.shift);
    }
  }
}

// Bands as high as the cache allows, and lower ones where the planes are too few for the threads.
void PlanesCut::CutPixels(int num_threads) {
  const int64_t row_bytes = staged_row() * staged_planes() * compute_bytes;
  const int64_t staged = std::max<int64_t>(kLeastKernels * rows.kernel, kStagedBytes / row_bytes);
  const int64_t num_rows = rows.num_results();
  const int64_t height =
      std::clamp<int64_t>(forward ? staged / rows.stride : staged * rows.stride, 1, num_rows);
  int64_t num_parts = CeilDiv(num_rows, height);
  const int64_t wanted = num_threads == 1 ? 1 : num_threads * kTasksPerThread;
  if (num_groups * num_parts < wanted) {
    num_parts = std::min(num_rows, CeilDiv(wanted, num_groups));
  }
  for (int64_t part = 0; part < num_parts; ++part) {
    const Range results = ShareOf(num_rows, num_parts, part);
    const Range sources = SourcesOf(rows, results);
    row_parts.push_back({results, sources, {}});
    for (const TapLine& line : LinesOf(rows, results, sources)) {
      row_parts.back().lines.push_back(VisitRows(line, sources.begin));
    }
  }
  const int64_t results =
      CeilDiv(num_rows, num_parts) * cols.num_results() * group_channels * group_results();
  groups_of_task =
      std::clamp(num_groups * num_parts / wanted, int64_t{1}, CeilDiv(kTaskResults, results));
  for (const TapLine& line : LinesOf(rows, {0, num_rows}, {0, rows.num_sources()})) {
    const bool known = std::any_of(row_phases.begin(), row_phases.end(), [&](const TapLine& other) {
      return other.packed_tap == line.packed_tap;
    });
    if (!known && line.num_taps > 0) row_phases.push_back(line);
  }
}

// Small planes are in cache before a fetch would help.
void PlanesCut::DealLines() {
  constexpr int64_t kLeastLines = 32;
  for (RowPart& part : row_parts) {
    const int64_t planes = row_parts.size() == 1 || interleaved ? staged_planes() : 1;
    const int64_t lines =
        CeilDiv(planes * part.sources.size() * cols.num_sources() * stored_bytes, kLineBytes);
    int64_t num_visits = 0;
    for (const VisitedRows& rows_of : part.lines) num_visits += std::ssize(rows_of.visits);
    num_visits *= group_channels * group_results() * num_phases();
    for (VisitedRows& line : part.lines) {
      line.lines_a_visit = lines < kLeastLines ? 0 : CeilDiv(lines, num_visits);
    }
  }
}

// Rows of all channels, and planes whose rows are not computed in order. Planes that lie behind
// each other are written when they end with a line, if there are enough for the threads and they
// stay in cache until then; others one by one.
void PlanesCut::ChooseStreaming(int64_t result_bytes, int num_threads) {
  constexpr size_t kLinesInOrder = 2;
  const bool in_order = row_parts[0].lines.size() <= kLinesInOrder;
  if (result_bytes < kLeavesTheCaches || (in_order && !interleaved)) return;
  constexpr int64_t kMostBytes = int64_t{128} << 10;
  streamed_planes = 1;
  if (interleaved || row_parts.size() > 1) return;
  const int64_t plane_bytes = rows.num_results() * cols.num_results() * stored_bytes;
  const int64_t planes = kLineBytes / std::gcd(kLineBytes, plane_bytes);
  if (planes * plane_bytes > kMostBytes || planes * num_threads * kTasksPerThread > num_groups) {
    return;
  }
  streamed_planes = planes;
  groups_of_task = RoundUp(groups_of_task, planes);
}

void PlanesCut::MeasureTask() {
  const bool widened = stored_bytes != compute_bytes;
  int64_t most_sources = 0, most_results = 0;
  for (const RowPart& part : row_parts) {
    most_sources = std::max(most_sources, part.sources.size());
    most_results = std::max(most_results, part.results.size());
  }
  staged_plane = most_sources * staged_row();
  if (!direct) out_plane = most_results * width;
  if (interleaved) {
    dense_size =
        std::max(2 * cols.num_sources() * staged_planes(), cols.num_results() * result_planes());
  } else if (widened && num_residues > 1) {
    dense_size = most_sources * cols.num_sources();
  } else if (num_phases() > 1) {
    dense_size = cols.num_results();
  }
  const int64_t part = cols.num_results() * (interleaved ? result_planes() : most_results);
  // Numbers of a narrower type would do with less.
  streamed_size = RoundUp(streamed_planes * part, kLineBytes);
}

PlanesCut::PlanesCut(const Problem& problem, int num_threads) {
  const ConvGeometry& g = problem.geometry;
  forward = InfoOf(problem.op).direction == Direction::kForward;
  rows = Dimension::Rows(g, forward);
  cols = Dimension::Cols(g, forward);
  num_channels = g.in_c;
  interleaved = problem.data_format == DataFormat::kNHWC && g.out_c > 1;
  group_channels = interleaved ? g.in_c : 1;
  num_groups = g.batch * g.in_c / group_channels;
  multiplier = g.group_out_c;
  compute_bytes = problem.dtype == DType::kFloat64 ? 8 : 4;
  StageColumns();
  stored_bytes = InfoOf(problem.dtype).bytes;
  direct = stored_bytes == compute_bytes && !interleaved && num_phases() == 1 &&
           width == cols.num_results();
  CutPixels(num_threads);
  DealLines();
  ChooseStreaming(problem.ResultBytes(), num_threads);
  MeasureTask();
  PlaceTerms();
}

// Planes that are summed lie behind each other, and so do their terms.
void PlanesCut::PlaceTerms() {
  int64_t row_taps = 0;
  for (const TapLine& line : row_phases) row_taps += line.num_taps;
  for (ColPhase& phase : col_phases) {
    std::vector<int64_t> all;
    for (const int64_t offset : phase.offsets) {
      for (int64_t m = 0; m < group_sources(); ++m) all.push_back(offset + m * staged_plane);
    }
    phase.offsets = std::move(all);
    phase.first_weight = weights_of_plane;
    weights_of_plane += phase.num_terms() * row_taps;
  }
}

int64_t PlanesCut::tasks_of_part() const {
  return CeilDiv(num_groups, groups_of_task);
}

int64_t PlanesCut::num_tasks() const {
  return tasks_of_part() * static_cast<int64_t>(row_parts.size());
}

}  // namespace convgrad
