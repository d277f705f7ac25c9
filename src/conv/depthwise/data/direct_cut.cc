#include "conv/depthwise/data/direct_cut.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/move/stream_result.h"
#include "kernels/depthwise/depthwise.h"

namespace convgrad {
namespace {

// A source strip and the rows of results made from it should stay in the second cache together.
constexpr int64_t kStripBytes = int64_t{640} << 10;
// Tasks a thread should get, for balance; and of those that make all their rows in one call.
constexpr int64_t kDirectTasksPerThread = 4, kRowsTasksPerThread = 2;
// Columns a task should keep when only columns are left to deal out.
constexpr int64_t kLeastCols = 64;
// Channels and rows that such a task should keep.
constexpr int64_t kLeastChunkBytes = 128, kLeastRows = 7;
// Bytes of a pixel that are copied at a time, where pixels in place would crowd few sets.
constexpr int64_t kCopiedBytes = 256;
// Bytes of a pixel that rows of results take, one row after the other, before the next ones: those
// of their sources, and the weights, stay in the first cache.
constexpr int64_t kRowsOfBytes = 256;
// The calls of all rows of a part are kept.
constexpr int64_t kMostPartRows = 4096;

}  // namespace

int64_t DepthwiseDataCut::SourceRows(int64_t result_rows) const {
  return std::min(MostSources(rows, result_rows), result_rows * rows.kernel);
}
int64_t DepthwiseDataCut::SourceCols(int64_t result_cols) const {
  return MostSources(cols, result_cols);
}
int64_t DepthwiseDataCut::StripSize(int64_t result_rows, int64_t result_cols) const {
  return SourceRows(result_rows) * SourceCols(result_cols) * SourceSize(chunks.widest());
}

// As many channels as let the rows that one row of results reads stay in cache; where they are
// packed, those that as many rows of results read, or most of them would be packed once more for
// the next task.
void DepthwiseDataCut::ChooseChunks(int64_t num_channels) {
  const int64_t unit = ChunkUnit();
  int64_t wanted = copies_pixels ? kCopiedBytes / element_bytes : num_channels;
  if (by_plane) wanted = std::min(wanted, VectorsOfPlanes(source.plane()) * unit);
  chunks = ChannelChunks(num_channels, unit, wanted);
  // In NHWC by plane every chunk reads the same lines: rather cut columns.
  if (by_plane && source.format == DataFormat::kNHWC) return;
  const int64_t num_rows = source_in_place ? 1 : std::min(rows.num_results(), SourceRows(1));
  while (wanted > unit && StripSize(num_rows, cols.num_results()) * element_bytes > kStripBytes) {
    wanted = std::max(unit, RoundUp(wanted / 2, unit));
    chunks = ChannelChunks(num_channels, unit, wanted);
  }
}

void DepthwiseDataCut::CutPixels() {
  row_parts = col_parts = 1;
  if (source_in_place && result_in_place) return;
  const int64_t num_cols = cols.num_results(), num_rows = rows.num_results();
  // In NHWC by plane, where packing is dear, parts have rows enough to share most source rows.
  const bool gathered = by_plane && source.format == DataFormat::kNHWC;
  const int64_t least_rows = gathered ? std::min(num_rows, 4 * rows.kernel) : 1;
  const int64_t least_cols = gathered ? kLeastCols / 4 : kLeastCols;
  int64_t part_cols = num_cols;
  while (part_cols > least_cols && StripSize(least_rows, part_cols) * element_bytes > kStripBytes) {
    part_cols = CeilDiv(part_cols, 2);
  }
  col_parts = CeilDiv(num_cols, part_cols);
  // As many rows as fit; by halving, since there may be millions of one column each.
  int64_t part_rows = 1, most_rows = std::min(num_rows, kMostPartRows);
  while (part_rows < most_rows) {
    const int64_t tried = part_rows + (most_rows - part_rows + 1) / 2;
    if (StripSize(tried, part_cols) * element_bytes <= kStripBytes) {
      part_rows = tried;
    } else {
      most_rows = tried - 1;
    }
  }
  row_parts = CeilDiv(num_rows, part_rows);
}

// Chunks for tasks that make all their rows in one call, equally many for each thread.
void DepthwiseDataCut::ShareChannels(int64_t num_channels, int64_t num_threads, int64_t wanted) {
  const int64_t unit = ChunkUnit(), units = num_channels / unit;
  const int64_t least = std::max<int64_t>(1, kLeastChunkBytes / (unit * element_bytes));
  int64_t count = std::clamp<int64_t>(units / least, 1, CeilDiv(wanted, num_images));
  if (count > num_threads) count -= count % num_threads;
  chunks = ChannelChunks(num_channels, unit, CeilDiv(units, count) * unit);
}

// More tasks when there are too few for the threads: first rows, then channels, then columns. Where
// one call makes all rows channels come first, since every part of the rows takes as long as if it
// had one more.
void DepthwiseDataCut::FillThreads(int64_t num_channels, int num_threads) {
  const int64_t wanted_of_thread = all_rows ? kRowsTasksPerThread : kDirectTasksPerThread;
  const int64_t wanted = num_threads == 1 ? 1 : num_threads * wanted_of_thread;
  const auto grow = [&](int64_t& count, int64_t most) {
    if (num_tasks() < wanted) {
      count = std::max(count, std::min(most, CeilDiv(wanted, num_tasks() / count)));
    }
  };
  if (all_rows) {
    ShareChannels(num_channels, num_threads, wanted);
    grow(row_parts, rows.num_results() / kLeastRows);
    if (num_tasks() >= num_threads) return;
  }
  grow(row_parts, rows.num_results());
  // Equally many for each thread, where each has only a few.
  while (num_tasks() < 2 * wanted && num_tasks() % num_threads != 0 &&
         row_parts < rows.num_results()) {
    ++row_parts;
  }
  if (num_tasks() < wanted) {
    const int64_t unit = ChunkUnit();
    const int64_t more = CeilDiv(wanted, num_images * row_parts * col_parts);
    chunks = ChannelChunks(num_channels, unit, std::max(unit, num_channels / more));
  }
  grow(col_parts, CeilDiv(cols.num_results(), kLeastCols));
}

// Where chunks of planes are alike in every image.
int64_t DepthwiseDataCut::ChunksOfImage() const {
  const int64_t size = chunks.widest(), of_image = num_channels() / size;
  const bool alike = by_plane && source.format == DataFormat::kNCHW && num_channels() % size == 0 &&
                     chunks.count() == source.batch * of_image;
  return alike ? of_image : 0;
}

// The terms of dilated taps lie at equal distances only where the columns between them lie
// elsewhere. Planes are transposed by the row, and one term a tap needs nothing of the kind.
int64_t DepthwiseDataCut::ResiduesOf(const std::vector<TapLine>& lines) const {
  if (by_plane || tap_terms() == 1 || lines.empty()) return 1;
  const int64_t step = lines[0].source_step;
  const bool alike = std::all_of(lines.begin(), lines.end(),
                                 [&](const TapLine& line) { return line.source_step == step; });
  return alike ? step : 1;
}

void DepthwiseDataCut::FindCols() {
  packed_taps = PackedTaps(cols);
  for (int64_t part = 0; part < col_parts; ++part) {
    const Range results = ShareOf(cols.num_results(), col_parts, part);
    const Range sources = source_in_place ? Range{0, cols.num_sources()} : SourcesOf(cols, results);
    std::vector<TapLine> lines = LinesOf(cols, results, sources);
    const int64_t residues = ResiduesOf(lines);
    cols_of.push_back({results, sources, std::move(lines), residues});
  }
}

int64_t ColPart::PlaceOf(int64_t offset) const {
  if (residues == 1) return offset;
  int64_t place = 0;
  for (int64_t i = 0; i < std::min(offset, sources.size()); ++i) {
    place += CeilDiv(sources.size() - i, residues);
  }
  return place;
}

int64_t DepthwiseDataCut::RowSegments(const ColPart& part, const TapLine& line) const {
  const bool even = tap_terms() == 1 || line.source_step == part.residues;
  return even ? CeilDiv(line.num_taps * tap_terms(), kMaxSegmentTaps)
              : line.num_taps * CeilDiv(tap_terms(), kMaxSegmentTaps);
}

void DepthwiseDataCut::MeasureWorker() {
  const int64_t channels = chunks.widest();
  const int64_t part_rows = CeilDiv(rows.num_results(), row_parts);
  const int64_t part_cols = CeilDiv(cols.num_results(), col_parts);
  // A vector more than the strip, for pixels narrower than a vector.
  if (!source_in_place) {
    filter_size = rows.kernel * cols.kernel * SourceSize(channels) + lanes;
    strip_size = StripSize(part_rows, part_cols) + lanes;
    if (multiplier > 1) intermediate_size = strip_size;
    if (by_plane && source.format == DataFormat::kNHWC) {
      intermediate_size = std::max(intermediate_size, channels * kGatheredPixels * source.c);
    }
  }
  // As many rows as make a whole number of transposes, if a part has so many.
  const int64_t together = PixelsTogether(result.plane());
  waiting_rows = std::min(part_rows, together / std::gcd(together, part_cols));
  if (!result_in_place) out_size = waiting_rows * part_cols * ResultSize(channels) + lanes;
  if (streams_rows) out_size = part_cols * ResultSize(channels);
  for (int64_t* size : {&filter_size, &strip_size, &intermediate_size, &out_size}) {
    *size = RoundUp(*size, static_cast<int64_t>(kAlignment));
  }
}

DataTask DepthwiseDataCut::TaskAt(int64_t index) const {
  // NHWC: chunks of the same pixels follow each other, since they share lines. NCHW: the same
  // planes of all images do if they can, since they share weights.
  const int64_t num_chunks = chunks.count(), num_parts = row_parts * col_parts;
  const bool chunks_inside = source.format == DataFormat::kNHWC;
  int64_t chunk = chunks_inside ? index % num_chunks : index / num_parts % num_chunks;
  if (chunks_of_image > 0) {
    chunk = chunk % source.batch * chunks_of_image + chunk / source.batch;
  }
  const int64_t part = chunks_inside ? index / num_chunks % num_parts : index % num_parts;
  const int64_t row_part = part / col_parts;
  return {index / (num_chunks * num_parts), chunks[chunk],
          ShareOf(rows.num_results(), row_parts, row_part), row_part, part % col_parts};
}

DepthwiseDataCut::DepthwiseDataCut(const Problem& problem, const KernelTable& kernels,
                                   int num_threads) {
  const ConvGeometry& g = problem.geometry;
  forward = InfoOf(problem.op).direction == Direction::kForward;
  rows = Dimension::Rows(g, forward);
  cols = Dimension::Cols(g, forward);
  const DataLayout input = {problem.data_format, g.batch, g.in_h, g.in_w, g.in_c};
  const DataLayout output = {problem.data_format, g.batch, g.out_h, g.out_w, g.out_c};
  source = forward ? input : output;
  result = forward ? output : input;
  multiplier = g.group_out_c;
  ChoosePlaces(problem, kernels);
  num_images = by_plane ? 1 : g.batch;
  const int64_t num_channels = by_plane ? g.batch * g.in_c : g.in_c;
  ChooseChunks(num_channels);
  CutPixels();
  fetches = TensorBytes() >= kTensorsLeaveTheCaches;
  rows_in_turn = TakesRowsInTurn(problem, kernels);
  all_rows = rows_in_turn || MakesAllRows(problem, kernels, num_threads);
  by_pairs = TakesPairs(kernels, num_threads);
  if (TakesPartsOfPixels()) {
    chunks = ChannelChunks(num_channels, ChunkUnit(), kRowsOfBytes / element_bytes);
  }
  row_parts = std::max(row_parts, PartsOfCrowdedRows());
  FillThreads(num_channels, num_threads);
  streams = !all_rows && StreamsResult(num_threads);
  streams_rows = !all_rows && StreamsRows(kernels, num_threads);
  chunks_of_image = ChunksOfImage();
  FindCols();
  for (int64_t part = 0; all_rows && part < row_parts; ++part) {
    const Range results = ShareOf(rows.num_results(), row_parts, part);
    rows_of.push_back(LinesOf(rows, results, {0, rows.num_sources()}));
  }
  MeasureWorker();
}

}  // namespace convgrad
