// The way of the sums of several blocks of the indirect matrix micro-kernel (gemm_tile-inl.h),
// which a tile leaves in memory: added in double, rounded, stored. Included once per target.
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

// The sums of a tile of rows x cols columns, in row-major order: those of finished blocks in
// double, followed, for double, by their error terms, unless none is finished yet; and those of the
// `num_waiting` blocks after them as the compute type, one behind the other.
template <class Element>
struct TileSums {
  int64_t rows, cols;
  double* finished;
  bool begun;
  const ComputeType<Element>* waiting;
  int64_t num_waiting;

  int64_t count() const { return rows * cols; }
  double* errors() const { return finished + count(); }
};

// Blocks of a tile that wait, at most: their sums stay in the first cache.
inline constexpr int kMostWaiting = 4;

// A vector of the sum of all blocks, kWaiting of which wait. Sums of pairs, which are never -0,
// need not start from +0.
template <int kWaiting, class D, class Element>
HWY_INLINE BlockSum<D> SumOfBlocks(D d, const TileSums<Element>& sums, int64_t at) {
  const auto load = [&](int i)
                        HWY_ATTR { return hn::LoadU(d, sums.waiting + i * sums.count() + at); };
  auto sum = BlockSum<D>::Zero(d);
  int first = 0;
  if (sums.begun) {
    sum = BlockSum<D>::Load(d, sums.finished + at, sums.errors() + at);
  } else if constexpr (kOfPairs<Element> && kWaiting > 0) {
    sum = {Doubles<D>::Of(d, load(first++))};
  }
#pragma GCC unroll 8
  for (int i = first; i < kWaiting; ++i) sum.Add(d, load(i));
  return sum;
}

// Calls f with how many blocks wait, as a constant.
template <class F>
HWY_INLINE void WithWaiting(int64_t num_waiting, const F& f) {
  switch (num_waiting) {
    case 0: return f(std::integral_constant<int, 0>());
    case 1: return f(std::integral_constant<int, 1>());
    case 2: return f(std::integral_constant<int, 2>());
    case 3: return f(std::integral_constant<int, 3>());
    default: return f(std::integral_constant<int, kMostWaiting>());
  }
}

// The waiting blocks are finished. A call, so that tiles have little code between their terms.
template <class Element>
HWY_NOINLINE void FinishBlocks(const TileSums<Element> sums) {
  const hn::ScalableTag<ComputeType<Element>> d;
  WithWaiting(sums.num_waiting, [&](auto waiting) HWY_ATTR {
    for (int64_t at = 0; at < sums.count(); at += static_cast<int64_t>(hn::Lanes(d))) {
      SumOfBlocks<waiting>(d, sums, at).Store(d, sums.finished + at, sums.errors() + at);
    }
  });
}

// The sums of a tile whose blocks are computed one after the other.
template <class Element, int kRows, int kVectors>
class WaitingBlocks {
 public:
  using Compute = ComputeType<Element>;
  static constexpr int64_t kCols = kVectors * hn::MaxLanes(hn::ScalableTag<Compute>());

  // See TileSums.
  WaitingBlocks(double* finished, bool begun) : sums_{kRows, kCols, finished, begun, waiting_, 0} {}
  WaitingBlocks(const WaitingBlocks&) = delete;

  // The place for the sums of the next block.
  HWY_INLINE Compute* Next() {
    if (sums_.num_waiting == kMostWaiting) {
      FinishBlocks(sums_);
      sums_.begun = true;
      sums_.num_waiting = 0;
    }
    return waiting_ + sums_.num_waiting++ * kRows * kCols;
  }
  const TileSums<Element>& sums() const { return sums_; }

 private:
  HWY_ALIGN Compute waiting_[kMostWaiting * kRows * kCols];
  TileSums<Element> sums_;
};

// A tile's result: see GemmTileArgs. It is held by value, or every store might change it.
template <class Element>
struct TileTarget {
  ComputeType<Element>* c;
  BFloat16* narrowed;
  bool stream;

  template <class D>
  HWY_INLINE void StoreWhole(D d, hn::Vec<D> value, int64_t at) const {
    if constexpr (kOfPairs<Element>) {
      if (narrowed != nullptr) {
        const hn::Rebind<uint16_t, D> dh;
        auto* to = reinterpret_cast<uint16_t*>(narrowed + at);
        return stream ? hn::Stream(Narrowed(d, value), dh, to)
                      : hn::StoreU(Narrowed(d, value), dh, to);
      }
    }
    stream ? hn::Stream(value, d, c + at) : hn::StoreU(value, d, c + at);
  }
  template <class D>
  HWY_INLINE void StorePart(D d, hn::Vec<D> value, int64_t at, int64_t count) const {
    if constexpr (kOfPairs<Element>) {
      if (narrowed != nullptr) return StoreFirst(d, value, narrowed + at, count);
    }
    StoreFirst(d, value, c + at, count);
  }
};

// The sum of two floats in double, rounded to float, is their sum in float: a double's precision is
// more than twice a float's and two bits (S. A. Figueroa, When is double rounding innocuous?,
// 1995).
template <class D, class Element>
HWY_INLINE hn::Vec<D> SumOfTwoBlocks(D d, const TileSums<Element>& sums, int64_t at) {
  const auto first = hn::LoadU(d, sums.waiting + at);
  return OnlyBlock<Element>(d, hn::Add(first, hn::LoadU(d, sums.waiting + sums.count() + at)));
}

// sum_at(d, at): the vector of the tile's result at this place of its sums.
template <class Element, class F>
HWY_INLINE void StoreRows(const GemmTileArgs<Element>& args, const int64_t* c_rows,
                          int64_t num_rows, int64_t cols, const F& sum_at) {
  const hn::ScalableTag<ComputeType<Element>> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const TileTarget<Element> target{args.c, args.narrowed, args.stream};
  const int64_t num_cols = args.num_cols, whole_cols = num_cols - num_cols % lanes;
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t from = i * cols, to = c_rows[i];
    for (int64_t j = 0; j < whole_cols; j += lanes) {
      target.StoreWhole(d, sum_at(d, from + j), to + j);
    }
    if (whole_cols == num_cols) continue;
    target.StorePart(d, sum_at(d, from + whole_cols), to + whole_cols, num_cols - whole_cols);
  }
}

// The first rows of a tile, whose sums these are, become these rows of the result.
template <class Element>
HWY_NOINLINE void FinishRows(const GemmTileArgs<Element>& args, const int64_t* c_rows,
                             int64_t num_rows, const TileSums<Element> sums) {
  const auto store = [&](const auto& sum_at)
                         HWY_ATTR { StoreRows(args, c_rows, num_rows, sums.cols, sum_at); };
  const auto store_sums = [&](auto finish) HWY_ATTR {
    WithWaiting(sums.num_waiting, [&](auto waiting) HWY_ATTR {
      store([&](auto d, int64_t at)
                HWY_ATTR { return SumOfBlocks<waiting>(d, sums, at).template Result<finish>(d); });
    });
  };
  if constexpr (sizeof(ComputeType<Element>) == 4) {
    if (!args.odd && !sums.begun && sums.num_waiting == 2) {
      return store([&](auto d, int64_t at) HWY_ATTR { return SumOfTwoBlocks(d, sums, at); });
    }
  }
  if (args.odd) {
    store_sums(std::integral_constant<Finish, Finish::kOdd>());
  } else {
    store_sums(std::integral_constant<Finish, Finish::kNearest>());
  }
}

// The rows of the tile `tile` become its part of the result.
template <class Element>
HWY_INLINE void FinishTile(const GemmTileArgs<Element>& args, int64_t tile,
                           const TileSums<Element>& sums) {
  FinishRows(args, args.c_rows + tile * sums.rows, args.RowsOf(tile, sums.rows), sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
