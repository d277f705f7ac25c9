// The matrix micro-kernel on whole vectors whose sums slide over lines; see vector_gemm.h. Included
// once per target.
//
// A vector of a line is loaded once for all results that have terms of it, and a line is left for
// good when its step is done: neither loads nor the way from the second-level cache bound it, as
// they do tiles of a single column.
#if defined(CONVGRAD_KERNELS_SLIDING_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_SLIDING_TILE_INL_H_
#undef CONVGRAD_KERNELS_SLIDING_TILE_INL_H_
#else
#define CONVGRAD_KERNELS_SLIDING_TILE_INL_H_
#endif

#include "kernels/gemm/tile_sizes.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"
#include "kernels/whole_vectors/vector_terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <class Element, int kRows, int kCols>
class SlidingTileKernel {
 public:
  static void Run(const SlidingTileArgs<Element>& args) {
    V acc[kRows][kCols];
    Load(args.chains, acc);
    const Element* line = args.a;
    T* to = args.c;
    for (int64_t step = args.step_begin; step < args.step_end; ++step) {
      const bool has_terms = step >= args.line_begin && step < args.line_end;
      for (const SlidingPiece& piece : args.pieces) {
        if (has_terms) AddSegment(args, line, piece.segment, acc);
        if (args.num_blocks > 1 && piece.ends != 0) Fold(args, step, piece.ends, acc);
      }
      if (step >= kCols - 1) {
        StoreResult(args, step, acc, to);
        to += args.c_line * static_cast<int64_t>(hn::Lanes(D()));
      }
      if (args.num_blocks > 1) ZeroSumsOf(args, step - (kCols - 1));
      Slide(acc);
      line += args.a_line * static_cast<int64_t>(hn::Lanes(D()));
    }
    Store(acc, args.chains);
  }

 private:
  using T = ComputeType<Element>;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  // Vectors of doubles, as long as V, that a vector's sums are: for double its errors too.
  static constexpr int64_t kSums = sizeof(T) / 4;

  static HWY_INLINE void AddSegment(const SlidingTileArgs<Element>& args, const Element* line,
                                    const GemmSegment& segment, V (&acc)[kRows][kCols]) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    const Element* rows[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) rows[i] = line + (i * args.a_step + segment.a) * lanes;
    AddVectorTerms(rows, args.b + segment.b, segment.length, acc);
  }

  // The sums of result y > -kCols, which gives their place to result y + kCols.
  static HWY_INLINE double* SumsOf(const SlidingTileArgs<Element>& args, int64_t y) {
    return args.sums + (y + kCols) % kCols * kRows * kSums * static_cast<int64_t>(hn::Lanes(D()));
  }
  static HWY_INLINE void ZeroSumsOf(const SlidingTileArgs<Element>& args, int64_t y) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    double* sums = SumsOf(args, y);
    for (int i = 0; i < kRows; ++i, sums += lanes * kSums) ZeroSums(d, sums, sums + lanes);
  }

  // The blocks of these columns: they start anew from zero.
  static HWY_INLINE void Fold(const SlidingTileArgs<Element>& args, int64_t step, uint32_t ends,
                              V (&acc)[kRows][kCols]) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) {
      if ((ends >> j & 1) == 0) continue;
      double* sums = SumsOf(args, step - j);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i, sums += lanes * kSums) {
        FoldBlock(d, acc[i][j], sums, sums + lanes);
        acc[i][j] = hn::Zero(d);
      }
    }
  }

  // The result that has had its last line.
  static HWY_INLINE void StoreResult(const SlidingTileArgs<Element>& args, int64_t step,
                                     const V (&acc)[kRows][kCols], T* to) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    if (args.num_blocks == 1) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i, to += args.c_step * lanes) {
        hn::StoreU(CanonicalSum(d, acc[i][kCols - 1]), d, to);
      }
      return;
    }
    const double* sums = SumsOf(args, step - (kCols - 1));
    for (int i = 0; i < kRows; ++i, sums += lanes * kSums, to += args.c_step * lanes) {
      hn::StoreU(FoldResult(d, sums, sums + lanes, args.odd), d, to);
    }
  }

  // Every result's next line is the one of the next column.
  static HWY_INLINE void Slide(V (&acc)[kRows][kCols]) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int j = kCols - 1; j > 0; --j) acc[i][j] = acc[i][j - 1];
      acc[i][0] = hn::Zero(D());
    }
  }

  static HWY_INLINE void Load(const T* chains, V (&acc)[kRows][kCols]) {
    const D d;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) {
        acc[i][j] = hn::LoadU(d, chains + (i * kCols + j) * static_cast<int64_t>(hn::Lanes(d)));
      }
    }
  }

  static HWY_INLINE void Store(const V (&acc)[kRows][kCols], T* chains) {
    const D d;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) {
        hn::StoreU(acc[i][j], d, chains + (i * kCols + j) * static_cast<int64_t>(hn::Lanes(d)));
      }
    }
  }
};

// Sizes by registers: accumulators, the factors of a term and one vector must fit.
inline constexpr TileSize kSlidingSizes[] = {{8, 2}, {2, 2}, {1, 2}, {8, 3}, {2, 3}, {1, 3},
                                             {6, 4}, {2, 4}, {1, 4}, {4, 5}, {2, 5}, {1, 5}};
inline constexpr TileSize kSlidingSizesOfFewRegisters[] = {{6, 2}, {2, 2}, {1, 2}, {4, 3}, {2, 3},
                                                           {1, 3}, {2, 4}, {1, 4}, {2, 5}, {1, 5}};

template <class Element>
std::span<const SlidingTile<Element>> SlidingTiles() {
  if constexpr (kManyRegisters) {
    return TilesOfSizes<SlidingTile<Element>, SlidingTileKernel, Element, kSlidingSizes>();
  } else {
    return TilesOfSizes<SlidingTile<Element>, SlidingTileKernel, Element,
                        kSlidingSizesOfFewRegisters>();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
