// This file chooses what a depthwise forward or input gradient reads and writes where it lies, in
// which order it makes its rows, and what goes around the caches.
#include <algorithm>
#include <numeric>

#include "conv/depthwise/data/direct_cut.h"
#include "conv/depthwise/data/direct_rows.h"
#include "conv/move/stream_result.h"
#include "kernels/depthwise/depthwise.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

constexpr int64_t kGatherTerms = 12;
// Bytes from pixel to pixel of which all lines share so many sets of the first cache.
constexpr int64_t kOneSet = 4096, kTwoSets = 2048, kFourSets = 1024, kEightSets = 512;
// Vectors of fewer bytes are written through the caches.
constexpr int64_t kLeastStreamed = 16;

// True if caches that keep so many bytes for a thread, and a few more for several, lose lines of
// operands and results between the writes of a line's parts.
bool LoseParts(int64_t bytes, int64_t kept, int num_threads) {
  constexpr int64_t kOfThreads = int64_t{4} << 20;
  return bytes >= kept + (num_threads == 1 ? 0 : kOfThreads);
}

// True of first caches whose sets have eight lines or fewer.
bool SetsAreSmall(const KernelTable& kernels) {
  return kernels.first_cache_bytes <= 8 * kOneSet;
}

}  // namespace

// Row by row, a tile of 3x3 reads 27 lines, two thirds of which the next row of results reads
// again: where two small sets have no room for them, each comes from the second cache three times.
// Down the rows each comes once.
bool DepthwiseDataCut::GoesDownCrowdedPixels(const KernelTable& kernels) const {
  return SetsAreSmall(kernels) && kernels.vector_bytes >= kLineBytes && rows.stride == 1 &&
         cols.stride == 1 && CanMakeAllRows(rows, cols);
}

// The first cache holds few pixels that lie a large power of two apart, because their lines share
// sets of it, and what neighbouring tiles and rows of results read again comes from the second one.
// Copying pixels costs less if many rows of results read each, the fewer sets the fewer rows, and
// the fewer, too, where pixels lie too far apart for the machine to fetch them by itself; and if
// strides leave each of them several terms.
bool DepthwiseDataCut::PixelsCrowd(const KernelTable& kernels) const {
  constexpr int64_t kFetchedApart = 2048, kLeastTaps = 5;
  const int64_t sets = kOneSet / std::gcd(source.c * stored_bytes, kOneSet);
  const bool widened = stored_bytes < element_bytes;
  const bool few_taps = rows.kernel * cols.kernel < kLeastTaps * rows.stride * cols.stride;
  if (sets > (widened ? 1 : 4) || few_taps || GoesDownCrowdedPixels(kernels)) return false;
  double least = sets < 4 ? 3.5 : source.c * stored_bytes > kFetchedApart ? 5 : 7;
  if (sets == 1 && widened) least = 4;
  if (sets == 1 && !widened && TensorBytes() < kTensorsLeaveTheCaches) least = 3;
  if (sets == 1 && !widened && rows.stride > 1 && SetsAreSmall(kernels)) least = 2.5;
  return static_cast<double>(rows.kernel) >= least * static_cast<double>(rows.stride);
}

// Decides which tensors are used where they lie, and in which form the kernels read them.
void DepthwiseDataCut::ChoosePlaces(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const bool f64 = problem.dtype == DType::kFloat64;
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  const int64_t taps = g.kernel_h * g.kernel_w;
  const int64_t group = VisitFloat(problem.dtype, [&](auto tag) {
    return kernels.DepthwiseRows<typename decltype(tag)::Type>().group;
  });
  stored_bytes = InfoOf(problem.dtype).bytes;
  element_bytes = f64 ? 8 : 4;
  lanes = f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  const bool widened = stored_bytes < element_bytes;
  by_plane = result_in_place = source_in_place = narrow_pixels = copies_pixels = false;
  // Two channels are worth a vector that is not widened. It reads what is behind them: of the last
  // row but one no more than the last row has, which is copied.
  const bool is_narrow = g.in_c < group;
  const bool may_read_on = g.in_c >= 2 && (source.w + 1) * g.in_c >= group;
  const bool fits = widened ? !is_narrow && taps <= kBlockTerms : !is_narrow || may_read_on;
  if (nhwc && multiplier == 1 && fits) {
    copies_pixels = PixelsCrowd(kernels);
    source_in_place = !copies_pixels;
    narrow_pixels = source_in_place && is_narrow;
    result_in_place = !copies_pixels || !widened;
    if (source_in_place) {
      element_bytes = stored_bytes;
      lanes = group;
    }
    return;
  }
  // Putting images side by side takes about as long as kGatherTerms terms a channel.
  const bool side_by_side = g.in_c < lanes && g.batch > 1 && (multiplier == 1 || !forward) &&
                            (g.in_c == 1 || taps * multiplier > kGatherTerms * g.in_c);
  by_plane = !nhwc || side_by_side;
  result_in_place = !by_plane && !widened;
}

int64_t DepthwiseDataCut::TensorBytes() const {
  const auto numbers = [](const DataLayout& of) { return of.batch * of.plane() * of.c; };
  return (numbers(source) + numbers(result)) * stored_bytes;
}

// Not of tensors so large that their lines are no longer found in the third cache, or, where that
// is far, in the second one, since what is far is best read row by row, as the machine fetches it
// ahead by itself; of several threads larger ones, which read more at a time. Nor where vectors of
// whole lines share two sets of the first cache, in which a column down the rows has no room;
// forward with a stride, most columns are read once and few are written. Two small sets keep
// nothing in either order: there also of larger tensors, of one set of any. Shorter vectors read
// every line several times in either order, and write it in parts. Numbers that are widened,
// without a stride, take longer than their lines, of which half as many again may be far.
bool DepthwiseDataCut::MakesAllRows(const Problem& problem, const KernelTable& kernels,
                                    int num_threads) const {
  const bool has_kernel = VisitFloat(problem.dtype, [&](auto tag) {
    return kernels.DepthwiseRows<typename decltype(tag)::Type>().forward_rows != nullptr;
  });
  if (!has_kernel || !source_in_place || !result_in_place || !CanMakeAllRows(rows, cols)) {
    return false;
  }
  constexpr int64_t kMostDownRows = int64_t{10} << 20, kMostSmallSets = int64_t{28} << 20;
  const int64_t bytes = TensorBytes();
  if (kernels.vector_bytes < kLineBytes) return !LoseParts(bytes, kMostDownRows, num_threads);
  if (PixelsShare(kTwoSets) && !(forward && cols.stride > 1) && !GoesDownCrowdedPixels(kernels)) {
    return false;
  }
  if (PixelsShare(kTwoSets) && SetsAreSmall(kernels)) {
    return PixelsShare(kOneSet) || bytes < kMostSmallSets;
  }
  const int64_t near = kernels.near_bytes * num_threads;
  const bool takes_long = stored_bytes < int64_t{sizeof(float)} && cols.stride == 1;
  return CachesHold(bytes, num_threads) && bytes < (takes_long ? near * 3 / 2 : near);
}

// Every line of a tile is on a page of its own, and the next vector of channels meets these again:
// a call goes down as many rows as leave their places known to the machine, and what it fetches
// beside a line in the second cache.
int64_t DepthwiseDataCut::PartsOfCrowdedRows() const {
  constexpr int64_t kMostPixels = 512;
  if (!all_rows || rows_in_turn || !PixelsShare(kTwoSets)) return 1;
  const int64_t part_sources = std::max(kMostPixels / source.w, 4 * rows.stride);
  return CeilDiv(rows.num_sources(), part_sources);
}

// Small sets that pixels share take their lines one by one. With a stride, which leaves each line
// little to compute, that takes longer than two lines of each pixel, of which tiles have fewer
// columns; but what comes from memory comes best from many pixels at a time.
bool DepthwiseDataCut::TakesPairs(const KernelTable& kernels, int num_threads) const {
  return all_rows && !rows_in_turn && forward && cols.stride > 1 && PixelsShare(kFourSets) &&
         SetsAreSmall(kernels) && kernels.vector_bytes >= kLineBytes &&
         stored_bytes >= int64_t{sizeof(float)} && CachesHold(TensorBytes(), num_threads);
}

// Rows are taken in turn wherever there is a kernel for it and nothing need be fetched, unless
// another way is faster: down the rows of 3x3, without a stride, where each vector of the source
// meets many sums, or of channels so few that the first cache keeps them; or along each row, of
// taps so many that loading what they share pays, where columns are more than two tiles have, or
// their numbers have to be widened, and pixels lie in more than eight sets of the first cache,
// which else would lose the second half of a line.
bool DepthwiseDataCut::TakesRowsInTurn(const Problem& problem, const KernelTable& kernels) const {
  constexpr int64_t kTwoTiles = 14;
  const bool has_kernel = VisitFloat(problem.dtype, [&](auto tag) {
    return kernels.DepthwiseRows<typename decltype(tag)::Type>().rows_in_turn != nullptr;
  });
  const int64_t least_vectors = forward ? 2 : 12;
  const bool down =
      CanMakeAllRows(rows, cols) && (cols.stride == 1 || chunks.widest() < least_vectors * lanes);
  const bool is_widened = stored_bytes < int64_t{sizeof(float)};
  const bool along = rows.kernel > 1 && cols.stride == 1 && cols.dilation == 1 &&
                     SegmentTaps(cols.kernel) == kMaxSegmentTaps &&
                     (cols.num_results() > kTwoTiles || is_widened) && !PixelsShare(kEightSets);
  return has_kernel && source_in_place && !narrow_pixels && result_in_place &&
         (PixelsShare(kOneSet) || (!fetches && !down && !along)) && CanTakeRowsInTurn(rows, cols);
}

// Rows one by one read as many rows of the source as the filter has, which all channels push out of
// the first cache: parts of pixels don't. Smaller filters read few, larger ones several segments of
// each, and with a stride most columns are read once.
bool DepthwiseDataCut::TakesPartsOfPixels() const {
  return source_in_place && !narrow_pixels && !all_rows && rows.kernel == kMaxSegmentTaps &&
         cols.kernel == kMaxSegmentTaps && rows.stride == 1 && cols.stride == 1;
}

// In place, where results of a task are whole lines, and sources and results together are too large
// for the caches; of several threads larger ones, since these share what memory takes around them.
bool DepthwiseDataCut::StreamsResult(int num_threads) const {
  const int64_t unit = ChunkUnit();
  const bool whole_lines =
      chunks.count() == 1 || ResultSize(unit) * element_bytes % kLineBytes == 0;
  return result_in_place && result.c * stored_bytes % kLineBytes == 0 && whole_lines &&
         lanes * element_bytes >= kLeastStreamed &&
         rows.kernel * cols.kernel * tap_terms() <= kBlockTerms &&
         LeaveTheCaches(TensorBytes(), num_threads);
}

// A row of pixels that are no whole lines is many of them together: it is written around the caches
// as one where it stays in the second cache until then. The last one is left a sixth for the rows
// of operands that come between the parts of a line.
bool DepthwiseDataCut::StreamsRows(const KernelTable& kernels, int num_threads) const {
  constexpr int64_t kMostRow = int64_t{256} << 10;
  return result.w * result.c * stored_bytes <= kMostRow && source_in_place && result_in_place &&
         result.c * stored_bytes % kLineBytes != 0 && chunks.count() == 1 && col_parts == 1 &&
         lanes * element_bytes >= kLeastStreamed &&
         LoseParts(TensorBytes(), kernels.last_cache_bytes * 5 / 6, num_threads);
}

}  // namespace convgrad
