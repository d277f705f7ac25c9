// The micro-kernel of outer products; see vector_outer.h. Included once per target.
#if defined(CONVGRAD_KERNELS_VECTOR_OUTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_VECTOR_OUTER_INL_H_
#undef CONVGRAD_KERNELS_VECTOR_OUTER_INL_H_
#else
#define CONVGRAD_KERNELS_VECTOR_OUTER_INL_H_
#endif

#include "kernels/gemm/tile_sizes.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <class Compute, int kRows, int kCols>
class OuterTileKernel {
 public:
  static void Run(const OuterTileArgs<Compute>& args) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t a_step = args.a_step * lanes, b_step = args.b_step * lanes;
    hn::Vec<D> acc[kRows][kCols];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) acc[i][j] = hn::Zero(d);
    }
    for (const GemmSegment& segment : args.segments) {
      // Pointers of the rows and one common index, as in gemm_tile-inl.h.
      const Compute* rows[kRows];
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) rows[i] = args.a + (args.a_rows[i] + segment.a) * lanes;
      const Compute* b = args.b + segment.b * lanes;
      int64_t at = 0;
      for (int64_t k = segment.length; k > 0; --k, at += a_step, b += b_step) {
        hn::Vec<D> factors[kCols];
#pragma GCC unroll 16
        for (int j = 0; j < kCols; ++j) factors[j] = InRegister(hn::Load(d, b + j * lanes));
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          const auto vector = hn::Load(d, rows[i] + at);
#pragma GCC unroll 16
          for (int j = 0; j < kCols; ++j) acc[i][j] = Fma(factors[j], vector, acc[i][j]);
        }
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) hn::Store(acc[i][j], d, args.sums + (i * kCols + j) * lanes);
    }
  }

 private:
  using D = hn::ScalableTag<Compute>;
};

// Sizes by registers: accumulators, the factors of a term and one vector must fit. A 3x3 filter has
// nine rows for each input channel.
inline constexpr TileSize kOuterSizes[] = {{9, 1}, {9, 2}, {8, 3}, {6, 4}, {5, 5}, {4, 6},
                                           {3, 8}, {4, 1}, {3, 3}, {2, 6}, {1, 6}};
inline constexpr TileSize kOuterSizesOfFewRegisters[] = {{9, 1}, {6, 2}, {4, 3}, {3, 4},
                                                         {4, 1}, {2, 4}, {1, 6}};

template <class Compute>
std::span<const OuterTile<Compute>> OuterTiles() {
  if constexpr (kManyRegisters) {
    return TilesOfSizes<OuterTile<Compute>, OuterTileKernel, Compute, kOuterSizes>();
  } else {
    return TilesOfSizes<OuterTile<Compute>, OuterTileKernel, Compute, kOuterSizesOfFewRegisters>();
  }
}

template <class Compute>
VectorOuterKernels<Compute> MakeVectorOuterKernels() {
  return {static_cast<int>(hn::Lanes(hn::ScalableTag<Compute>())), OuterTiles<Compute>()};
}

inline void FillVectorOuter(KernelTable& table) {
  table.outer_f32 = MakeVectorOuterKernels<float>();
  table.outer_f64 = MakeVectorOuterKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
