#include "conv/depthwise/filter/cut.h"

#include <iterator>
#include <limits>

#include "conv/axes/pixel_sum.h"
#include "conv/move/stream_result.h"

namespace convgrad {
namespace {

// Block sums of a unit: most of the smallest first cache.
constexpr int64_t kSumBytes = int64_t{24} << 10;
// Fewer channels than this a unit read too few bytes of every pixel; rather fewer taps.
constexpr int64_t kLeastUnitBytes = 256;
// Threads that share pixels in narrower parts than this slow each other down (3x3 56x56x128 with
// parts of 256 bytes: twice the time).
constexpr int64_t kSharedPixelBytes = 512;
// Lines of pixels that are a multiple of 4 KiB apart share a set of the first cache, which holds
// too few of them to come back for their other half. Strips are as wide as misses that.
constexpr int64_t kLineSets = 64, kApartBytes = 960;
// Strips of input and of out_backprop together, in the second cache.
constexpr int64_t kStripBytes = int64_t{448} << 10;
// Sums of portions that wait to be folded: at most, and of all units together rather no more than.
constexpr int64_t kMostWaitingBytes = int64_t{24} << 20;
constexpr int64_t kWaitingBytes = int64_t{4} << 20;
constexpr int64_t kMostPortions = 64;  // of a part: a request to stop waits for it
constexpr int64_t kTasksPerThread = 4;

}  // namespace

FilterUnit DepthwiseFilterCut::UnitAt(int64_t index) const {
  FilterUnit unit;
  unit.col_taps = ShareOf(cols.kernel, col_groups, index % col_groups);
  index /= col_groups;
  unit.row_taps = ShareOf(rows.kernel, row_groups, index % row_groups);
  unit.channels = chunks[index / row_groups];
  return unit;
}

SpanPlace DepthwiseFilterCut::PlaceOf(const FilterUnit& unit, const PixelBlock& bounds) const {
  const Range out_rows = {bounds.row_begin, bounds.row_end};
  const Range out_cols = {bounds.col_begin, bounds.col_end};
  return {SourcesOf(WithTaps(rows, unit.row_taps), out_rows),
          SourcesOf(WithTaps(cols, unit.col_taps), out_cols), out_rows, out_cols};
}

int64_t DepthwiseFilterCut::InputPixels(const PixelBlock& bounds) const {
  const int64_t row_taps = CeilDiv(rows.kernel, row_groups);
  const int64_t col_taps = CeilDiv(cols.kernel, col_groups);
  const int64_t out_rows = bounds.row_end - bounds.row_begin;
  const int64_t in_rows =
      std::min(MostSources(WithTaps(rows, {0, row_taps}), out_rows), out_rows * row_taps);
  return in_rows * MostSources(WithTaps(cols, {0, col_taps}), bounds.col_end - bounds.col_begin);
}

int64_t DepthwiseFilterCut::StripBytes(const PixelBlock& bounds) const {
  const int64_t output_pixels =
      (bounds.row_end - bounds.row_begin) * (bounds.col_end - bounds.col_begin);
  const int64_t parts_of_pixels =
      (input_in_place ? 0 : InputPixels(bounds)) + (output_in_place ? 0 : output_pixels * parts);
  return parts_of_pixels * PartSize(chunks.widest()) * compute_bytes;
}

// The most that `num_blocks` neighbouring blocks of an image cover; only its size counts.
PixelBlock DepthwiseFilterCut::LargestSpan(int64_t num_blocks) const {
  PixelBlock largest = largest_block;
  if (largest.col_end == cols.out) {
    largest.row_end = std::min(rows.out, largest.row_end * num_blocks);
  } else if (num_blocks > 1) {  // parts of a row, which need not begin with it
    const int64_t row_blocks = blocks_of_image / rows.out;
    largest.row_end = std::min(rows.out, (num_blocks + row_blocks - 2) / row_blocks + 1);
    largest.col_end = cols.out;
  }
  return largest;
}

// Neighbouring blocks of an image, as many to a span as fit, or nearly.
std::vector<BlockSpan> DepthwiseFilterCut::SpansOf(Range portions) const {
  std::vector<BlockSpan> spans;
  const int64_t end = std::min(std::ssize(blocks), portions.end * portion_blocks);
  for (int64_t i = portions.begin * portion_blocks; i < end;) {
    const int64_t count = std::min(end, (i / blocks_of_image + 1) * blocks_of_image) - i;
    const int64_t num_spans = CeilDiv(count, blocks_of_span);
    for (int64_t span = 0; span < num_spans; ++span) {
      const Range part = ShareOf(count, num_spans, span);
      PixelBlock bounds = blocks[i + part.begin];
      for (int64_t j = i + part.begin + 1; j < i + part.end; ++j) {
        const PixelBlock block = blocks[j];
        bounds.row_end = block.row_end;
        bounds.col_begin = std::min(bounds.col_begin, block.col_begin);
        bounds.col_end = std::max(bounds.col_end, block.col_end);
      }
      spans.push_back({i + part.begin, i + part.end, bounds});
    }
    i += count;
  }
  return spans;
}

// Channels by what block sums leave room for, fewer if their strips are too large; then taps.
void DepthwiseFilterCut::ChooseUnits() {
  const int64_t unit = ChunkUnit();
  const int64_t num_taps = rows.kernel * cols.kernel;
  const int64_t least = std::max(unit, kLeastUnitBytes / element_bytes / multiplier);
  int64_t wanted = std::max(least, kSumBytes / compute_bytes / num_taps / multiplier);
  if (crowds_sets) wanted = std::min(wanted, kApartBytes / compute_bytes);
  if (input.format == DataFormat::kNCHW) wanted = unit * VectorsOfPlanes(input.plane());
  chunks = ChannelChunks(input.c, unit, wanted);
  GroupTaps();
  while (wanted > unit && StripBytes(LargestSpan(1)) > kStripBytes) {
    wanted = std::max(unit, wanted / 2);
    chunks = ChannelChunks(input.c, unit, wanted);
    GroupTaps();
  }
}

// Parts of a block are summed one after the other: only one's sums need stay in cache.
void DepthwiseFilterCut::GroupTaps() {
  const int64_t taps_at_once =
      std::max<int64_t>(1, kSumBytes / compute_bytes / PartSums(chunks.widest()));
  col_groups = CeilDiv(cols.kernel, taps_at_once);
  row_groups = CeilDiv(rows.kernel, std::max<int64_t>(1, taps_at_once / cols.kernel));
}

// More tasks when there are too few for the threads. Runs are there anyway, and blocks, where their
// sums are little beside their operands. Channels next, as long as a pixel has enough of them: they
// share no number of either operand. Then narrower chunks, and taps, which all read the same
// numbers, only for threads that would have no work.
void DepthwiseFilterCut::FillThreads(int num_threads) {
  const int64_t unit = ChunkUnit();
  const int64_t tasks = num_threads == 1 ? 1 : num_threads * kTasksPerThread;
  const int64_t least = num_threads == 1 ? 1 : 2 * num_threads;
  if (PaysToDealBlocks(num_threads)) portion_blocks = 1;
  const auto grow_chunks = [&](int64_t most_tasks, int64_t least_channels) {
    if (num_units() * num_portions() >= most_tasks) return;
    const int64_t others = num_units() / chunks.count() * num_portions();
    const int64_t wanted = RoundUp(CeilDiv(input.c, CeilDiv(most_tasks, others)), unit);
    const ChannelChunks more(input.c, unit, std::max(wanted, least_channels));
    if (more.count() <= chunks.count()) return;
    chunks = more;
    GroupTaps();
  };
  const int64_t by_caches = chunks.count();
  grow_chunks(tasks, std::max(unit, kSharedPixelBytes / element_bytes / multiplier));
  BalanceChunks(by_caches, num_threads);
  grow_chunks(least, unit);
  const auto grow_groups = [&](int64_t& groups, int64_t most) {
    const int64_t others = num_units() / groups * num_portions();
    groups = std::max(groups, std::min(most, CeilDiv(least, others)));
  };
  grow_groups(row_groups, rows.kernel);
  grow_groups(col_groups, cols.kernel);
  ChoosePortions(tasks);
}

// Single blocks are dealt where there are fewer runs of units than threads. A block's sums are
// written, and read by whoever folds them; and parts of few rows read their neighbours', so that
// runs are better where there are enough.
bool DepthwiseFilterCut::PaysToDealBlocks(int num_threads) const {
  constexpr int64_t kLittle = 4;  // of the operands' bytes: one in so many
  if (num_units() * num_runs() >= num_threads) return false;
  const int64_t sum_bytes =
      rows.kernel * cols.kernel * output.c * int64_t{sizeof(double)} * (f64 ? 2 : 1);
  const int64_t operand_bytes = kBlockTerms * (input.c + output.c) * element_bytes;
  return kLittle * 2 * sum_bytes <= operand_bytes &&
         std::ssize(blocks) * sum_bytes <= kWaitingBytes;
}

// Threads that get only a few tasks each get equally many, by the number of chunks: five tasks take
// two threads as long as six. Chunks become rather fewer, but `least`, if there were more only for
// the threads.
void DepthwiseFilterCut::BalanceChunks(int64_t least, int num_threads) {
  const int64_t others = num_units() / chunks.count() * num_portions(), count = chunks.count();
  if (num_units() * num_portions() >= int64_t{2} * num_threads * kTasksPerThread) return;
  const int64_t unit = ChunkUnit();
  const int64_t narrowest = std::max(unit, kSharedPixelBytes / element_bytes / multiplier);
  const auto try_count = [&](int64_t tried) {
    if (tried * others % num_threads != 0) return false;
    const int64_t width = RoundUp(CeilDiv(input.c, tried), unit);
    const ChannelChunks even(input.c, unit, width);
    if (width < narrowest || even.count() != tried) return false;
    chunks = even;
    GroupTaps();
    return true;
  };
  for (int64_t tried = count; tried >= least; --tried) {
    if (try_count(tried)) return;
  }
  for (int64_t tried = count + 1; tried < count + num_threads; ++tried) {
    if (try_count(tried)) return;
  }
}

// When units are known. Few parts of the portions, since a part of neighbouring ones need not cut
// images at a portion's end.
void DepthwiseFilterCut::ChoosePortions(int64_t tasks) {
  unit_size = CeilDiv(rows.kernel, row_groups) * CeilDiv(cols.kernel, col_groups) *
              TapSize(chunks.widest());
  const int64_t fold_bytes = FoldSize() * int64_t{sizeof(double)};
  portion_parts = std::min(num_portions(), CeilDiv(tasks, num_units()));
  const int64_t waiting = kWaitingBytes / (fold_bytes * num_units()) - 1;
  const int64_t most = std::min(waiting, portion_parts * kMostPortions);
  portions_at_once =
      portion_blocks == 1 ? num_portions() : std::clamp(most, portion_parts, num_portions());
  units_at_once = std::clamp<int64_t>(kMostWaitingBytes / (fold_bytes * (portions_at_once + 1)), 1,
                                      num_units());
}

// The blocks of a span, and the strips of the largest.
void DepthwiseFilterCut::MeasureStrips() {
  blocks_of_span = 1;
  while (blocks_of_span < blocks_of_image &&
         StripBytes(LargestSpan(blocks_of_span + 1)) <= kStripBytes) {
    ++blocks_of_span;
  }
  const PixelBlock largest = LargestSpan(blocks_of_span);
  const int64_t channels = chunks.widest(), input_pixels = InputPixels(largest);
  // A vector more than the strip, for pixels narrower than a vector.
  const auto size = [&](int64_t pixels, int64_t pixel_size) {
    return RoundUp(pixels * pixel_size + lanes, kLineBytes);
  };
  input_size = input_in_place ? 0 : size(input_pixels, PartSize(channels));
  output_size =
      output_in_place ? 0 : size(largest.row_end * largest.col_end, channels * multiplier);
  intermediate_size = multiplier == parts ? 0 : size(input_pixels, channels);
}

void DepthwiseFilterCut::DealPortions() {
  for (int64_t first = 0; first < num_portions(); first += portions_at_once) {
    PortionPass& pass = passes.emplace_back();
    pass.portions = {first, std::min(first + portions_at_once, num_portions())};
    const int64_t count = std::min(portion_parts, pass.portions.size());
    for (int64_t i = 0; i < count; ++i) {
      const Range part = ShareOf(pass.portions.size(), count, i);
      const Range portions = {first + part.begin, first + part.end};
      const bool is_listed = portions.begin * portion_blocks < kListedBlocks;
      pass.parts.push_back({portions, is_listed ? SpansOf(portions) : std::vector<BlockSpan>{}});
    }
  }
}

// True where the kernel of 3x3 filters reads some neighbouring lines of a pixel at a time: of
// float16, whose numbers take long to widen, where outputs that are neighbours meet the same ones.
bool DepthwiseFilterCut::ReadsLinesTogether(DType dtype, const KernelTable& kernels) const {
  const bool widens_once = cols.stride == 1 && cols.dilation == 1;
  return kernels.vector_bytes == kLineBytes && rows.kernel == 3 && cols.kernel == 3 &&
         (dtype != DType::kFloat16 || widens_once);
}

// Operands of so many bytes are fetched ahead. Neighbouring lines the last cache gives in time, and
// with stride 2 and more, where each is read less often, memory.
int64_t DepthwiseFilterCut::BytesToFetch(DType dtype, const KernelTable& kernels) const {
  constexpr int64_t kLeavesTheLastCache = int64_t{20} << 20;
  if (!ReadsLinesTogether(dtype, kernels)) return kTensorsLeaveTheCaches;
  return cols.stride == 1 ? kLeavesTheLastCache : std::numeric_limits<int64_t>::max();
}

// True where pixels whose lines share sets of the first cache are rather lost from it than copied:
// where none is met twice, neighbouring lines are read together with a stride, or pixels come from
// memory, in order, into two sets, for no more than three rows of taps.
bool DepthwiseFilterCut::ReadsCrowdedPixelsInPlace(DType dtype, const KernelTable& kernels) const {
  constexpr int64_t kOneSet = 4096;  // bytes from pixel to pixel
  const bool in_two_sets = output.c * stored_bytes % kOneSet == kOneSet / 2;
  return (rows.kernel <= rows.stride && cols.kernel <= cols.stride) ||
         (ReadsLinesTogether(dtype, kernels) && cols.stride > 1) ||
         (fetches && in_two_sets && rows.kernel <= 3);
}

// Decides which tensors are used where they lie, and in which form the kernels read them.
void DepthwiseFilterCut::ChoosePlaces(const Problem& problem, const KernelTable& kernels) {
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  stored_bytes = InfoOf(problem.dtype).bytes;
  const int64_t group = VisitFloat(problem.dtype, [&](auto tag) {
    return kernels.DepthwiseRows<typename decltype(tag)::Type>().group;
  });
  const int64_t numbers = input.batch * (input.plane() * input.c + output.plane() * output.c);
  fetches = numbers * stored_bytes >= BytesToFetch(problem.dtype, kernels);
  crowds_sets = nhwc && multiplier == 1 && stored_bytes == compute_bytes &&
                output.c * stored_bytes % (kLineSets * kernels.vector_bytes) == 0 &&
                !ReadsCrowdedPixelsInPlace(problem.dtype, kernels);
  input_in_place = nhwc && multiplier == 1 && output.c >= group && !crowds_sets;
  lanes = input_in_place ? group : f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  element_bytes = input_in_place ? stored_bytes : compute_bytes;
  output_in_place = nhwc && stored_bytes == element_bytes && output.c >= lanes && !crowds_sets;
  parts = !nhwc && input.c >= lanes ? multiplier : 1;
}

DepthwiseFilterCut::DepthwiseFilterCut(const Problem& problem, const KernelTable& kernels,
                                       int num_threads)
    : blocks(problem.geometry.batch, problem.geometry.out_h, problem.geometry.out_w) {
  const ConvGeometry& g = problem.geometry;
  rows = Dimension::Rows(g, true);
  cols = Dimension::Cols(g, true);
  input = {problem.data_format, g.batch, g.in_h, g.in_w, g.in_c};
  output = {problem.data_format, g.batch, g.out_h, g.out_w, g.out_c};
  multiplier = g.group_out_c;
  f64 = problem.dtype == DType::kFloat64;
  compute_bytes = f64 ? 8 : 4;
  ChoosePlaces(problem, kernels);
  blocks_of_image = blocks.of_image();
  const PixelBlockSize largest = LargestPixelBlock(g);
  largest_block.row_end = largest.rows;
  largest_block.col_end = largest.cols;
  ChooseUnits();
  FillThreads(num_threads);
  MeasureStrips();
  DealPortions();
}

}  // namespace convgrad
