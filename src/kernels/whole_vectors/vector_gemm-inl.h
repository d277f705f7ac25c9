// The matrix micro-kernel on whole vectors; see vector_gemm.h. Included once per target.
//
// Every load is one aligned vector, and serves as many multiply-adds as the tile has columns.
#if defined(CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_
#undef CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_
#else
#define CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_
#endif

#include "kernels/gemm/tile_sizes.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"
#include "kernels/whole_vectors/sliding_tile-inl.h"
#include "kernels/whole_vectors/vector_terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <Finish kFinish, class D, class Element>
void FinishVectors(D d, const VectorTileArgs<Element>& args, int64_t rows, int64_t cols) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double* errors = args.sums + rows * cols * lanes;
  for (int64_t i = 0; i < args.num_rows; ++i) {
    for (int64_t j = 0; j < args.num_cols; ++j) {
      const int64_t at = (i * cols + j) * lanes;
      hn::StoreU(FoldResult<kFinish>(d, args.sums + at, errors + at), d,
                 args.c + (args.c_rows[i] + j) * lanes);
    }
  }
}

template <class Element>
HWY_NOINLINE void FinishVectorTile(const VectorTileArgs<Element>& args, int64_t rows,
                                   int64_t cols) {
  const hn::ScalableTag<ComputeType<Element>> d;
  if (args.odd) {
    FinishVectors<Finish::kOdd>(d, args, rows, cols);
  } else {
    FinishVectors<Finish::kNearest>(d, args, rows, cols);
  }
}

template <class Element, int kRows, int kCols>
class VectorTileKernel {
 public:
  static void Run(const VectorTileArgs<Element>& args) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const bool single = args.num_blocks == 1;
    if (!single) ZeroSums(args.sums);
    V acc[kRows][kCols];
    const GemmSegment* segment = args.segments;
    for (int64_t block = 0; block < args.num_blocks; ++block) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
        for (int j = 0; j < kCols; ++j) acc[i][j] = hn::Zero(d);
      }
      for (const GemmSegment* end = args.segments + args.block_ends[block]; segment != end;
           ++segment) {
        const Element* rows[kRows];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) rows[i] = args.a + (args.a_rows[i] + segment->a) * lanes;
        AddVectorTerms(rows, args.b + segment->b, segment->length, acc);
      }
      if (single) return StoreOnly(args, acc);
      Fold(args.sums, acc);
    }
    FinishVectorTile(args, kRows, kCols);
  }

 private:
  using T = ComputeType<Element>;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  // A loop of its own: a call (to memset) would make the compiler spill accumulators.
  static HWY_INLINE void ZeroSums(double* sums) {
    const hn::ScalableTag<double> d;
    const size_t count = kRows * kCols * hn::Lanes(D()) * (sizeof(T) / 4);
    for (size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, sums + i);
  }

  // A single block: its sum is the result.
  static HWY_INLINE void StoreOnly(const VectorTileArgs<Element>& args,
                                   const V (&acc)[kRows][kCols]) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i >= args.num_rows) return;
      T* row = args.c + args.c_rows[i] * lanes;
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) {
        if (j >= args.num_cols) break;
        hn::StoreU(CanonicalSum(d, acc[i][j]), d, row + j * lanes);
      }
    }
  }

  static HWY_INLINE void Fold(double* sums, const V (&acc)[kRows][kCols]) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    double* errors = sums + kRows * kCols * lanes;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) {
        const size_t at = (i * kCols + j) * lanes;
        FoldBlock(d, acc[i][j], sums + at, errors + at);
      }
    }
  }
};

// Sizes by registers: accumulators, the factors of a term and one vector must fit.
inline constexpr TileSize kVectorSizes[] = {{8, 1}, {3, 1}, {8, 2}, {6, 2}, {3, 2}, {8, 3}, {6, 3},
                                            {3, 3}, {6, 4}, {2, 4}, {5, 5}, {2, 5}, {4, 6}, {2, 6}};
inline constexpr TileSize kVectorSizesOfFewRegisters[] = {{8, 1}, {3, 1}, {6, 2},
                                                          {2, 2}, {4, 3}, {2, 3}};

template <class Element>
std::span<const VectorTile<Element>> VectorTiles() {
  if constexpr (kManyRegisters) {
    return TilesOfSizes<VectorTile<Element>, VectorTileKernel, Element, kVectorSizes>();
  } else {
    return TilesOfSizes<VectorTile<Element>, VectorTileKernel, Element,
                        kVectorSizesOfFewRegisters>();
  }
}

template <class Element>
VectorGemmKernels<Element> MakeVectorGemmKernels() {
  return {static_cast<int>(hn::Lanes(hn::ScalableTag<ComputeType<Element>>())),
          VectorTiles<Element>(), SlidingTiles<Element>()};
}

inline void FillVectorGemm(KernelTable& table) {
  table.vectors_f32 = MakeVectorGemmKernels<float>();
  table.vectors_f64 = MakeVectorGemmKernels<double>();
#if HWY_TARGET == HWY_AVX3
  if (table.has_bf16_pairs) table.vectors_bf16_pairs = MakeVectorGemmKernels<BFloat16Pair>();
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
