#include "conv/depthwise_filter_plan.h"

#include <numeric>

namespace convgrad {
namespace {

// Block sums of a unit: most of the smallest first cache.
constexpr int64_t kSumBytes = int64_t{24} << 10;
// Fewer channels than this a unit read too few bytes of every pixel; rather fewer taps.
constexpr int64_t kLeastUnitBytes = 256;
// Threads that share pixels in narrower parts than this slow each other down (3x3 56x56x128 with
// parts of 256 bytes: twice the time).
constexpr int64_t kSharedPixelBytes = 512;
// Planes of this many pixels are transposed fewer at a time: each is a stream.
constexpr int64_t kMediumPlane = 784;
constexpr int64_t kMediumPlaneUnitBytes = 128;
// Planes of this many pixels are streams that the machine's own prefetcher follows, one vector of
// them at a time.
constexpr int64_t kLargePlane = 2048;
// Strips of input and of out_backprop together, in the second cache.
constexpr int64_t kStripBytes = int64_t{384} << 10;
// Sums of runs that wait to be folded.
constexpr int64_t kWaitingBytes = int64_t{24} << 20;
constexpr int64_t kPiecesPerThread = 4;

}  // namespace

FilterUnit FilterPlan::UnitAt(int64_t index) const {
  FilterUnit unit;
  unit.col_taps = PartOf(cols.kernel, col_groups, index % col_groups);
  index /= col_groups;
  unit.row_taps = PartOf(rows.kernel, row_groups, index % row_groups);
  unit.channels = chunks[index / row_groups];
  return unit;
}

StripPart FilterPlan::InputPart(const FilterUnit& unit, const PixelBlock& bounds) const {
  return {bounds.image_begin, unit.channels,
          SourcesOf(WithTaps(rows, unit.row_taps), {bounds.row_begin, bounds.row_end}),
          SourcesOf(WithTaps(cols, unit.col_taps), {bounds.col_begin, bounds.col_end})};
}

StripPart FilterPlan::OutputPart(Range channels, const PixelBlock& bounds) const {
  return {bounds.image_begin,
          {channels.begin * multiplier, channels.end * multiplier},
          {bounds.row_begin, bounds.row_end},
          {bounds.col_begin, bounds.col_end}};
}

int64_t FilterPlan::InputPixels(const PixelBlock& bounds) const {
  const int64_t row_taps = CeilDiv(rows.kernel, row_groups);
  const int64_t col_taps = CeilDiv(cols.kernel, col_groups);
  const int64_t out_rows = bounds.row_end - bounds.row_begin;
  const int64_t in_rows =
      std::min(MostSources(WithTaps(rows, {0, row_taps}), out_rows), out_rows * row_taps);
  return in_rows * MostSources(WithTaps(cols, {0, col_taps}), bounds.col_end - bounds.col_begin);
}

int64_t FilterPlan::StripBytes(const PixelBlock& bounds) const {
  const int64_t output_pixels =
      (bounds.row_end - bounds.row_begin) * (bounds.col_end - bounds.col_begin);
  const int64_t pixels =
      (input_in_place ? 0 : InputPixels(bounds)) + (output_in_place ? 0 : output_pixels);
  return pixels * chunks.widest() * multiplier * compute_bytes;
}

// Neighbouring blocks of one image while their strips fit; at least one block.
std::vector<Band> FilterPlan::BandsOfRun(int64_t run) const {
  std::vector<Band> bands;
  const Range range = RunBlocks(run);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const PixelBlock& block = blocks[i];
    if (!bands.empty() && bands.back().bounds.image_end == block.image_end) {
      PixelBlock both = bands.back().bounds;
      both.row_end = block.row_end;
      both.col_begin = std::min(both.col_begin, block.col_begin);
      both.col_end = std::max(both.col_end, block.col_end);
      if (StripBytes(both) <= kStripBytes) {
        bands.back().end = i + 1;
        bands.back().bounds = both;
        continue;
      }
    }
    bands.push_back({i, i + 1, block});
  }
  return bands;
}

// Channels by what block sums leave room for, fewer if their strips are too large; then taps.
void FilterPlan::ChooseUnits() {
  const int64_t unit = CeilDiv(lanes, multiplier);
  const int64_t num_taps = rows.kernel * cols.kernel;
  const int64_t least = std::max(unit, kLeastUnitBytes / element_bytes / multiplier);
  int64_t wanted = std::max(least, kSumBytes / compute_bytes / num_taps / multiplier);
  if (input.format == DataFormat::kNCHW) {
    const int64_t few = std::max(unit, kMediumPlaneUnitBytes / compute_bytes / multiplier);
    wanted = std::min(wanted, input.plane() < kMediumPlane  ? least
                              : input.plane() < kLargePlane ? few
                                                            : unit);
  }
  chunks = ChannelChunks(input.c, unit, wanted);
  GroupTaps();
  while (wanted > unit && StripBytes(blocks[0]) > kStripBytes) {
    wanted = std::max(unit, wanted / 2);
    chunks = ChannelChunks(input.c, unit, wanted);
    GroupTaps();
  }
}

void FilterPlan::GroupTaps() {
  const int64_t taps_at_once =
      std::max<int64_t>(1, kSumBytes / compute_bytes / TapSize(chunks.widest()));
  col_groups = CeilDiv(cols.kernel, taps_at_once);
  row_groups = CeilDiv(rows.kernel, std::max<int64_t>(1, taps_at_once / cols.kernel));
}

// More pieces when there are too few for the threads. Runs are there anyway. Channels next, as long
// as a pixel has enough of them: they share no number of either operand. Then narrower chunks, and
// taps, which all read the same numbers, only for threads that would have no work.
void FilterPlan::FillThreads(int num_threads) {
  const int64_t unit = CeilDiv(lanes, multiplier);
  const int64_t pieces = num_threads == 1 ? 1 : num_threads * kPiecesPerThread;
  const int64_t least = num_threads == 1 ? 1 : 2 * num_threads;
  const auto grow_chunks = [&](int64_t most_pieces, int64_t least_channels) {
    if (num_units() * num_runs() >= most_pieces) return;
    const int64_t others = num_units() / chunks.count() * num_runs();
    const int64_t wanted = RoundUp(CeilDiv(input.c, CeilDiv(most_pieces, others)), unit);
    chunks = ChannelChunks(input.c, unit, std::max(wanted, least_channels));
    GroupTaps();
  };
  grow_chunks(pieces, std::max(unit, kSharedPixelBytes / element_bytes / multiplier));
  grow_chunks(least, unit);
  const auto grow_groups = [&](int64_t& groups, int64_t most) {
    const int64_t others = num_units() / groups * num_runs();
    groups = std::max(groups, std::min(most, CeilDiv(least, others)));
  };
  grow_groups(row_groups, rows.kernel);
  grow_groups(col_groups, cols.kernel);
  runs_at_once = std::min(num_runs(), CeilDiv(pieces, num_units()));
  units_at_once = std::clamp<int64_t>(
      kWaitingBytes / (FoldSize() * (runs_at_once + 1) * int64_t{sizeof(double)}), 1, num_units());
}

void FilterPlan::MeasureStrips() {
  const int64_t channels = chunks.widest();
  int64_t largest_part = 0;
  // Runs begin at the same places of images over and over.
  const auto next_image = std::find_if(
      blocks.begin(), blocks.end(), [](const PixelBlock& block) { return block.image_begin > 0; });
  const int64_t blocks_of_image = next_image - blocks.begin();
  const int64_t different = blocks_of_image / std::gcd(blocks_of_image, kRunBlocks);
  for (int64_t run = 0; run < std::min(different, num_runs()); ++run) {
    for (const Band& band : BandsOfRun(run)) {
      const int64_t input_pixels = InputPixels(band.bounds);
      const int64_t output_pixels = (band.bounds.row_end - band.bounds.row_begin) *
                                    (band.bounds.col_end - band.bounds.col_begin);
      largest_part = std::max(largest_part, input_pixels * channels);
      input_size = std::max(input_size, input_pixels * channels * multiplier);
      output_size = std::max(output_size, output_pixels * channels * multiplier);
    }
  }
  // A vector more than the strip, for pixels narrower than a vector.
  input_size = input_in_place ? 0 : RoundUp(input_size + lanes, int64_t{kAlignment});
  output_size = output_in_place ? 0 : RoundUp(output_size + lanes, int64_t{kAlignment});
  intermediate_size = multiplier == 1 ? 0 : RoundUp(largest_part + lanes, int64_t{kAlignment});
}

// What is used where it lies, and in which form the kernels read it.
void FilterPlan::ChoosePlaces(const Problem& problem, const KernelTable& kernels) {
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  const int64_t stored_bytes = InfoOf(problem.dtype).bytes;
  const int64_t group = VisitFloat(problem.dtype, [&](auto tag) {
    return kernels.DepthwiseRows<typename decltype(tag)::Type>().group;
  });
  input_in_place = nhwc && multiplier == 1 && output.c >= group;
  lanes = input_in_place ? group : f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  element_bytes = input_in_place ? stored_bytes : compute_bytes;
  output_in_place = nhwc && stored_bytes == element_bytes && output.c >= lanes;
}

FilterPlan::FilterPlan(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const ConvGeometry& g = problem.geometry;
  rows = Dimension::Rows(g, true);
  cols = Dimension::Cols(g, true);
  input = {problem.data_format, g.batch, g.in_h, g.in_w, g.in_c};
  output = {problem.data_format, g.batch, g.out_h, g.out_w, g.out_c};
  multiplier = g.group_out_c;
  f64 = problem.dtype == DType::kFloat64;
  compute_bytes = f64 ? 8 : 4;
  ChoosePlaces(problem, kernels);
  fetch_ahead = input.format == DataFormat::kNHWC || input.plane() < kLargePlane;
  blocks = PixelBlocks(g.batch, g.out_h, g.out_w);
  ChooseUnits();
  FillThreads(num_threads);
  MeasureStrips();
}

}  // namespace convgrad
