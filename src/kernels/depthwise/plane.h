// Depthwise kernels on planes: sums of the taps of one channel over rows of numbers, with lanes
// along columns, and the splitting of rows that a stride needs. They know rows, columns and taps as
// pointers and distances, and nothing of images, layouts or threads.
#pragma once

#include <cstdint>

namespace convgrad {

// The most rows of results that one row of the source may have terms of.
inline constexpr int64_t kMostLiveRows = 11;

// Columns that a row of results has at least: a vector of 16 bytes.
template <class Compute>
inline constexpr int64_t kLeastPlaneWidth = 16 / static_cast<int64_t>(sizeof(Compute));

// A row of the source that adds its terms to the `live` newest rows of results: row t begins with
// step t. Of every term it has weights for num_rows >= live rows, the newest row's first.
struct PlaneVisit {
  int64_t row;
  int64_t weights;  // those of its first term are number weights * num_terms
  int32_t num_rows;
  int16_t live;    // 0: no row, only a step that ends
  bool ends_step;  // the next visit belongs to the next step
};

// The columns [0, width) of all rows of results of some visits: out[t][col] is the chain over
// visits, then over terms, of source[row][offsets[term] + col] * the weight. One block: the chain
// is the sum.
template <class Compute>
struct PlaneRows {
  const PlaneVisit* visits;
  int64_t num_visits;
  int64_t most_live;  // the last terms of row t are added in step t + most_live - 1 or before
  const Compute* source;
  int64_t source_stride;   // between rows, in elements, as below
  const int64_t* offsets;  // every column they lead to can be read
  int64_t num_terms;
  const Compute* weights;
  bool same_weights;  // every visit's begin at number 0 and are of most_live rows
  Compute* out;
  int64_t out_stride;
  int64_t count;
  int64_t width;  // at least kLeastPlaneWidth
  // A later call will read this, fetched into the second cache meanwhile: so many lines with every
  // visit, since the machine drops most of a burst. They need not exist.
  uintptr_t next;
  int64_t lines_a_visit;
};

// Strides, and filters of this many rows and as many columns, that sum_whole takes.
inline constexpr int64_t kMostWholePlaneStride = 2;
constexpr bool IsWholePlaneFilter(int64_t size) {
  return size == 3 || size == 5 || size == 7;
}

// Planes that lie behind each other, each with a filter of its own: out[row][col] is the chain over
// the filter's rows i, then its columns j, of source[row * stride + i - pad_h][col * stride + j *
// dilation - pad_w] * weights[i * size + j]; where the source is spread, of source[(row + i -
// pad_h) / stride][(col + j - pad_w) / stride], of those that divide. What is off the plane is zero
// and may be multiplied. Before the plane, results meet fewer rows and columns of such zeros than
// the filter spans. (A dilation of rows is for the caller: rows that are as far apart are planes
// too.)
template <class Compute>
struct WholePlanes {
  const Compute* source;
  const Compute* weights;  // size * size of every plane
  Compute* out;
  int64_t count;
  int64_t size;
  int64_t stride;    // up to kMostWholePlaneStride
  int64_t dilation;  // of columns; 1 with a stride, and where results have fewer columns than lanes
  bool spread;
  int64_t source_h, source_w;
  int64_t out_h, out_w;
  int64_t source_row, out_row;      // between rows
  int64_t source_plane, out_plane;  // between planes
  int64_t pad_h, pad_w;
  // Numbers before the first plane of the source and behind the last one that may be read.
  int64_t readable_before, readable_behind;
  bool fetch_next;  // the planes behind these will be taken next, and are in no near cache
};

template <class Compute>
struct PlaneKernels {
  void (*sum_taps)(const PlaneRows<Compute>& rows);
  // Null where there are too few registers for it.
  void (*sum_whole)(const WholePlanes<Compute>& planes);
  // to[i % parts * to_stride + i / parts] = from[i] for i < count. Made for few parts.
  void (*split)(const Compute* from, Compute* to, int64_t to_stride, int64_t parts, int64_t count);
  // The inverse, count a multiple of parts: to[i] = from[i % parts * from_stride + i / parts].
  void (*merge)(const Compute* from, int64_t from_stride, Compute* to, int64_t parts,
                int64_t count);
};

}  // namespace convgrad
