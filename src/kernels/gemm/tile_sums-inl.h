// The way of a block's sums of the indirect matrix micro-kernel (gemm_tile-inl.h): they
// are folded into a tile's sums in double, rounded and stored. Included once per target.
#if defined(CONVGRAD_KERNELS_TILE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_TILE_SUMS_INL_H_
#undef CONVGRAD_KERNELS_TILE_SUMS_INL_H_
#else
#define CONVGRAD_KERNELS_TILE_SUMS_INL_H_
#endif

#include <type_traits>

#include "kernels/gemm/indirect_gemm.h"
#include "kernels/gemm/multiplier-inl.h"
#include "kernels/simd/bfloat16_instructions-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// `count` numbers of a tile's result, to this place of c.
template <class D, class Element>
HWY_INLINE void StoreResult(D d, hn::Vec<D> value, const GemmTileArgs<Element>& args, int64_t at,
                            int64_t count) {
  if constexpr (kOfPairs<Element>) {
    if (args.narrowed != nullptr) {
      if (args.stream && count >= static_cast<int64_t>(hn::Lanes(d))) {
        const hn::Rebind<uint16_t, D> dh;
        return hn::Stream(Narrowed(d, value), dh, reinterpret_cast<uint16_t*>(args.narrowed + at));
      }
      return StoreUpTo(d, value, args.narrowed + at, count);
    }
  }
  if (args.stream && count >= static_cast<int64_t>(hn::Lanes(d))) {
    hn::Stream(value, d, args.c + at);
  } else {
    StoreUpTo(d, value, args.c + at, count);
  }
}

template <Finish kFinish, class D, class Element>
void FinishRows(D d, const GemmTileArgs<Element>& args, const double* sums, const int64_t* c_rows,
                int64_t num_rows, int64_t rows, int64_t cols) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double* errors = sums + rows * cols;
  for (int64_t i = 0; i < num_rows; ++i) {
    for (int64_t j = 0; j < args.num_cols; j += lanes) {
      const auto result = FoldResult<kFinish>(d, sums + i * cols + j, errors + i * cols + j);
      StoreResult(d, result, args, c_rows[i] + j, args.num_cols - j);
    }
  }
}

// Tile `tile` of rows x cols columns, whose sums these are, becomes its part of the result.
template <class Element>
HWY_NOINLINE void FinishTile(const GemmTileArgs<Element>& args, const double* sums, int64_t tile,
                             int64_t rows, int64_t cols) {
  const hn::ScalableTag<ComputeType<Element>> d;
  const int64_t num_rows = tile + 1 == args.num_tiles ? args.num_rows : rows;
  const int64_t* c_rows = args.c_rows + tile * rows;
  if (args.odd) {
    FinishRows<Finish::kOdd>(d, args, sums, c_rows, num_rows, rows, cols);
  } else {
    FinishRows<Finish::kNearest>(d, args, sums, c_rows, num_rows, rows, cols);
  }
}

template <class T>
void AddRun(const double* sums, double* total, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 4) {
      total[i] += sums[i];
    } else {
      const double term = sums[i];
      const double sum = total[i] + term;
      const double back = sum - total[i];
      total[count + i] += (total[i] - (sum - back)) + (term - back);
      total[count + i] += sums[count + i];
      total[i] = sum;
    }
  }
}

// How a result is rounded where it is made in registers: that of pairs is narrowed behind that.
// Other results that are rounded once more are made from the sums in memory (FinishTile).
template <class Element>
inline constexpr Finish kFinishOf = kOfPairs<Element> ? Finish::kOdd : Finish::kNearest;

// A vector of a block's sums is added to the same vector of its tile's sums, or starts them. What
// is returned is the result where it ends them, else of no use.
template <class Element, bool kStarts, bool kEnds, class D>
HWY_INLINE hn::Vec<D> FoldVector(D d, hn::Vec<D> block, double* sums, double* errors) {
  if constexpr (kStarts && kEnds) {
    return OnlyBlock<Element>(d, block);
  } else if constexpr (sizeof(hn::TFromD<D>) == 4) {
    constexpr bool kAddsZero = kStarts && !kOfPairs<Element>;  // -0 made +0
    auto total = Doubles<D>::Of(d, kAddsZero ? hn::Add(block, hn::Zero(d)) : block);
    if constexpr (!kStarts) total.Add(Doubles<D>::Load(d, sums));
    if constexpr (kEnds) {
      const auto result = Rounded<kFinishOf<Element>>(d, total);
      return kOfPairs<Element> ? result : CanonicalNaN(d, result);
    }
    total.Store(d, sums);
  } else {
    if constexpr (kStarts) ZeroSums(d, sums, errors);
    FoldBlock(d, block, sums, errors);
    if constexpr (kEnds) return FoldResult<kFinishOf<Element>>(d, sums, errors);
  }
  return block;
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
