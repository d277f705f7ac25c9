// One thread's part of a depthwise filter gradient: the strips that a unit's taps and channels are
// read from, the kernel calls of a band's rows, and the sums of runs. Knows nothing of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "conv/depthwise/filter/plan.h"
#include "conv/depthwise/strips.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Element is what the kernel reads: Stored where both operands are in place, else Compute.
template <class Stored, class Element>
class FilterPiece {
 public:
  using Compute = ComputeType<Stored>;

  FilterPiece(const FilterPlan& plan, const KernelTable& kernels, const Stored* input,
              const Stored* out_backprop);

  // The sums of runs `runs` of a unit: that of run r into folds + (r - runs.begin) *
  // plan.FoldSize().
  void SumRuns(int64_t unit, Range runs, double* folds);

 private:
  // A call of the kernel for one row of a block, or for several that meet the same taps.
  struct RowsCall {
    DepthwiseGradientRows<Element> rows;
    std::vector<DepthwiseSegment<Element>> segments;
    int64_t last_input;  // the last row that the first one reads

    bool Extend(const RowsCall& next);
  };

  // What is found once for all bands of the same blocks of an image.
  struct KnownBand {
    int64_t first_block, num_blocks;  // the first counted in its image
    std::vector<int64_t> slots;       // of the part's input rows in the strip, or -1
    bool all_rows;                    // none is -1
    std::vector<RowsCall> calls;      // of all blocks, or one where nothing is packed
    std::vector<size_t> calls_of;     // how many each block has
  };

  struct Strip {
    Compute* data;
    StripPart part, next;  // of the band's first image; what will probably follow
  };

  void StartBand(const Band& band, const FilterUnit& next_unit, const Band& next);
  void FindBand(const Band& band);
  void FindSlots(const PixelBlock& bounds, KnownBand* known) const;
  void FindCalls(const PixelBlock& block, KnownBand* known) const;
  void FindCall(const PixelBlock& block, int64_t image, int64_t row, int64_t part,
                RowsCall* call) const;
  void AddSegments(const Element* source, int64_t row_tap, int64_t origin, int64_t part,
                   RowsCall* call) const;
  const Element* InputRow(int64_t image, int64_t row) const;
  const Element* OutputRow(int64_t image, int64_t row, int64_t col) const;

  void AddBand(const Band& band, int64_t first_run, double* folds);
  void AddBlockInPlace(const PixelBlock& block, int64_t image);
  void Call(RowsCall* call);
  void PackInput(int64_t image) const;
  void PackOutput(int64_t image) const;
  void FetchNextRows(int64_t image, int64_t last, int64_t row,
                     DepthwiseGradientRows<Element>* call) const;
  void FetchNextStrips(const Band& band, int64_t image);

  const FilterPlan& plan_;
  const DepthwiseKernels<Compute>& kernels_;
  const DepthwiseRowKernels<Element>& row_kernels_;
  const StripPacker<Stored> input_packer_, output_packer_;
  const Stored* input_;
  const Stored* out_backprop_;

  AlignedArray<std::byte> memory_;
  Compute *sums_, *intermediate_;
  Strip input_strip_, output_strip_;
  FilterUnit unit_ = {};
  std::vector<KnownBand> known_bands_;  // with the unit's taps and number of channels
  KnownBand* band_ = nullptr;
  LinesAhead ahead_ = {};
};

}  // namespace convgrad
