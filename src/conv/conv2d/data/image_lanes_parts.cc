#include "conv/conv2d/data/image_lanes_parts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/checked.h"

namespace convgrad {
namespace {

constexpr int64_t kWindowBytes = 640 << 10;  // source rows that a strip reads
constexpr int64_t kStripBytes = 192 << 10;   // results of a strip
constexpr int64_t kPartBytes = int64_t{8} << 20;
// The channels of several groups together.
constexpr int64_t kChunkChannels = 32;
constexpr int64_t kMostPixelChannels = 128;  // that lie side by side

// The bands of which the fewest lanes are empty and the fewest rows packed twice.
Bands CutBands(const TapSum& sum, const AxisReach& rows, int64_t lanes) {
  constexpr double kPacking = 0.25;  // time of packing a row against that of computing one
  const int64_t positions = sum.row_phases.front().count;
  const double overlap =
      static_cast<double>(rows.high - rows.low) / static_cast<double>(rows.step) * kPacking;
  Bands best{};
  double least = HUGE_VAL;
  for (int64_t wanted = 1; wanted <= std::min(positions, 4 * lanes); ++wanted) {
    const int64_t size = CeilDiv(positions, wanted);
    const int64_t count = CeilDiv(positions, size);
    const int64_t lane_groups = CeilDiv(sum.batch * count, lanes);
    const double cost =
        static_cast<double>(lane_groups) * (static_cast<double>(size) + (count > 1 ? overlap : 0));
    if (cost < least) {
      least = cost;
      best = {count, size, lane_groups};
    }
  }
  return best;
}

// True if sums slide down the rows: one channel of the result, and results of a column that share
// all but one of their rows of the source.
bool SlidesDownRows(const TapSum& sum) {
  constexpr int64_t kMostRows = 5;  // of taps
  if (sum.result_c != 1 || sum.row_phases.size() != 1) return false;
  const AxisPhase& rows = sum.row_phases.front();
  const int64_t taps = static_cast<int64_t>(rows.taps.size());
  return rows.source_step == 1 && taps >= 2 && taps <= kMostRows &&
         rows.offsets.back() - rows.offsets.front() == taps - 1;
}

// Bytes of so many channels of the source that eight columns of one row of the result read, each
// number a vector.
double WindowBytes(const TapSum& sum, int64_t channels) {
  constexpr int64_t kCols = 8, kVectorBytes = 64;
  const AxisReach rows(sum.row_phases), cols(sum.col_phases);
  const int64_t window_cols = (kCols - 1) * cols.step + cols.high - cols.low + 1;
  return static_cast<double>(rows.high - rows.low + 1) * static_cast<double>(window_cols) *
         static_cast<double>(channels) * kVectorBytes;
}

}  // namespace

bool CanImageLanes(const TapSum& sum) {
  constexpr double kMostWindow = 64 << 20;
  const int64_t together = std::min(sum.groups * sum.source_c, kMostPixelChannels);
  return WindowBytes(sum, std::max(sum.source_c, together)) <= kMostWindow;
}

ImageLanesParts CutParts(TapSum& sum, DataFormat format, int64_t lanes, int64_t bytes,
                         int num_threads) {
  const ImageLanesParts parts(sum, format, lanes, bytes, num_threads);
  if (parts.whole_images()) return parts;
  for (AxisPhase& phase : sum.row_phases) {
    phase.classes = {{0, parts.bands.positions, 0, std::ssize(phase.taps)}};
  }
  return parts;
}

ImageLanesParts::ImageLanesParts(const TapSum& sum, DataFormat format, int64_t lanes, int64_t bytes,
                                 int num_threads)
    : rows(sum.row_phases),
      cols(sum.col_phases),
      bands(CutBands(sum, rows, lanes)),
      slides(SlidesDownRows(sum)),
      groups(sum.groups),
      chunk_groups(ChunkGroups(sum, format, lanes * bytes)),
      num_chunks(CeilDiv(groups, chunk_groups)),
      col_positions(sum.col_phases.front().count),
      source_w(sum.source_w),
      result_w(sum.result_w),
      result_col_step(sum.col_phases.front().step) {
  const int64_t vector_bytes = lanes * bytes;
  const int64_t row_reach = rows.high - rows.low + 1;
  const int64_t pixel_bytes = chunk_groups * sum.source_c * vector_bytes;
  const int64_t most_cols = kWindowBytes / (row_reach * pixel_bytes) - (cols.high - cols.low);
  col_blocks = CeilDiv(col_positions, std::max<int64_t>(8, most_cols / cols.step));
  const int64_t block = CeilDiv(col_positions, col_blocks);
  const int64_t block_source =
      std::min(source_w, (block - 1) * cols.step + cols.high - cols.low + 1);
  // Enough pixels in a strip for every class of them to fill tiles.
  const int64_t result_bytes = block * static_cast<int64_t>(sum.col_phases.size()) *
                               static_cast<int64_t>(sum.row_phases.size()) * chunk_groups *
                               sum.result_c * vector_bytes;
  const int64_t fitting =
      std::min(kStripBytes / result_bytes,
               (kWindowBytes / (block_source * pixel_bytes) - row_reach) / rows.step + 1);
  strip_rows =
      std::clamp<int64_t>(std::min(fitting, CeilDiv(int64_t{256}, block)), 1, bands.positions);
  const int64_t most_rows =
      std::max<int64_t>(1, (kPartBytes / (block_source * pixel_bytes) - row_reach) / rows.step);
  row_parts = CeilDiv(bands.positions, most_rows);
  const int64_t others = bands.lane_groups * num_chunks * col_blocks;
  if (slides) {
    row_parts = SlidingParts(others, num_threads);
  } else if (num_threads > 1) {
    row_parts =
        std::max(row_parts, std::min(bands.positions, CeilDiv(3 * int64_t{num_threads}, others)));
  }
  const int64_t part_rows = slides ? strip_rows : CeilDiv(bands.positions, row_parts);
  source_vectors =
      ((part_rows - 1) * rows.step + row_reach) * block_source * chunk_groups * sum.source_c;
  result_vectors = strip_rows * result_bytes / vector_bytes;
  sliding_vectors = slides ? result_bytes / vector_bytes * row_reach : 0;
}

// In NHWC the more of a pixel is copied at a time, the longer are the runs that memory is read and
// written in; as many as leave columns enough in a block, whose neighbours' it packs as well.
int64_t ImageLanesParts::ChunkGroups(const TapSum& sum, DataFormat format,
                                     int64_t vector_bytes) const {
  const int64_t group_channels = std::max(sum.source_c, sum.result_c);
  int64_t channels = kChunkChannels;
  if (format == DataFormat::kNHWC) {
    constexpr int64_t kColsOfOverlap = 8;
    const int64_t block_cols =
        std::clamp<int64_t>(kColsOfOverlap * (cols.high - cols.low), 1, sum.source_w);
    const int64_t fitting = kWindowBytes / ((rows.high - rows.low + 1) * block_cols * vector_bytes);
    channels = std::clamp(fitting, kChunkChannels, kMostPixelChannels);
  }
  return std::clamp<int64_t>(channels / group_channels, 1, sum.groups);
}

// So many that the thread with most of them is done first, though each begins with rows of taps
// that give no result.
int64_t ImageLanesParts::SlidingParts(int64_t others, int64_t num_threads) const {
  int64_t best = 1, least = std::numeric_limits<int64_t>::max();
  for (int64_t parts = 1; parts <= std::min(bands.positions, num_threads); ++parts) {
    const int64_t rows_of_part = CeilDiv(bands.positions, parts) + rows.high - rows.low;
    const int64_t rows_of_thread = CeilDiv(others * parts, num_threads) * rows_of_part;
    if (rows_of_thread < least) {
      least = rows_of_thread;
      best = parts;
    }
  }
  return best;
}

ImageLanesPart ImageLanesParts::PartAt(int64_t index) const {
  const auto next = [&](int64_t count) {
    const int64_t at = index % count;
    index /= count;
    return at;
  };
  ImageLanesPart part{};
  const int64_t row = next(row_parts), col = next(col_blocks), chunk = next(num_chunks);
  part.lane_group = index;
  part.first_group = chunk * chunk_groups;
  part.num_groups = std::min(chunk_groups, groups - part.first_group);
  part.col_begin = col_positions * col / col_blocks;
  part.col_end = col_positions * (col + 1) / col_blocks;
  part.row_begin = bands.positions * row / row_parts;
  part.row_end = bands.positions * (row + 1) / row_parts;
  return part;
}

Range ImageLanesParts::SourceCols(const ImageLanesPart& part) const {
  const Range range = cols.Of(part.col_begin, part.col_end);
  const int64_t begin = std::clamp<int64_t>(range.begin, 0, source_w);
  return {begin, std::clamp(range.end, begin, source_w)};
}

Range ImageLanesParts::ResultCols(const ImageLanesPart& part) const {
  return {part.col_begin * result_col_step, std::min(part.col_end * result_col_step, result_w)};
}

}  // namespace convgrad
