// The accumulators of one size of tile of the indirect matrix micro-kernel (gemm_tile-inl.h), in
// registers: how they start, change and become the result. Included once per target.
#if defined(CONVGRAD_KERNELS_TILE_ACCUMULATORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_TILE_ACCUMULATORS_INL_H_
#undef CONVGRAD_KERNELS_TILE_ACCUMULATORS_INL_H_
#else
#define CONVGRAD_KERNELS_TILE_ACCUMULATORS_INL_H_
#endif

#include "kernels/gemm/indirect_gemm.h"
#include "kernels/gemm/multiplier-inl.h"
#include "kernels/simd/bfloat16_instructions-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// The sums of a block of a tile of kRows by kVectors; see Tile.
template <class Element, int kRows, int kVectors, bool kEndsInHalf>
struct TileAccumulators {
  using D = hn::ScalableTag<ComputeType<Element>>;
  using Half = hn::Half<D>;
  static constexpr int kWhole = kEndsInHalf ? kVectors - 1 : kVectors;

  hn::Vec<D> whole[kRows][kWhole == 0 ? 1 : kWhole];
  hn::Vec<Half> half[kRows];

  HWY_INLINE TileAccumulators() {}  // one that the compiler adds is not for this target

  HWY_INLINE void SetZero() {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v) whole[i][v] = hn::Zero(D());
      if constexpr (kEndsInHalf) half[i] = hn::Zero(Half());
    }
  }

  // Every vector becomes f(vector, its place among the tile's sums).
  template <class F>
  HWY_INLINE void Replace(const F& f) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v) whole[i][v] = f(whole[i][v], (i * kVectors + v) * lanes);
#if HWY_TARGET == HWY_AVX3
      if constexpr (kEndsInHalf) {
        half[i] = hn::LowerHalf(
            Half(), f(hn::ZeroExtendVector(D(), half[i]), (i * kVectors + kWhole) * lanes));
      }
#endif
    }
  }

  // A tile's result, from column `col` on.
  HWY_INLINE void Store(const GemmTileArgs<Element>& args, int64_t tile, int64_t col) const {
    args.stream ? StoreRows<true>(args, tile, col) : StoreRows<false>(args, tile, col);
  }

 private:
  template <bool kStream>
  HWY_INLINE void StoreRows(const GemmTileArgs<Element>& args, int64_t tile, int64_t col) const {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t num_rows = tile + 1 == args.num_tiles ? args.num_rows : kRows;
    const int64_t* c_rows = args.c_rows + tile * kRows;
    const int64_t last_cols = args.num_cols - (kVectors - 1) * lanes;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i == num_rows) break;
      if constexpr (kOfPairs<Element>) {
        if (args.narrowed != nullptr) {
          StoreNarrowedRow<kStream>(i, args.narrowed + c_rows[i], last_cols);
          continue;
        }
      }
      const int64_t row = c_rows[i] + col;
#pragma GCC unroll 16
      for (int v = 0; v < kVectors - 1; ++v) {
        StoreWhole<kStream>(whole[i][v], args.c + row + v * lanes);
      }
      const int64_t last = row + (kVectors - 1) * lanes;
      if constexpr (kEndsInHalf) {
        StoreUpTo(Half(), half[i], args.c + last, last_cols);
      } else if (last_cols < lanes) {
        StoreUpTo(d, whole[i][kVectors - 1], args.c + last, last_cols);
      } else {
        StoreWhole<kStream>(whole[i][kVectors - 1], args.c + last);
      }
    }
  }

  template <bool kStream>
  static HWY_INLINE void StoreWhole(hn::Vec<D> sums, ComputeType<Element>* to) {
    if constexpr (kStream) {
      hn::Stream(sums, D(), to);
    } else {
      hn::StoreU(sums, D(), to);
    }
  }

  // Row i, so many columns of its last vector.
  template <bool kStream>
  HWY_INLINE void StoreNarrowedRow(int i, BFloat16* to, int64_t last_cols) const {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    if constexpr (!kEndsInHalf) {
      if (last_cols == lanes) return StoreNarrowed<kStream>(whole[i], to);
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVectors - 1; ++v, to += lanes) StoreUpTo(d, whole[i][v], to, lanes);
    if constexpr (kEndsInHalf) {
      StoreUpTo(Half(), half[i], to, last_cols);
    } else {
      StoreUpTo(d, whole[i][kVectors - 1], to, last_cols);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
