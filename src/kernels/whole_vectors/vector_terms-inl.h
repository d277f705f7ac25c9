// The inner loop of the matrix micro-kernels on whole vectors. Included once per target.
#if defined(CONVGRAD_KERNELS_VECTOR_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_VECTOR_TERMS_INL_H_
#undef CONVGRAD_KERNELS_VECTOR_TERMS_INL_H_
#else
#define CONVGRAD_KERNELS_VECTOR_TERMS_INL_H_
#endif

#include "kernels/gemm/multiplier-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Terms side by side in memory: vectors of the rows, and a number for every column of `b`. Rows are
// pointers with one common index, as in gemm_tile-inl.h.
template <class Element, int kRows, int kCols>
HWY_INLINE void AddVectorTerms(
    const Element* const (&rows)[kRows], const Element* b, int64_t num_terms,
    hn::Vec<hn::ScalableTag<ComputeType<Element>>> (&acc)[kRows][kCols]) {
  using D = hn::ScalableTag<ComputeType<Element>>;
  using Times = Multiplier<Element, D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t at = 0;
  for (int64_t k = num_terms; k > 0; --k, at += lanes, b += kCols) {
    typename Times::V factors[kCols];
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) factors[j] = Times::Broadcast(b + j);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const auto vector = Times::Load(rows[i] + at);
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) acc[i][j] = Times::Add(factors[j], vector, acc[i][j]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
