// Depthwise kernels on channels-innermost data: one row of outputs, or the part one row of
// out_backprop has in a filter gradient. Lanes run along channels; they know rows, columns and taps
// as pointers, strides and ranges, and nothing of images, layouts or threads.
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace convgrad {

// Longer rows of taps are cut into segments of at most this many.
inline constexpr int64_t kMaxSegmentTaps = 7;

// Taps of the first segment of a row of so many, which is cut into nearly equal ones: sums of few
// taps wait for each other.
constexpr int64_t SegmentTaps(int64_t row_taps) {
  const int64_t num_segments = (row_taps + kMaxSegmentTaps - 1) / kMaxSegmentTaps;
  return (row_taps + num_segments - 1) / num_segments;
}

// Element is float or double, or a 16-bit type, whose numbers are widened as they are loaded.

// Consecutive taps of one row of the filter over one row of the source. Tap k of output t reads
// column origin + t * stride + k * dilation; off the row [0, num_cols) it has no term.
template <class Element>
struct DepthwiseSegment {
  const Element* source;       // column 0 of the row
  ComputeType<Element>* sums;  // filter gradient: the sums of the first tap
  const Element* filter;       // forward: the weights of the first tap
  int64_t origin;
  int64_t num_taps;  // 1 to kMaxSegmentTaps
};

// Rows that a later call will read, to be fetched into the second cache meanwhile: column 0 of
// each.
template <class Element>
struct DepthwiseNextRows {
  static constexpr int64_t kMost = 2;
  const Element* rows[kMost];
  int64_t count;
};

// out[t] = sum over blocks of the chain over a block's segments, in order, for t < count. The input
// gradient is the same with out_backprop as source and taps that descend. Strides are in elements.
template <class Element>
struct DepthwiseForwardRow {
  const DepthwiseSegment<Element>* segments;
  const int64_t* block_ends;  // positions in `segments` behind the last one of every block
  int64_t num_blocks;         // of a 16-bit type: 1
  Element* out;
  int64_t out_stride;  // between outputs
  int64_t count;
  int64_t source_stride;  // between columns
  int64_t num_cols;
  int64_t filter_stride;  // between taps
  int64_t stride;         // in columns; the dilation is 1
  // No fewer than a group has, of a 16-bit type; else they may be fewer if whole vectors of the
  // source can be read.
  int64_t channels;
  bool round_to_odd;  // results will be rounded again to 16 bits
  // Written around the caches: results are whole lines, and there is one block.
  bool stream;
  DepthwiseNextRows<Element> next;
};

// Lines of memory that later calls will read, fetched into the second cache meanwhile, a few with
// every vector of outputs: the machine drops most of a burst. They need not exist.
struct LinesAhead {
  // Runs of neighbouring lines, `distance` bytes from the beginning of one to that of the next.
  struct Part {
    uintptr_t begin;
    int64_t num_runs, run_lines, distance;
  };
  static constexpr int64_t kMostParts = 2;
  static constexpr int64_t kLineBytes = 64;

  Part parts[kMostParts];  // what is left of them; none begins empty
  int64_t num_parts;
  int64_t at_once;     // with every vector
  int64_t part, line;  // the next line, of the part's first run
};

// sums[k] += source[origin + t * stride + k * dilation] * out_backprop[t] for t in [0, count), in
// order, and then the same with the rows that lie behind those by the row steps. The sums of a tap
// are whole groups: group v holds channels from v * group on, but the last one the last `group`
// channels.
template <class Element>
struct DepthwiseGradientRows {
  const DepthwiseSegment<Element>* segments;
  int64_t num_segments;
  int64_t num_rows;
  int64_t source_row_step, out_backprop_row_step;
  const Element* out_backprop;
  int64_t out_backprop_stride;  // between outputs
  int64_t count;
  int64_t source_stride;  // between columns
  int64_t num_cols;
  int64_t sums_stride;  // between taps
  int64_t stride, dilation;
  int64_t channels;   // as above
  int64_t source_at;  // from where the segments' sources are said to be to where they are
  // Those of the first row; those of the others lie behind them by the row steps.
  DepthwiseNextRows<Element> next;               // of the source
  DepthwiseNextRows<Element> next_out_backprop;  // column 0: output 0
  LinesAhead* ahead;                             // or null
};

// Several such groups of rows, one after the other, which differ in their numbers of rows, operands
// and segments alone, and then the same of further images. What they fetch ahead goes with every
// image.
template <class Element>
struct DepthwiseGradientImages {
  const DepthwiseGradientRows<Element>* groups;
  int64_t num_groups, num_images;
  int64_t source_at, out_backprop_at;      // of the first image, behind what the groups say
  int64_t source_step, out_backprop_step;  // from image to image
};

template <class Element>
struct DepthwiseRows;  // depthwise_rows.h

template <class Element>
struct DepthwiseRowKernels {
  int64_t group;  // channels that are taken at a time
  int64_t parts;  // sums of a group: channel i of it is at i % parts * (group / parts) + i / parts
  void (*forward)(const DepthwiseForwardRow<Element>& row);
  void (*gradient)(const DepthwiseGradientImages<Element>& images);
  // All rows of results of a 3x3 filter, forward and spread; both null where there are none.
  void (*forward_rows)(const DepthwiseRows<Element>& rows);
  void (*spread_rows)(const DepthwiseRows<Element>& rows);
  // Rows in turn; null where registers are many, and of bfloat16.
  void (*rows_in_turn)(const DepthwiseRows<Element>& rows);
};

// The steps between rows, by the compute type.
template <class Compute>
struct DepthwiseKernels {
  int64_t lanes;  // of one vector

  // to[i * multiplier + m] = from[i] for i < count.
  void (*repeat)(const Compute* from, Compute* to, int64_t count, int64_t multiplier);
  // to[pixel][m][c] = from[pixel][c * multiplier + m].
  void (*part)(const Compute* from, Compute* to, int64_t pixels, int64_t channels,
               int64_t multiplier);

  // Folding of the sums of blocks into a run's, of a run's into the total's, and the end. `error`
  // is used for double only. Counts are whole vectors.
  void (*fold_block)(Compute* sums, double* sum, double* error, int64_t count);  // zeroes `sums`
  void (*fold_run)(const double* run_sum, const double* run_error, double* sum, double* error,
                   int64_t count);
  void (*finish)(const double* sum, const double* error, Compute* to, int64_t count,
                 bool round_to_odd);
  // The end of what one block has: a sum of -0 becomes +0, as in every fold.
  void (*finish_block)(Compute* sums, int64_t count);
};

}  // namespace convgrad
