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
  using T = ComputeType<Element>;
  using D = hn::ScalableTag<T>;
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

  // The sums that a tile of one block begins with.
  HWY_INLINE void Begin(const GemmTileArgs<Element>& args, int64_t tile, int64_t col) {
    if constexpr (!kOfPairs<Element>) {
      if (HWY_UNLIKELY(args.goes_on)) return LoadRows(args, tile, col);
    }
    SetZero();
  }

  // The one block's sums become the result.
  HWY_INLINE void Finish() {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v) whole[i][v] = OnlyBlock<Element>(D(), whole[i][v]);
      if constexpr (kEndsInHalf) half[i] = OnlyBlock<Element>(Half(), half[i]);
    }
  }

  // All sums, those of half a vector as a whole one with zeros.
  HWY_INLINE void StoreAll(ComputeType<Element>* to) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v, to += lanes) hn::Store(whole[i][v], D(), to);
#if HWY_TARGET == HWY_AVX3
      if constexpr (kEndsInHalf) {
        hn::Store(hn::ZeroExtendVector(D(), half[i]), D(), to);
        to += lanes;
      }
#endif
    }
  }

  // A tile's result, from column `col` on.
  HWY_INLINE void Store(const GemmTileArgs<Element>& args, int64_t tile, int64_t col) const {
    if constexpr (kOfPairs<Element>) {
      // A result that is narrowed elsewhere is a copy, which is never written around the caches.
      if (args.narrowed == nullptr) return StoreRows<false>(args, tile, col);
      const bool whole_only =
          !kEndsInHalf && args.num_cols == kVectors * static_cast<int64_t>(hn::Lanes(D()));
      if (!whole_only) return StoreNarrowedParts(args, tile);
      if constexpr (!kEndsInHalf) {
        args.stream ? StoreNarrowedRows<true>(args, tile) : StoreNarrowedRows<false>(args, tile);
      }
    } else {
      args.stream ? StoreRows<true>(args, tile, col) : StoreRows<false>(args, tile, col);
    }
  }

 private:
  HWY_INLINE void LoadRows(const GemmTileArgs<Element>& args, int64_t tile, int64_t col) {
    SetZero();
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D())), num_rows = args.RowsOf(tile, kRows);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i == num_rows) break;
      const ComputeType<Element>* from = args.c + args.c_rows[tile * kRows + i] + col;
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v, from += lanes) whole[i][v] = hn::LoadU(D(), from);
      if constexpr (kEndsInHalf) half[i] = hn::LoadU(Half(), from);
    }
  }

  // All addresses are known before the first store, which might change what they are found from,
  // for all that the compiler knows.
  template <bool kStream>
  HWY_INLINE void StoreRows(const GemmTileArgs<Element>& args, int64_t tile, int64_t col) const {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t num_rows = args.RowsOf(tile, kRows);
    const int64_t last_cols = args.num_cols - (kVectors - 1) * lanes;
    T* to[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) to[i] = args.c + args.c_rows[tile * kRows + i] + col;
    if (!kEndsInHalf && num_rows == kRows && last_cols == lanes) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kWhole; ++v) StoreWhole<kStream>(whole[i][v], to[i] + v * lanes);
      }
      return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i == num_rows) break;
#pragma GCC unroll 16
      for (int v = 0; v < kVectors - 1; ++v) StoreWhole<kStream>(whole[i][v], to[i] + v * lanes);
      T* const last = to[i] + (kVectors - 1) * lanes;
      if constexpr (kEndsInHalf) {
        StoreUpTo(Half(), half[i], last, last_cols);
      } else if (last_cols < lanes) {
        StoreUpTo(d, whole[i][kVectors - 1], last, last_cols);
      } else {
        StoreWhole<kStream>(whole[i][kVectors - 1], last);
      }
    }
  }

  template <bool kStream>
  static HWY_INLINE void StoreWhole(hn::Vec<D> sums, T* to) {
    if constexpr (kStream) {
      hn::Stream(sums, D(), to);
    } else {
      hn::StoreU(sums, D(), to);
    }
  }

  template <bool kStream>
  HWY_INLINE void StoreNarrowedRows(const GemmTileArgs<Element>& args, int64_t tile) const {
    const int64_t num_rows = args.RowsOf(tile, kRows);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i == num_rows) break;
      StoreNarrowed<kStream>(whole[i], args.narrowed + args.c_rows[tile * kRows + i]);
    }
  }

  // Only some columns of the last vector are wanted.
  HWY_INLINE void StoreNarrowedParts(const GemmTileArgs<Element>& args, int64_t tile) const {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), num_rows = args.RowsOf(tile, kRows);
    const int64_t last_cols = args.num_cols - (kVectors - 1) * lanes;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i == num_rows) break;
      BFloat16* to = args.narrowed + args.c_rows[tile * kRows + i];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors - 1; ++v, to += lanes) {
        const hn::Rebind<uint16_t, D> dh;
        hn::StoreU(Narrowed(d, whole[i][v]), dh, reinterpret_cast<uint16_t*>(to));
      }
      if constexpr (kEndsInHalf) {
        StoreFirst(Half(), half[i], to, last_cols);
      } else {
        StoreFirst(d, whole[i][kVectors - 1], to, last_cols);
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
