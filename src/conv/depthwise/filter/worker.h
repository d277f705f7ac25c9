// One thread's part of a depthwise filter gradient: the strips that a unit's taps and channels are
// read from, the kernel calls of a span's rows, and the sums of runs. Knows nothing of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "conv/depthwise/filter/cut.h"
#include "conv/depthwise/strips.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Element is what the kernel reads: Stored where both operands are in place, else Compute.
template <class Stored, class Element>
class FilterWorker {
 public:
  using Compute = ComputeType<Stored>;

  FilterWorker(const DepthwiseFilterCut& cut, const KernelTable& kernels, const Stored* input,
               const Stored* out_backprop);

  // The sums of a part of a unit's runs: that of run r into folds + (r - part.runs.begin) *
  // cut.FoldSize().
  void SumRuns(int64_t unit, const RunPart& part, double* folds);
  // Rounds a unit's total, which is in `fold`, into the result.
  void Finish(const FilterUnit& unit, const double* fold, Stored* result);

 private:
  // A call of the kernel for one row of a block, or for several that meet the same taps.
  struct RowsCall {
    DepthwiseGradientRows<Element> rows;
    std::vector<DepthwiseSegment<Element>> segments;
    int64_t last_input;  // the last row that the first one reads

    bool Extend(const RowsCall& next);
  };

  // What is found once for all spans of the same blocks of an image.
  struct KnownSpan {
    int64_t first_block, num_blocks;  // the first counted in its image
    SpanPlace place;
    std::vector<int64_t> slots;    // of the part's input rows in the strip, or -1
    bool all_rows;                 // none is -1
    std::vector<RowsCall> calls;   // of all blocks, or one where nothing is packed
    std::vector<size_t> calls_of;  // how many each block has
  };

  struct Strip {
    Compute* data;
    StripPart part, next;  // of the span's first image; what will probably follow
  };

  void StartUnit(int64_t unit);
  void StartSpan(const BlockSpan& span, const BlockSpan& next, Range next_channels);
  bool IsKnown(const BlockSpan& span);
  void PlaceStrips(const SpanPlace& place, int64_t image, Range channels, StripPart* input,
                   StripPart* output) const;
  void FindAllCalls(const BlockSpan& span);
  void FindSlots(const PixelBlock& bounds, KnownSpan* known) const;
  void FindCalls(const PixelBlock& block, KnownSpan* known) const;
  void FindCall(const PixelBlock& block, int64_t image, int64_t row, int64_t part,
                RowsCall* call) const;
  void AddSegments(const Element* source, int64_t row_tap, int64_t origin, int64_t part,
                   RowsCall* call) const;
  const Element* InputRow(int64_t image, int64_t row) const;
  const Element* OutputRow(int64_t image, int64_t row, int64_t col) const;

  void AddSpan(const BlockSpan& span, int64_t first_run, double* folds);
  void AddBlockInPlace(const PixelBlock& block, int64_t image);
  void Call(RowsCall* call);
  void PackInput(int64_t image) const;
  void PackOutput(int64_t image) const;
  void FetchNextRows(int64_t image, int64_t last, int64_t row,
                     DepthwiseGradientRows<Element>* call) const;
  void FetchNextStrips(const BlockSpan& span, int64_t image);
  void OrderGroups(int64_t count);
  void OrderParts(int64_t channels, Compute* sums);

  const DepthwiseFilterCut& cut_;
  const DepthwiseKernels<Compute>& kernels_;
  const DepthwiseRowKernels<Element>& row_kernels_;
  const PackKernels<Stored>& pack_;
  const StripPacker<Stored> input_packer_, output_packer_;
  const Stored* input_;
  const Stored* out_backprop_;

  AlignedArray<std::byte> memory_;
  Compute *sums_, *intermediate_;
  Strip input_strip_, output_strip_;
  FilterUnit unit_ = {};
  std::vector<KnownSpan> known_spans_;  // with the unit's taps and number of channels
  KnownSpan* known_ = nullptr;
  LinesAhead ahead_ = {};
  std::vector<Compute> apart_;  // sums before they are put in order
};

}  // namespace convgrad
