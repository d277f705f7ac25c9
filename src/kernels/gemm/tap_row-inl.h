// The micro-kernel of one row of a filter; see tap_row.h. Included once per target.
#if defined(CONVGRAD_KERNELS_TAP_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_TAP_ROW_INL_H_
#undef CONVGRAD_KERNELS_TAP_ROW_INL_H_
#else
#define CONVGRAD_KERNELS_TAP_ROW_INL_H_
#endif

#include <vector>

#include "kernels/gemm/held_sums-inl.h"
#include "kernels/gemm/multiplier-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <class Compute, int kNumbers, int kVectors>
class TapRow {
 public:
  static void Run(const TapRowArgs<Compute>& args) {
    Sums sums;
    sums.SetZero();
    for (const GemmSegment& segment : args.segments) {
      const Compute* x_row = args.x + segment.a;
      const Compute* g_row = args.g + segment.b;
      for (int64_t row = segment.length; row > 0; --row) {
        const Compute *x = x_row, *g = g_row;
        for (const TapRowRange& range : args.before) {
          Fetch(g + args.ahead);
          AddColumn(x, g, range.first, range.last, sums);
          x += args.x_col_step;
          g += args.g_col_step;
        }
        for (int64_t k = args.whole; k > 0; --k) {
          Fetch(g + args.ahead);
          AddColumn(x, g, 0, kNumbers, sums);
          x += args.x_col_step;
          g += args.g_col_step;
        }
        for (const TapRowRange& range : args.behind) {
          Fetch(g + args.ahead);
          AddColumn(x, g, range.first, range.last, sums);
          x += args.x_col_step;
          g += args.g_col_step;
        }
        x_row += args.x_row_step;
        g_row += args.g_row_step;
      }
    }
    sums.Fold(args.sums, args.errors);
  }

 private:
  using D = hn::ScalableTag<Compute>;
  using Times = Multiplier<Compute, D>;
  using Sums = HeldSums<Compute, kNumbers, kVectors>;

  // A column of g, into the second cache.
  static HWY_INLINE void Fetch(const Compute* g) {
    constexpr int kLine = 64 / sizeof(Compute), kCols = kVectors * hn::MaxLanes(D());
#pragma GCC unroll 4
    for (int i = 0; i < kCols; i += kLine) __builtin_prefetch(g + i, 0, 2);
  }

  static HWY_INLINE void AddColumn(const Compute* x, const Compute* g, int first, int last,
                                   Sums& sums) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    hn::Vec<D> column[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) column[v] = Times::Load(g + v * lanes);
#pragma GCC unroll 32
    for (int t = 0; t < kNumbers; ++t) {
      if (t < first || t >= last) continue;
#if HWY_TARGET == HWY_AVX3
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums.at[t][v] = Times::AddTimes(x + t, column[v], sums.at[t][v]);
      }
#else
      const auto factor = Times::Broadcast(x + t);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums.at[t][v] = Times::Add(factor, column[v], sums.at[t][v]);
      }
#endif
    }
  }
};

// Sizes by registers: sums, a column's vectors and, where multiply-adds read none from memory, a
// factor must fit.
template <class Compute, int kNumbers, int kVectors>
void AddTapRow(std::vector<TapRowTile<Compute>>& tiles) {
  constexpr bool kFits =
      kManyRegisters ? (kNumbers + 1) * kVectors <= 32 : kNumbers * kVectors <= 12;
  if constexpr (kFits) {
    const int lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<Compute>()));
    tiles.push_back({kNumbers, kVectors * lanes, TapRow<Compute, kNumbers, kVectors>::Run});
  }
}

template <class Compute, int... kNumbers>
std::vector<TapRowTile<Compute>> TapRowTilesOf() {
  std::vector<TapRowTile<Compute>> tiles;
  (AddTapRow<Compute, kNumbers, 1>(tiles), ...);
  (AddTapRow<Compute, kNumbers, 2>(tiles), ...);
  (AddTapRow<Compute, kNumbers, 4>(tiles), ...);
  return tiles;
}

// Rows of 2 to 7 taps of one channel, of 3 taps of two and three.
template <class Compute>
TapRowKernels<Compute> MakeTapRowKernels() {
  static const std::vector<TapRowTile<Compute>> tiles =
      TapRowTilesOf<Compute, 2, 3, 4, 5, 6, 7, 9>();
  return {static_cast<int>(hn::Lanes(hn::ScalableTag<Compute>())), tiles};
}

inline void FillTapRow(KernelTable& table) {
  table.tap_row_f32 = MakeTapRowKernels<float>();
  table.tap_row_f64 = MakeTapRowKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
