// The index arithmetic of one dimension of a depthwise convolution, turned into lines that kernels
// can walk: results that are evenly spaced and read evenly spaced positions of the source, without
// dilation. Knows no memory.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/geometry.h"

namespace convgrad {

// One dimension of a geometry, and which side of it is computed from which. Forward: results are
// output positions, sources input positions. Input gradient: the other way round.
struct Dimension {
  int64_t in, out, kernel, stride, dilation, pad;
  bool forward;

  static Dimension Rows(const ConvGeometry& geometry, bool forward);
  static Dimension Cols(const ConvGeometry& geometry, bool forward);

  int64_t num_results() const { return forward ? out : in; }
  int64_t num_sources() const { return forward ? in : out; }
};

// The source positions that the results of `results` read, at most.
Range SourcesOf(const Dimension& dimension, Range results);

// At most as many sources as `num_results` neighbouring results can read, and as lie between them.
int64_t MostSources(const Dimension& dimension, int64_t num_results);

// The same dimension (forward) with a part of its taps only.
Dimension WithTaps(Dimension dimension, Range taps);

// A tap that is on the source for one result. `index` is its position among all taps of the
// result's stride phase, in canonical order.
struct PointTap {
  int64_t index, tap, source;
};
struct PointTaps {
  int64_t num_taps = 0;  // of the phase, on the source or not
  std::vector<PointTap> valid;
};
// Replaces *taps by those of result `position`.
void FindTaps(const Dimension& dimension, int64_t position, PointTaps* taps);

// The taps that the results of a dimension meet, all results together.
int64_t MetTaps(const Dimension& dimension);

// Result t (t < count) is position result_first + t * result_step. With its k-th tap (k < num_taps,
// in canonical order) it reads the line's source number u = origin + t * stride + k, which exists
// if 0 <= u < num_sources and is position source_first + u * source_step. The k-th tap is number
// tap_first + k * tap_step of the filter.
struct TapLine {
  int64_t result_first, result_step, count;
  int64_t source_first, source_step, num_sources;
  int64_t origin, stride;
  int64_t tap_first, tap_step, num_taps;
  int64_t packed_tap;  // where the line's taps begin in PackedTaps
};

// Lines that together are the results of `results`, each once; positions are absolute. Source
// positions outside `sources` (which must hold SourcesOf(results)) are never named.
std::vector<TapLine> LinesOf(const Dimension& dimension, Range results, Range sources);

// The taps of the results position, position + stride, ... of an input gradient, or of all of
// forward's, in canonical order.
std::vector<int64_t> TapsOfPhase(const Dimension& dimension, int64_t position);

// The taps of all stride phases that occur, one phase after the other, each in canonical order.
std::vector<int64_t> PackedTaps(const Dimension& dimension);

}  // namespace convgrad
