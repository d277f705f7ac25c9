// How a depthwise forward or input gradient is dealt out: images or planes, chunks of channels,
// parts of rows and columns, and the memory a thread needs. Knows no kernels but their
// vectors' width.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "conv/axes/lines.h"
#include "conv/depthwise/chunks.h"
#include "conv/depthwise/strips.h"
#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

// Columns of results that are computed together, the source columns they read, and their lines.
struct ColPart {
  Range results, sources;  // where the source is in place, all of its columns
  std::vector<TapLine> lines;
  // Source columns that are so far apart lie next to each other in a strip, those of the first
  // column before those of the second; 1: they lie in order.
  int64_t residues;

  // Where source column sources.begin + `offset` lies, for the first one of a residue.
  int64_t PlaceOf(int64_t offset) const;
};

// The task that is dealt to a thread.
struct DataTask {
  int64_t image;  // 0 by plane
  Range channels, rows;
  int64_t row_part, col_part;
};

// The tasks, how they are dealt out, and how much memory a thread needs.
struct DepthwiseDataCut {
  DepthwiseDataCut(const Problem& problem, const KernelTable& kernels, int num_threads);

  bool forward;
  Dimension rows, cols;
  DataLayout source, result;
  int64_t multiplier;
  int64_t stored_bytes;
  int64_t element_bytes;  // of what the kernels read: of the compute type, or stored
  int64_t lanes;          // channels that the kernels take at a time
  bool source_in_place, result_in_place;
  // In place, and of fewer channels than a vector: a vector reads what is behind its pixel, for
  // which the filter, and the last row of the source, are copied.
  bool narrow_pixels;
  bool copies_pixels;  // of NHWC, part by part: where they lie they crowd sets of the first cache
  // Planes of all images are dealt out like channels: NCHW, and images with too few channels.
  bool by_plane;
  int64_t num_images;  // 1 by plane
  ChannelChunks chunks;
  int64_t row_parts, col_parts;
  int64_t waiting_rows;          // of results that are stored together, where not in place
  bool all_rows;                 // one kernel call makes all rows of results of a task
  bool rows_in_turn;             // one after the other
  bool by_pairs;                 // of vectors of channels, where one call makes all rows
  bool streams;                  // results are written around the caches
  bool streams_rows;             // by rows, which a thread makes in memory of its own
  bool fetches;                  // sources in place are fetched ahead: they are in no near cache
  std::vector<ColPart> cols_of;  // each part of columns
  // Each part of rows, where one call makes all.
  std::vector<std::vector<TapLine>> rows_of;
  std::vector<int64_t> packed_taps;  // columns of the filter, as strips need them
  // Chunks of an image, where those of the same channels of all images follow each other; else 0.
  int64_t chunks_of_image;

  int64_t num_channels() const { return forward ? source.c : result.c; }  // of the input
  // Terms of one tap, which lie side by side in the source.
  int64_t tap_terms() const { return forward ? 1 : multiplier; }
  int64_t SourceSize(int64_t channels) const { return channels * multiplier; }
  int64_t ResultSize(int64_t channels) const { return forward ? channels * multiplier : channels; }
  // Source rows that so many neighbouring rows of results read, at most.
  int64_t SourceRows(int64_t result_rows) const;
  // Segments of a line's terms of one row of the filter.
  int64_t RowSegments(const ColPart& part, const TapLine& line) const;
  // Rows of results so far apart have the same taps, if strides are not long: those of a phase, but
  // for taps off the source, or, where most of a few rows have such taps, those of the next image.
  int64_t RowsApart() const {
    constexpr int64_t kMostPhases = 4, kSomeImages = 8, kFewRows = 32;
    const int64_t num_rows = rows.num_results(), phases = forward ? 1 : rows.stride;
    const bool of_images =
        num_images >= kSomeImages && num_rows <= std::min(2 * rows.kernel, kFewRows);
    return of_images ? num_rows : std::min(phases, kMostPhases);
  }
  int64_t num_tasks() const { return num_images * chunks.count() * row_parts * col_parts; }
  DataTask TaskAt(int64_t index) const;

  // Elements, for the largest task.
  int64_t filter_size = 0, strip_size = 0, intermediate_size = 0, out_size = 0;
  int64_t worker_bytes() const {
    return (filter_size + strip_size + intermediate_size + out_size) * element_bytes;
  }
  // The copies that narrow pixels need, each with a vector behind it: of the filter, and of a row
  // of the source.
  int64_t CopiedFilter() const { return rows.kernel * cols.kernel * result.c + lanes; }
  int64_t CopiedRow() const { return source.w * source.c + lanes; }
  int64_t shared_bytes() const {
    return narrow_pixels ? (CopiedFilter() + CopiedRow()) * element_bytes : 0;
  }

 private:
  int64_t ChunkUnit() const { return forward ? ChannelsOfVectors(lanes, multiplier) : lanes; }
  void ChoosePlaces(const Problem& problem, const KernelTable& kernels);
  bool PixelsShare(int64_t bytes) const { return source.c * stored_bytes % bytes == 0; }
  bool GoesDownCrowdedPixels(const KernelTable& kernels) const;
  bool PixelsCrowd(const KernelTable& kernels) const;
  int64_t SourceCols(int64_t result_cols) const;
  int64_t StripSize(int64_t result_rows, int64_t result_cols) const;
  void ChooseChunks(int64_t num_channels);
  void CutPixels();
  void FillThreads(int64_t num_channels, int num_threads);
  int64_t TensorBytes() const;
  bool StreamsResult(int num_threads) const;
  bool StreamsRows(const KernelTable& kernels, int num_threads) const;
  bool MakesAllRows(const Problem& problem, const KernelTable& kernels, int num_threads) const;
  int64_t PartsOfCrowdedRows() const;
  bool TakesPairs(const KernelTable& kernels, int num_threads) const;
  bool TakesRowsInTurn(const Problem& problem, const KernelTable& kernels) const;
  bool TakesPartsOfPixels() const;
  void ShareChannels(int64_t num_channels, int64_t num_threads, int64_t wanted);
  int64_t ChunksOfImage() const;
  int64_t ResiduesOf(const std::vector<TapLine>& lines) const;
  void FindCols();
  void MeasureWorker();
};

}  // namespace convgrad
