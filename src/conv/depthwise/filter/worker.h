// One thread's part of a depthwise filter gradient: the strips that a unit's taps and channels are
// read from, the kernel calls of a span's rows, and the sums of portions. Knows nothing of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "conv/depthwise/filter/calls.h"
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

  // The sums of a part of a unit's portions: that of portion p into folds + (p -
  // part.portions.begin) * cut.FoldSize().
  void SumPortions(int64_t unit, const PortionPart& part, double* folds);
  // Rounds a unit's total, which is in `fold`, into the result.
  void Finish(const FilterUnit& unit, const double* fold, Stored* result);

 private:
  struct Strip {
    Compute* data;
    StripPart part, next;  // of the span's first image; what will probably follow
  };

  void StartUnit(int64_t unit);
  void StartSpan(const BlockSpan& span, const BlockSpan& next, Range next_channels);
  bool IsKnown(const BlockSpan& span);
  void PlaceStrips(const SpanPlace& place, int64_t image, Range channels, StripPart* input,
                   StripPart* output) const;
  Compute* PlaceOfSums();
  FilterOperands<Element> Operands() const;

  void AddSpan(const BlockSpan& span, int64_t first_portion, double* folds);
  bool TakesImagesAtOnce(const BlockSpan& span) const;
  void Call(int64_t image, int64_t num_images, FilterCall<Element>* call);
  void PackInput(int64_t image) const;
  void PackOutput(int64_t image) const;
  void FetchNextRows(int64_t image, int64_t out_backprop_at,
                     const typename FilterCall<Element>::Reads& reads,
                     DepthwiseGradientRows<Element>* rows) const;
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
  Compute* const sums_;
  Strip input_strip_, output_strip_;
  Compute* const intermediate_;
  const FilterCallFinder<Element> finder_;
  FilterUnit unit_ = {};
  std::vector<SpanCalls<Element>> known_spans_;  // with the unit's taps and number of channels
  SpanCalls<Element>* known_ = nullptr;
  LinesAhead ahead_ = {};
  std::vector<Compute> apart_;  // sums before they are put in order
};

}  // namespace convgrad
