// How lanes along images share out a convolution: which places are the lanes of a vector, and how
// the rows, columns and groups of channels are cut so that what is worked on stays in a cache.
#pragma once

#include <cstdint>

#include "conv/axes/tap_sum.h"
#include "conv/move/staging.h"
#include "problem/geometry.h"

namespace convgrad {

// A place is an image, or a band of an image's rows: `count` bands of `positions` positions of each
// phase's rows. A lane group is as many places as a vector has lanes.
struct Bands {
  int64_t count, positions, lane_groups;
};

// True if a thread's rows of the source, of a block of a few columns, have room.
bool CanImageLanes(const TapSum& sum);

// One call works on these: positions of rows (in a band) and columns, and groups of channels.
struct ImageLanesPart {
  int64_t lane_group, first_group, num_groups;
  int64_t col_begin, col_end, row_begin, row_end;
};

// Sizes of the parts, for compute types of `bytes` bytes.
struct ImageLanesParts {
  ImageLanesParts(const TapSum& sum, DataFormat format, int64_t lanes, int64_t bytes,
                  int num_threads);

  int64_t NumParts() const { return bands.lane_groups * num_chunks * col_blocks * row_parts; }
  ImageLanesPart PartAt(int64_t index) const;
  Range SourceCols(const ImageLanesPart& part) const;
  Range ResultCols(const ImageLanesPart& part) const;
  bool whole_images() const { return bands.count == 1; }

  AxisReach rows, cols;
  Bands bands;
  // Sums do so (sliding_rows.h): each strip of the source is read once, so scratch holds one.
  bool slides;
  int64_t groups, chunk_groups, num_chunks;  // groups of channels taken together
  int64_t col_positions, col_blocks;         // positions of columns in all, and cut into this many
  int64_t row_parts;                         // a band's positions are cut into
  int64_t strip_rows;                        // positions of rows computed and stored at a time
  int64_t source_w, result_w, result_col_step;
  int64_t source_vectors, result_vectors;  // that a part needs at most
  int64_t sliding_vectors;                 // sums that are passed from strip to strip

 private:
  int64_t ChunkGroups(const TapSum& sum, DataFormat format, int64_t vector_bytes) const;
  int64_t SlidingParts(int64_t others, int64_t num_threads) const;
};

// Where these parts are bands, positions of `sum` meet all rows of taps from now on: rows off the
// image are multiplied zeros.
ImageLanesParts CutParts(TapSum& sum, DataFormat format, int64_t lanes, int64_t bytes,
                         int num_threads);

}  // namespace convgrad
