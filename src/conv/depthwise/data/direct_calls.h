// The kernel calls that make one row of results of a depthwise forward or input gradient, from
// where sources and weights lie. Knows nothing of how the numbers came to their places.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/axes/lines.h"
#include "conv/depthwise/data/direct_cut.h"
#include "conv/depthwise/strips.h"
#include "kernels/depthwise/depthwise.h"

namespace convgrad {

// Where the numbers of a task lie. Sources: column cols->sources.begin and the first channel of
// source row i is at source + rows.SlotOf(i) * row_size, or without rows (then all of the source is
// there) at source + i * row_size, but of the last one at last_row, unless that is null.
template <class Element>
struct RowPlace {
  const ColPart* cols;
  int64_t channels;
  const Element* source;
  int64_t row_size, pixel_size;
  StripRows rows;
  const Element* last_row;
  const Element* filter;
  int64_t result_pixel_size;
};

// The call for one line. Its `out` is set when it is made, since results move on while calls stay.
template <class Element>
struct LineCall {
  DepthwiseForwardRow<Element> row;
  int64_t first_out;  // of the row's results
  std::vector<DepthwiseSegment<Element>> segments;
  std::vector<int64_t> block_ends;
};

template <class Element>
struct RowCalls {
  std::vector<LineCall<Element>> lines;
  int64_t sources_end;  // the row reads source rows before this one, or none: 0
  // Calls were found for these, and serve other rows of the same.
  const ColPart* cols = nullptr;
  int64_t channels = 0, first_tap = 0, num_taps = 0;
  const Element* first_row = nullptr;  // that they read of the source; null: they can't be moved
  const Element* filter = nullptr;
};

// Bytes of the calls that a thread keeps at most: those of all rows of a task where sources are
// packed as it goes down them, else those of one row.
int64_t CallBytes(const DepthwiseDataCut& cut);

template <class Element>
class RowCallFinder {
 public:
  RowCallFinder(const DepthwiseDataCut& cut, const RowPlace<Element>& place);

  // Replaces *calls by those of result row `row`. Those of a row with the same taps are moved.
  void Find(int64_t row, RowCalls<Element>* calls);

 private:
  const Element* FirstRow() const;
  bool HasSameTaps(const RowCalls<Element>& calls) const;
  void Move(const Element* first_row, RowCalls<Element>* calls) const;
  void FindLine(const TapLine& line, LineCall<Element>* call) const;
  void FindSegments(const TapLine& line, LineCall<Element>* call) const;
  void AddSegments(const TapLine& line, const PointTap& tap, int64_t begin, int64_t end,
                   LineCall<Element>* call) const;
  const Element* SourceRow(int64_t row) const;
  const Element* Weights(const TapLine& line, int64_t row_tap, int64_t term) const;
  // True where the terms of a line's taps lie at equal distances in the source.
  bool EvenTerms(const TapLine& line) const {
    return cut_.tap_terms() == 1 || line.source_step == place_.cols->residues;
  }

  const DepthwiseDataCut& cut_;
  const RowPlace<Element>& place_;
  int64_t taps_of_row_;  // packed
  PointTaps taps_;       // of the current row
};

}  // namespace convgrad
