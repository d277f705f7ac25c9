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
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
// A vector of sums rounded to the final type. The instructions take subnormal numbers for zero, and
// keep payloads of NaN: sums of pairs are neither. As assembly, as in multiplier-inl.h.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> Narrowed(D, hn::Vec<D> value) {
  hn::Vec<hn::Rebind<uint16_t, D>> narrowed;
  asm("vcvtneps2bf16 %1, %0" : "=v"(narrowed.raw) : "v"(value.raw));
  return narrowed;
}

template <class D>
HWY_INLINE void StoreUpTo(D d, hn::Vec<D> value, BFloat16* to, int64_t count) {
  const hn::Rebind<uint16_t, D> dh;
  const auto narrowed = Narrowed(d, value);
  auto* bits = reinterpret_cast<uint16_t*>(to);
  if (count >= static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(narrowed, dh, bits);
  } else if (count > 0) {
    hn::BlendedStore(narrowed, hn::FirstN(dh, static_cast<size_t>(count)), dh, bits);
  }
}

// Whole vectors side by side, rounded, two of them as one.
template <bool kStream, int kCount, class V>
HWY_INLINE void StoreNarrowed(const V (&values)[kCount], BFloat16* to) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint16_t> dw;
  auto* bits = reinterpret_cast<uint16_t*>(to);
#pragma GCC unroll 16
  for (int v = 0; v + 1 < kCount; v += 2, bits += hn::MaxLanes(dw)) {
    hn::Vec<decltype(dw)> both;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both.raw) : "v"(values[v].raw), "v"(values[v + 1].raw));
    if constexpr (kStream) {
      hn::Stream(both, dw, bits);
    } else {
      hn::StoreU(both, dw, bits);
    }
  }
  if constexpr (kCount % 2 != 0) {
    const hn::Rebind<uint16_t, decltype(d)> dh;
    const auto last = Narrowed(d, values[kCount - 1]);
    if constexpr (kStream) {
      hn::Stream(last, dh, bits);
    } else {
      hn::StoreU(last, dh, bits);
    }
  }
}
#endif

// A whole vector of a tile's result, to this place of c.
template <bool kStream, class D, class Element>
HWY_INLINE void StoreWhole(D d, hn::Vec<D> value, const GemmTileArgs<Element>& args, int64_t at) {
  if constexpr (kStream) {
    hn::Stream(value, d, args.c + at);
  } else {
    hn::StoreU(value, d, args.c + at);
  }
}

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
void FinishRows(D d, const GemmTileArgs<Element>& args, int64_t rows, int64_t cols) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double* errors = args.sums + rows * cols;
  for (int64_t i = 0; i < args.num_rows; ++i) {
    for (int64_t j = 0; j < args.num_cols; j += lanes) {
      const auto result = FoldResult<kFinish>(d, args.sums + i * cols + j, errors + i * cols + j);
      StoreResult(d, result, args, args.c_rows[i] + j, args.num_cols - j);
    }
  }
}

template <class Element>
HWY_NOINLINE void FinishTile(const GemmTileArgs<Element>& args, int64_t rows, int64_t cols) {
  const hn::ScalableTag<ComputeType<Element>> d;
  if (args.odd) {
    FinishRows<Finish::kOdd>(d, args, rows, cols);
  } else {
    FinishRows<Finish::kNearest>(d, args, rows, cols);
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

// The sums of the block computed last, which wait to be folded: a vector at a time, between the
// next block's multiply-adds. In one go they would keep the multipliers waiting for a hundred
// cycles, and the end of a tile for three hundred.
template <class T>
struct WaitingBlock {
  const T* block;
  int64_t folded;     // vectors of it that are done
  bool starts, ends;  // the tile's sums; at their end they become the result
  double* sums;
  const int64_t* c_rows;
};

// Vector `index` of a waiting block of a tile of rows x kVectors, which starts the tile's sums or
// ends them.
template <int kVectors, bool kStarts, bool kEnds, class Element>
HWY_INLINE void FoldVector(const GemmTileArgs<Element>& args, int64_t rows,
                           const WaitingBlock<ComputeType<Element>>& waiting, int64_t index) {
  const hn::ScalableTag<ComputeType<Element>> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t at = index * lanes;
  const auto block = hn::Load(d, waiting.block + at);
  double* sums = waiting.sums + at;
  double* errors = sums + rows * kVectors * lanes;
  hn::Vec<decltype(d)> result;
  if constexpr (kStarts && kEnds) {
    result = OnlyBlock<Element>(d, block);
  } else if constexpr (sizeof(ComputeType<Element>) == 4) {
    using Sums = Doubles<hn::ScalableTag<float>>;
    constexpr bool kAddsZero = kStarts && !kOfPairs<Element>;  // -0 made +0
    Sums total = Sums::Of(d, kAddsZero ? hn::Add(block, hn::Zero(d)) : block);
    if constexpr (!kStarts) total.Add(Sums::Load(d, sums));
    if constexpr (kEnds) {
      result = args.odd ? Rounded<Finish::kOdd>(d, total) : Rounded<Finish::kNearest>(d, total);
      if constexpr (!kOfPairs<Element>) result = CanonicalNaN(d, result);
    } else {
      total.Store(d, sums);
    }
  } else {
    if constexpr (kStarts) ZeroSums(d, sums, errors);
    FoldBlock(d, block, sums, errors);
    if constexpr (kEnds) {
      result = args.odd ? FoldResult<Finish::kOdd>(d, sums, errors)
                        : FoldResult<Finish::kNearest>(d, sums, errors);
    }
  }
  if constexpr (kEnds) {
    const uint64_t vector = static_cast<uint64_t>(index);
    const int64_t col = static_cast<int64_t>(vector % kVectors) * lanes;
    StoreResult(d, result, args, waiting.c_rows[vector / kVectors] + col, args.num_cols - col);
  }
}

// f(kStarts, kEnds) for the block that waits: four loops without a question a vector.
template <class T, class F>
HWY_INLINE void VisitWaiting(const WaitingBlock<T>& waiting, const F& f) {
  const std::true_type yes;
  const std::false_type no;
  if (waiting.starts) {
    if (waiting.ends) return f(yes, yes);
    return f(yes, no);
  }
  if (waiting.ends) return f(no, yes);
  f(no, no);
}

// Folds what is left of the first num_rows rows. A call, for when no sums are in registers.
template <int kVectors, class Element>
HWY_NOINLINE void FoldRows(const GemmTileArgs<Element>& args, int64_t rows, int64_t num_rows,
                           WaitingBlock<ComputeType<Element>> waiting) {
  VisitWaiting(waiting, [&](auto starts, auto ends) HWY_ATTR {
    for (int64_t i = waiting.folded; i < num_rows * kVectors; ++i) {
      FoldVector<kVectors, starts, ends>(args, rows, waiting, i);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
