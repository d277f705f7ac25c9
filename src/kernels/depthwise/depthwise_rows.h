// Depthwise kernels that make all rows of results in one call, on channels-innermost data; see
// depthwise.h.
#pragma once

#include <cstdint>

namespace convgrad {

// Rows of the filter, and taps of each, but for rows in turn.
inline constexpr int64_t kRowsTaps = 3;

// Columns of results that are worth such a call.
inline constexpr int64_t kLeastRowsColumns = 4;

// Taps of a row, in turn, at most.
inline constexpr int64_t kMostTapsInTurn = 64;

// Results (r, t) for r < count_rows, t < count; each is one chain over the taps that are on the
// source, rows of the source ascending, in a row columns ascending. Steps are in elements, and may
// be negative.
//
// Forward: tap (i, k) reads row first_row + r * stride + i and column origin + t * stride + k; only
// the first and the last column of all may be off the source.
//
// Spread, the input gradient with stride 2: with u = first_row + r, v = origin + t, tap (i, k)
// reads row (u - i) / 2 and column (v - k) / 2 where these are whole. u, v are not negative, and
// only the last column of all may be off the source, behind its end.
//
// In turn, any filter: tap (i, k), i < num_tap_rows, k < num_taps, reads row
// first_row + r * row_stride + i and column origin + t * stride + k. All may be off the source.
// There is a tap, unless there is no row of them.
//
// Vectors are read whole also where a pixel has fewer channels: what lies behind it is not used.
template <class Element>
struct DepthwiseRows {
  const Element* source;  // row 0, column 0
  int64_t source_row_step, source_stride;
  int64_t num_source_rows, num_cols;
  // Unless null, where row end_row is read instead: what is behind its last column can be read,
  // too.
  const Element* end_source;
  int64_t end_row;
  const Element* filter;
  int64_t filter_row_step, filter_stride;
  Element* out;
  int64_t out_row_step, out_stride;
  int64_t first_row, count_rows;
  int64_t origin, count;
  int64_t stride;    // forward: 1 or 2, of rows, too; spread: not read
  bool by_pairs;     // forward, stride 2: vectors of channels two by two, if there are two
  int64_t channels;  // in turn and of 16-bit types no fewer than a group has
  // In turn only.
  int64_t num_tap_rows, num_taps, row_stride;
};

}  // namespace convgrad
