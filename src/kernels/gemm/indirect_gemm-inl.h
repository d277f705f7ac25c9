// The sizes of the indirect matrix micro-kernel; see indirect_gemm.h. Included once per target.
#if defined(CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#undef CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#else
#define CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#endif

#include "kernels/gemm/even_rows-inl.h"
#include "kernels/gemm/gemm_tile-inl.h"
#include "kernels/gemm/tile_sizes.h"
#include "kernels/gemm/tile_sums-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <class Element, int kRows, int kVectors>
struct TileOfAnyColumns {
  static void Run(const GemmTileArgs<Element>& args) {
#if HWY_TARGET == HWY_AVX3
    constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<ComputeType<Element>>());
    if constexpr (kVectors <= 3) {  // of four an eighth would be saved
      if (args.num_cols <= kVectors * kLanes - kLanes / 2) {
        return Tile<Element, kRows, kVectors, true>::Run(args);
      }
    }
#endif
    Tile<Element, kRows, kVectors, false>::Run(args);
  }
};

// Sizes, in rows and vectors, by registers: accumulators, the vectors of a column and one broadcast
// factor must fit, and one load or broadcast should serve two multiply-adds. Of 16 general
// registers ten hold rows' addresses, which would else be loaded with every term.
inline constexpr TileSize kGemmSizes[] = {{14, 1}, {8, 1}, {4, 1}, {1, 1}, {13, 2}, {12, 2},
                                          {8, 2},  {4, 2}, {1, 2}, {8, 3}, {4, 3},  {2, 3},
                                          {1, 3},  {6, 4}, {4, 4}, {3, 4}, {2, 4},  {1, 4}};
inline constexpr TileSize kGemmSizesOfFewRegisters[] = {
    {10, 1}, {5, 1}, {3, 1}, {1, 1}, {6, 2}, {4, 2}, {2, 2}, {1, 2}, {4, 3}, {2, 3}, {1, 3}};
// They are few, since a size is as much code as with vectors.
inline constexpr TileSize kGemmSizesOfScalars[] = {{6, 1}, {1, 1}, {4, 2}, {1, 2},
                                                   {4, 3}, {2, 3}, {1, 3}};

template <class Element, const auto& kSizes>
std::span<const GemmTile<Element>> TilesOf() {
  constexpr int kLanes = hn::MaxLanes(hn::ScalableTag<ComputeType<Element>>());
  return TilesOfSizes<GemmTile<Element>, TileOfAnyColumns, Element, kSizes, kLanes>();
}

template <class Element>
std::span<const GemmTile<Element>> Tiles() {
  if constexpr (kManyRegisters) {
    return TilesOf<Element, kGemmSizes>();
  } else if constexpr (HWY_TARGET == HWY_SCALAR) {
    return TilesOf<Element, kGemmSizesOfScalars>();
  } else {
    return TilesOf<Element, kGemmSizesOfFewRegisters>();
  }
}

// Sums are read in whole vectors.
template <class Element>
void FoldBlocks(const ComputeType<Element>* sums, int64_t step, int64_t num_blocks,
                ComputeType<Element>* to, int64_t count) {
  using D = hn::ScalableTag<ComputeType<Element>>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t at = 0; at < count; at += lanes) {
    auto sum = BlockSum<D>::Zero(d);
    for (int64_t i = 0; i < num_blocks; ++i) sum.Add(d, hn::LoadU(d, sums + i * step + at));
    StoreUpTo(d, sum.template Result<Finish::kNearest>(d), to + at, count - at);
  }
}

template <class Element>
IndirectGemmKernels<Element> MakeIndirectGemmKernels() {
  using Compute = ComputeType<Element>;
  return {static_cast<int>(hn::Lanes(hn::ScalableTag<Compute>())),
          MasksColumns<Element>(),
          Tiles<Element>(),
          RunEvenRows<Element>,
          FoldBlocks<Element>,
          [](const double* sums, double* total, int64_t count)
              HWY_ATTR { FoldRun<Compute>(sums, sums + count, total, total + count, count); },
          [](const GemmTileArgs<Element>& args, int64_t rows, int64_t cols) HWY_ATTR {
            FinishTile(args, 0, {rows, cols, args.sums, true, nullptr, 0});
          }};
}

inline void FillIndirectGemm(KernelTable& table) {
  table.gemm_f32 = MakeIndirectGemmKernels<float>();
  table.gemm_f64 = MakeIndirectGemmKernels<double>();
#if HWY_TARGET == HWY_AVX3
  if (table.has_bf16_pairs) table.gemm_bf16_pairs = MakeIndirectGemmKernels<BFloat16Pair>();
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
