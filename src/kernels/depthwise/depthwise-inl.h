// Steps between the rows of depthwise convolutions; see depthwise.h. Included once per target.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#endif

#include "kernels/depthwise/split-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Multipliers.

#if HWY_TARGET == HWY_SCALAR
template <class T>
int64_t RepeatVectors(const T*, T*, int64_t, int64_t) {
  return 0;
}
#else
// DepthwiseRepeat of whole vectors of numbers; how many numbers they hold. A vector of numbers
// becomes `multiplier` vectors, lane l of the r-th of them number (r * lanes + l) / multiplier.
template <class T>
int64_t RepeatVectors(const T* from, T* to, int64_t count, int64_t multiplier) {
  const hn::ScalableTag<T> d;
  using Index = hn::TFromD<hn::RebindToSigned<decltype(d)> >;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const int64_t num_vectors = count / kLanes;
  for (int64_t r = 0; r < multiplier; ++r) {
    Index number[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      number[lane] = static_cast<Index>((r * kLanes + lane) / multiplier);
    }
    const auto table = hn::SetTableIndices(d, number);
    for (int64_t v = 0; v < num_vectors; ++v) {
      hn::StoreU(hn::TableLookupLanes(hn::LoadU(d, from + v * kLanes), table), d,
                 to + (v * multiplier + r) * kLanes);
    }
  }
  return num_vectors * kLanes;
}
#endif

template <class T>
void DepthwiseRepeat(const T* from, T* to, int64_t count, int64_t multiplier) {
  for (int64_t i = RepeatVectors(from, to, count, multiplier); i < count; ++i) {
    for (int64_t m = 0; m < multiplier; ++m) to[i * multiplier + m] = from[i];
  }
}

template <class T>
void DepthwisePart(const T* from, T* to, int64_t pixels, int64_t channels, int64_t multiplier) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    SplitRow(from, to, channels, multiplier, channels * multiplier);
    from += channels * multiplier;
    to += channels * multiplier;
  }
}

// Folding.

template <class T>
void DepthwiseFoldBlock(T* sums, double* sum, double* error, int64_t count) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    FoldBlock(d, hn::LoadU(d, sums + i), sum + i, ErrorAt<T>(error, i));
    hn::StoreU(hn::Zero(d), d, sums + i);
  }
}

template <class T>
void DepthwiseFinish(const double* sum, const double* error, T* to, int64_t count,
                     bool round_to_odd) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    hn::StoreU(FoldResult(d, sum + i, ErrorAt<T>(error, i), round_to_odd), d, to + i);
  }
}

template <class T>
void DepthwiseFinishBlock(T* sums, int64_t count) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Zero(d)), d, sums + i);
  }
}

template <class T>
DepthwiseKernels<T> MakeDepthwiseKernels() {
  return {static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>())),
          DepthwiseRepeat<T>,
          DepthwisePart<T>,
          DepthwiseFoldBlock<T>,
          FoldRun<T>,
          DepthwiseFinish<T>,
          DepthwiseFinishBlock<T>};
}

template <class T>
void SetGroups(DepthwiseRowKernels<T>* kernels) {
  kernels->group = kGroupSize<T>;
  kernels->parts = kGroupParts<T>;
}

inline void FillDepthwise(KernelTable& table) {
  SetGroups(&table.depthwise_rows_f16);
  SetGroups(&table.depthwise_rows_bf16);
  SetGroups(&table.depthwise_rows_f32);
  SetGroups(&table.depthwise_rows_f64);
  table.depthwise_f32 = MakeDepthwiseKernels<float>();
  table.depthwise_f64 = MakeDepthwiseKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
