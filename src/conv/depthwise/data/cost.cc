#include "conv/depthwise/data/cost.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "conv/axes/lines.h"
#include "conv/depthwise/data/direct_cut.h"
#include "conv/depthwise/data/work.h"
#include "kernels/depthwise/plane.h"

namespace convgrad {
namespace {

// Cycles of what is counted, fitted to the times of 600 random shapes and of the workloads on a
// Zen 4: with vectors of 64 bytes, and with narrower ones, of which two are added in a cycle.
struct PlanesCosts {
  double added;           // a vector of terms added
  double loaded;          // a vector of a source row loaded, or a weight
  double step;            // a vector of a row of results begun and ended
  double call;            // a tile of a plane's columns
  double parted, copied;  // a number of the source, from between other channels and by rows
  double merged;          // a result put between other channels or phases
  double from_memory;     // a number that no cache holds, besides
};
constexpr PlanesCosts kPlanesOfWide = {0.1, 1.6, 1.1, 80, 1.3, 0.85, 1.2, 0.1};
constexpr PlanesCosts kPlanesOfNarrow = {0.6, 0.2, 2.7, 105, 1.5, 0.8, 1.15, 0.1};

struct DirectCosts {
  double added;               // a vector of terms, padding and what the last tile shares included
  double segment;             // of a tile's vector
  double tile;                // of one vector
  double repeated, parted;    // a number of the source in NHWC with a multiplier
  double apart;               // a pixel whose columns lie by residues
  double transposed, stored;  // a number of the source, of the results, in NCHW
  double parted_planes;       // a number of the source in NCHW, with a multiplier, besides
  double gathered;            // a number of either where images lie side by side
  double in_order;            // a result in NHWC
  double from_memory;         // a number in NCHW that no cache holds, besides
  double part_stored;         // a pixel of results in NHWC that is less than a vector
};
constexpr DirectCosts kDirectOfWide = {0.9, 10, 22, 0.4, 1.1, 80, 0.5, 0.6, 0.45, 5.8, 0.3, 0.4, 1};
constexpr DirectCosts kDirectOfNarrow = {0.55, 7.3, 17,  0.45, 1.05, 75, 0.6,
                                         0.75, 0.4, 6.7, 0.04, 0.15, 14};

constexpr double kLeavesCachesBytes = 6 << 20;

// Of 16 bits: how many times as long it takes to put numbers side by side, and to part or merge
// planes; and a pixel of results that is less than a vector.
constexpr double kGatheredOf16 = 2, kPartedOf16 = 4, kPartStoredOf16 = 18;

constexpr int64_t kLine = 64;

// Numbers of the problem's result and of what it is made from.
struct Numbers {
  explicit Numbers(const Problem& problem) {
    const ConvGeometry& g = problem.geometry;
    const double input =
        static_cast<double>(g.batch * g.in_c) * static_cast<double>(g.in_h * g.in_w);
    const double output =
        static_cast<double>(g.batch * g.out_c) * static_cast<double>(g.out_h * g.out_w);
    forward = InfoOf(problem.op).direction == Direction::kForward;
    of_16_bits = InfoOf(problem.dtype).bytes == 2;
    sources = forward ? input : output;
    results = forward ? output : input;
    const double bytes = (input + output) * static_cast<double>(InfoOf(problem.dtype).bytes);
    from_memory = bytes >= kLeavesCachesBytes ? input + output : 0;
  }

  bool forward, of_16_bits;
  double sources, results;
  double from_memory;  // of both
};

// Rows of the source that a line's results meet, and rows of results that they add to.
struct MetRows {
  explicit MetRows(const TapLine& line)
      : most_live(std::max<int64_t>(1, CeilDiv(line.num_taps, line.stride))),
        steps(line.count + most_live - 1) {
    const int64_t end =
        std::min(line.num_sources, line.origin + (line.count - 1) * line.stride + line.num_taps);
    for (int64_t step = 0; step < steps; ++step) {
      for (int64_t p = 0; p < std::min(line.stride, line.num_taps); ++p) {
        const int64_t row = line.origin + step * line.stride + p;
        if (row < 0 || row >= end) continue;
        ++sources;
        results += std::min(CeilDiv(line.num_taps - p, line.stride), step + 1);
      }
    }
  }

  int64_t most_live, steps;
  int64_t sources = 0, results = 0;
};

}  // namespace

double PlanesCycles(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const Numbers numbers(problem);
  const bool wide = HasWideVectors(kernels), nhwc = problem.data_format == DataFormat::kNHWC;
  const PlanesCosts& costs = wide ? kPlanesOfWide : kPlanesOfNarrow;
  const Dimension rows = Dimension::Rows(g, numbers.forward);
  const Dimension cols = Dimension::Cols(g, numbers.forward);
  const int64_t phases = numbers.forward ? 1 : std::min(cols.stride, cols.in);
  const int64_t width = CeilDiv(cols.num_results(), phases);
  const bool f64 = problem.dtype == DType::kFloat64;
  const int64_t lanes = f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  const int64_t least = f64 ? kLeastPlaneWidth<double> : kLeastPlaneWidth<float>;
  const int64_t terms = g.kernel_w * (numbers.forward ? 1 : g.group_out_c);  // of all phases
  const double parted_more = nhwc && numbers.of_16_bits ? kPartedOf16 : 1;
  double plane = 0;
  for (const TapLine& line : LinesOf(rows, {0, rows.num_results()}, {0, rows.num_sources()})) {
    const MetRows met(line);
    const PlaneVectors of_row(width, lanes, least, met.most_live, wide);
    const double added = static_cast<double>(met.results * terms * of_row.vectors);
    const double weights = static_cast<double>(met.results * terms * of_row.tiles);
    const double loaded = static_cast<double>(met.sources * terms * of_row.vectors);
    // Those of 3x3 stay in registers, where there are many.
    const bool kept = wide && met.most_live == 3 && terms == 3 && line.stride == 1;
    plane += costs.added * added + costs.loaded * (loaded + (kept ? 0 : weights)) +
             costs.step * static_cast<double>(met.steps * phases * of_row.vectors) +
             costs.call * static_cast<double>(phases * of_row.tiles);
  }
  const double planes = static_cast<double>(g.batch * (numbers.forward ? g.out_c : g.in_c));
  return planes * plane + numbers.sources * (nhwc ? costs.parted * parted_more : costs.copied) +
         (nhwc || phases > 1 ? numbers.results * costs.merged * parted_more : 0) +
         numbers.from_memory * costs.from_memory;
}

double DirectCycles(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const Numbers numbers(problem);
  const DirectCosts& costs = HasWideVectors(kernels) ? kDirectOfWide : kDirectOfNarrow;
  const DepthwiseDataCut cut(problem, kernels, 1);
  const RowTiles row(cut);
  const int64_t channels = cut.by_plane ? g.batch * g.in_c : g.in_c;
  const double vectors =
      static_cast<double>(cut.num_images * CeilDiv(cut.ResultSize(channels), cut.lanes));
  const double tap_rows = static_cast<double>(MetTaps(cut.rows));
  const double sums = vectors * (tap_rows * (costs.added * static_cast<double>(row.terms) +
                                             costs.segment * static_cast<double>(row.segments)) +
                                 costs.tile * static_cast<double>(cut.rows.num_results()) *
                                     static_cast<double>(row.tiles));
  const double packed = numbers.sources * static_cast<double>(numbers.forward ? cut.multiplier : 1);
  if (problem.data_format == DataFormat::kNCHW) {
    const bool parts = !numbers.forward && cut.multiplier > 1;
    return sums + packed * (costs.transposed + (parts ? costs.parted_planes : 0)) +
           numbers.results * costs.stored + numbers.from_memory * costs.from_memory;
  }
  if (cut.by_plane) {
    return sums + (numbers.sources + numbers.results) * costs.gathered *
                      (numbers.of_16_bits ? kGatheredOf16 : 1);
  }
  double cycles = sums + numbers.results * costs.in_order;
  if (!cut.source_in_place) cycles += packed * (numbers.forward ? costs.repeated : costs.parted);
  if (cut.ResultSize(channels) < cut.lanes) {
    const double pixels = numbers.results / static_cast<double>(cut.result.c);
    cycles += pixels * (numbers.of_16_bits ? kPartStoredOf16 : costs.part_stored);
  }
  if (row.apart) cycles += static_cast<double>(g.batch * g.out_h * g.out_w) * costs.apart;
  return cycles;
}

}  // namespace convgrad
