// The micro-kernel of products of planes; see plane_squares.h. Included once per target.
#if defined(CONVGRAD_KERNELS_PLANE_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PLANE_SQUARES_INL_H_
#undef CONVGRAD_KERNELS_PLANE_SQUARES_INL_H_
#else
#define CONVGRAD_KERNELS_PLANE_SQUARES_INL_H_
#endif

#include "kernels/gemm/held_sums-inl.h"
#include "kernels/gemm/multiplier-inl.h"
#include "kernels/gemm/tile_sizes.h"
#include "kernels/kernel_table.h"
#include "kernels/pack/transpose-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

template <class Compute, int kRows, int kVectors>
class PlaneSquares {
 public:
  static void Run(const PlaneSquareArgs<Compute>& args) {
    Sums sums;
    sums.SetZero();
    AddSegments(args, sums);
    sums.Fold(args.sums, args.errors);
  }

 private:
  using D = hn::ScalableTag<Compute>;
  using V = hn::Vec<D>;
  using Times = Multiplier<Compute, D>;
  using Sums = HeldSums<Compute, kRows, kVectors>;
  static constexpr int64_t kLanes = hn::MaxLanes(D());

  static HWY_INLINE void AddSegments(const PlaneSquareArgs<Compute>& args, Sums& sums) {
    const bool whole = args.num_cols == kVectors * kLanes;
    for (const GemmSegment& segment : args.segments) {
      const Compute* rows[kRows];
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) rows[i] = args.a + args.a_rows[i] + segment.a;
      const Compute* columns = args.b + segment.b;
      int64_t at = 0;
      for (; at + kLanes <= segment.length; at += kLanes) {
        if (whole) {
          AddSquares<true>(args, rows, columns, at, sums);
        } else {
          AddSquares<false>(args, rows, columns, at, sums);
        }
      }
      if (at < segment.length) AddRest(args, rows, columns, at, segment.length - at, sums);
    }
  }

  // Adds as many terms as a vector has numbers.
  template <bool kWhole>
  static HWY_INLINE void AddSquares(const PlaneSquareArgs<Compute>& args,
                                    const Compute* const (&rows)[kRows], const Compute* columns,
                                    int64_t at, Sums& sums) {
    const Compute* here[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) here[i] = Opaque(rows[i] + at);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (!kWhole && v * kLanes >= args.num_cols) break;
      const int64_t step = Opaque(args.b_col_step);
      const Compute* corner = Opaque(columns + v * kLanes * step + at);
      const int64_t num_cols = HWY_MIN(kLanes, args.num_cols - v * kLanes);
      if (args.ahead != 0) FetchLines(corner, step, kWhole ? kLanes : num_cols, args.ahead);
      TransposeSquare<kWhole>(
          D(), num_cols, kLanes, [&](int64_t j) { return hn::LoadU(D(), corner + j * step); },
          [&](int64_t k, V terms) HWY_ATTR { AddTerm(here, k, terms, v, sums); });
    }
  }

  static HWY_INLINE void AddRest(const PlaneSquareArgs<Compute>& args,
                                 const Compute* const (&rows)[kRows], const Compute* columns,
                                 int64_t at, int64_t count, Sums& sums) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (v * kLanes >= args.num_cols) break;
      const Compute* corner = columns + v * kLanes * args.b_col_step + at;
      TransposeSquare<false>(
          D(), HWY_MIN(kLanes, args.num_cols - v * kLanes), count,
          [&](int64_t j)
              HWY_ATTR { return LoadWidenedFirst(D(), corner + j * args.b_col_step, count); },
          [&](int64_t k, V terms) HWY_ATTR { AddTerm(rows, at + k, terms, v, sums); });
    }
  }

  static HWY_INLINE void AddTerm(const Compute* const (&rows)[kRows], int64_t at, V terms, int v,
                                 Sums& sums) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#if HWY_TARGET == HWY_AVX3
      sums.at[i][v] = Times::AddTimes(rows[i] + at, terms, sums.at[i][v]);
#else
      sums.at[i][v] = Times::Add(Times::Broadcast(rows[i] + at), terms, sums.at[i][v]);
#endif
    }
  }
};

// Sizes by registers: sums, a square, and what transposing it takes must fit.
inline constexpr TileSize kPlaneSquareSizes[] = {{1, 2}, {2, 2}, {3, 2}, {4, 2},
                                                 {6, 2}, {4, 1}, {8, 1}, {12, 1}};
inline constexpr TileSize kPlaneSquareSizesOfFewRegisters[] = {{1, 2}, {2, 2}, {4, 1}, {6, 1}};

template <class Compute>
std::span<const PlaneSquareTile<Compute>> PlaneSquareTiles() {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<Compute>()));
  if constexpr (kManyRegisters) {
    return TilesOfSizes<PlaneSquareTile<Compute>, PlaneSquares, Compute, kPlaneSquareSizes,
                        kLanes>();
  } else {
    return TilesOfSizes<PlaneSquareTile<Compute>, PlaneSquares, Compute,
                        kPlaneSquareSizesOfFewRegisters, kLanes>();
  }
}

#else

template <class Compute>
std::span<const PlaneSquareTile<Compute>> PlaneSquareTiles() {
  return {};
}

#endif  // HWY_TARGET

template <class Compute>
PlaneSquareKernels<Compute> MakePlaneSquareKernels() {
  return {static_cast<int>(hn::Lanes(hn::ScalableTag<Compute>())), PlaneSquareTiles<Compute>()};
}

inline void FillPlaneSquares(KernelTable& table) {
  table.plane_squares_f32 = MakePlaneSquareKernels<float>();
  table.plane_squares_f64 = MakePlaneSquareKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
