// The kernel calls of a depthwise filter gradient that make the block sums of a unit, from where
// its operands and sums lie. Knows nothing of how the numbers came to their places.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/depthwise/filter/cut.h"
#include "kernels/depthwise/depthwise.h"

namespace convgrad {

// A call of the kernel for one row of a block, or for several that meet the same taps.
template <class Element>
struct FilterCall {
  DepthwiseGradientRows<Element> rows;
  std::vector<DepthwiseSegment<Element>> segments;
  int64_t last_input;  // the last row that the first one reads

  // Adds the row of `next` if it lies behind the others as they lie behind each other.
  bool Extend(const FilterCall& next);
};

// Calls that are found once for all spans of the same blocks of an image, and a unit's taps and
// number of channels.
template <class Element>
struct SpanCalls {
  int64_t first_block, num_blocks;  // the first counted in its image
  SpanPlace place;
  std::vector<int64_t> slots = {};              // of the place's input rows in the strip, or -1
  bool all_rows = true;                         // none is -1
  std::vector<FilterCall<Element>> calls = {};  // of all blocks, or one where nothing is packed
  std::vector<size_t> calls_of = {};            // how many each block has
};

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

  // Slots and calls of a span whose place is known.
  void FindAll(const FilterUnit& unit, const BlockSpan& span, SpanCalls<Element>* known) const;
  // One row of a block of an image, for one part of the outputs. No segments: no call.
  void Find(const FilterUnit& unit, const SpanCalls<Element>& known, const PixelBlock& block,
            int64_t image, int64_t row, int64_t part, FilterCall<Element>* call) const;
  // Makes the call for a row of tensors in place one for all rows from it on, up to `end`, that
  // meet the same taps.
  void Repeat(int64_t row, int64_t end, FilterCall<Element>* call) const;
  // The first column that the strip, or the image, has of an input row.
  const Element* InputRow(const FilterUnit& unit, const SpanCalls<Element>& known, int64_t image,
                          int64_t row) const;

 private:
  void FindSlots(const FilterUnit& unit, const BlockSpan& span, SpanCalls<Element>* known) const;
  void FindBlock(const FilterUnit& unit, const PixelBlock& block, SpanCalls<Element>* known) const;
  void AddSegments(const FilterUnit& unit, const Element* source, int64_t row_tap, int64_t origin,
                   int64_t part, FilterCall<Element>* call) const;
  const Element* OutputRow(const FilterUnit& unit, const SpanPlace& place, int64_t image,
                           int64_t row, int64_t col) const;

  const DepthwiseFilterCut& cut_;
  const FilterOperands<Element> operands_;
};

}  // namespace convgrad
