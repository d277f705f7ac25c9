// The matrix micro-kernel on whole vectors; see vector_gemm.h. Included once per target.
//
// Every load is one aligned vector, and serves as many multiply-adds as the tile has columns.
#if defined(CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_
#undef CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_
#else
#define CONVGRAD_KERNELS_VECTOR_GEMM_INL_H_
#endif

#include "kernels/kernel_table.h"
#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <Finish kFinish, class D, class T = hn::TFromD<D>>
void FinishVectors(D d, const VectorTileArgs<T>& args, int64_t rows, int64_t cols) {
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

template <class T>
HWY_NOINLINE void FinishVectorTile(const VectorTileArgs<T>& args, int64_t rows, int64_t cols) {
  const hn::ScalableTag<T> d;
  if (args.odd) {
    FinishVectors<Finish::kOdd>(d, args, rows, cols);
  } else {
    FinishVectors<Finish::kNearest>(d, args, rows, cols);
  }
}

template <class T, int kRows, int kCols>
class VectorTileKernel {
 public:
  static void Run(const VectorTileArgs<T>& args) {
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
        // Pointers of the rows and one common index, as in indirect_gemm-inl.h.
        const T* rows[kRows];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) rows[i] = args.a + (args.a_rows[i] + segment->a) * lanes;
        const T* b = args.b + segment->b;
        int64_t at = 0;
        for (int64_t k = segment->length; k > 0; --k, at += lanes, b += kCols) {
          V factors[kCols];
#pragma GCC unroll 16
          for (int j = 0; j < kCols; ++j) factors[j] = hn::Set(d, b[j]);
#pragma GCC unroll 16
          for (int i = 0; i < kRows; ++i) {
            const V vector = hn::LoadU(d, rows[i] + at);
#pragma GCC unroll 16
            for (int j = 0; j < kCols; ++j) acc[i][j] = Fma(factors[j], vector, acc[i][j]);
          }
        }
      }
      if (single) return StoreOnly(args, acc);
      Fold(args.sums, acc);
    }
    FinishVectorTile(args, kRows, kCols);
  }

 private:
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  // A loop of its own: a call (to memset) would make the compiler spill accumulators.
  static HWY_INLINE void ZeroSums(double* sums) {
    const hn::ScalableTag<double> d;
    const size_t count = kRows * kCols * hn::Lanes(D()) * (sizeof(T) / 4);
    for (size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, sums + i);
  }

  // A single block: its sum is the result, with -0 made +0.
  static HWY_INLINE void StoreOnly(const VectorTileArgs<T>& args, const V (&acc)[kRows][kCols]) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i >= args.num_rows) return;
      T* row = args.c + args.c_rows[i] * lanes;
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) {
        if (j >= args.num_cols) break;
        hn::StoreU(CanonicalNaN(d, hn::Add(acc[i][j], hn::Zero(d))), d, row + j * lanes);
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

template <class T, int kRows, int kCols>
VectorTile<T> MakeVectorTile() {
  return {kRows, kCols, VectorTileKernel<T, kRows, kCols>::Run};
}

// Sizes by registers: accumulators, the factors of a term and one vector must fit.
template <class T>
std::span<const VectorTile<T>> VectorTiles() {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON  // 32 registers
  static const VectorTile<T> tiles[] = {
      MakeVectorTile<T, 8, 1>(), MakeVectorTile<T, 3, 1>(), MakeVectorTile<T, 8, 2>(),
      MakeVectorTile<T, 3, 2>(), MakeVectorTile<T, 8, 3>(), MakeVectorTile<T, 3, 3>(),
      MakeVectorTile<T, 6, 4>(), MakeVectorTile<T, 2, 4>(), MakeVectorTile<T, 5, 5>(),
      MakeVectorTile<T, 2, 5>(), MakeVectorTile<T, 4, 6>(), MakeVectorTile<T, 2, 6>(),
  };
#else  // 16 registers
  static const VectorTile<T> tiles[] = {
      MakeVectorTile<T, 8, 1>(), MakeVectorTile<T, 3, 1>(), MakeVectorTile<T, 6, 2>(),
      MakeVectorTile<T, 2, 2>(), MakeVectorTile<T, 4, 3>(), MakeVectorTile<T, 2, 3>(),
      MakeVectorTile<T, 3, 4>(), MakeVectorTile<T, 1, 4>(), MakeVectorTile<T, 2, 5>(),
      MakeVectorTile<T, 1, 5>(), MakeVectorTile<T, 2, 6>(), MakeVectorTile<T, 1, 6>(),
  };
#endif
  return tiles;
}

template <class T>
VectorGemmKernels<T> MakeVectorGemmKernels() {
  return {static_cast<int>(hn::Lanes(hn::ScalableTag<T>())), VectorTiles<T>()};
}

inline void FillVectorGemm(KernelTable& table) {
  table.vectors_f32 = MakeVectorGemmKernels<float>();
  table.vectors_f64 = MakeVectorGemmKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
