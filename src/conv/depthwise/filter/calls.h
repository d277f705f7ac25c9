// The kernel calls of a depthwise filter gradient that make the block sums of a unit, from where
// its operands and sums lie. Knows nothing of how the numbers came to their places.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/depthwise/filter/cut.h"
#include "conv/depthwise/strips.h"
#include "kernels/depthwise/depthwise.h"

namespace convgrad {

// A call of the kernel: the rows of a block for one part of the outputs, as they lie in an image.
template <class Element>
struct FilterCall {
  struct Reads {
    int64_t first_output, last_input;  // the first row, and the last one that it reads
  };
  std::vector<DepthwiseGradientRows<Element>> groups;  // of rows that meet the same taps
  std::vector<Reads> reads;                            // of each group
  std::vector<DepthwiseSegment<Element>> segments;     // of all, one group's after the other's
};

// Calls that are found once for all spans of the same blocks of an image, and a unit's taps and
// number of channels.
template <class Element>
struct SpanCalls {
  int64_t first_block, num_blocks;  // the first counted in its image
  SpanPlace place;
  int64_t image, channel;                       // that the calls are found for
  StripRows rows = {};                          // of the input, where it has a strip
  std::vector<FilterCall<Element>> calls = {};  // of all blocks, block after block
};

// Spans whose calls are kept; tall images have more.
inline constexpr int64_t kMostKnownSpans = 64;
// Bytes of the calls that a thread keeps at most.
int64_t CallBytes(const DepthwiseFilterCut& cut);

// Tensors where they are used in place, else strips.
template <class Element>
struct FilterOperands {
  const Element *input, *out_backprop;
  ComputeType<Element>* sums;
};

template <class Element>
class FilterCallFinder {
 public:
  FilterCallFinder(const DepthwiseFilterCut& cut, FilterOperands<Element> operands)
      : cut_(cut), operands_(operands) {}

  // Rows and calls of a span whose place is known.
  void FindAll(const FilterUnit& unit, const BlockSpan& span, SpanCalls<Element>* known) const;
  // The first column that the strip, or the image, has of an input row.
  const Element* InputRow(const FilterUnit& unit, const SpanCalls<Element>& known, int64_t image,
                          int64_t row) const;

 private:
  StripRows RowsFor(const FilterUnit& unit, const BlockSpan& span, Range in_rows) const;
  FilterCall<Element> FindCall(const FilterUnit& unit, const SpanCalls<Element>& known,
                               const PixelBlock& block, int64_t part) const;
  // The group that begins with a row, as far as rows lie behind each other.
  void AddGroup(const FilterUnit& unit, const SpanCalls<Element>& known, const PixelBlock& block,
                int64_t row, int64_t part, FilterCall<Element>* call) const;
  void AddSegments(const FilterUnit& unit, const SpanCalls<Element>& known, int64_t row,
                   int64_t origin, int64_t part, FilterCall<Element>* call) const;
  // The rows of taps of a unit that are on the image for a row of outputs.
  Range RowTaps(const FilterUnit& unit, int64_t row) const;
  int64_t InputRowOf(int64_t row, int64_t row_tap) const {
    return row * cut_.rows.stride + row_tap * cut_.rows.dilation - cut_.rows.pad;
  }
  const Element* OutputRow(const FilterUnit& unit, const SpanPlace& place, int64_t image,
                           int64_t row, int64_t col) const;

  const DepthwiseFilterCut& cut_;
  const FilterOperands<Element> operands_;
};

}  // namespace convgrad
