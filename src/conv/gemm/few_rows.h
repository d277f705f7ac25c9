// The forms on the micro-kernel of few rows (kernels/gemm/few_rows.h) share for which types there
// is one, and what a product is counted to take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "conv/plan/computed_plan.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// True where there are vectors.
inline bool HasFewRowsKernel(const KernelTable& kernels) {
  return kernels.few_rows_f32.run != nullptr;
}

// A number that is copied into the first cache counts as so many of 4 bytes: one of 16 bits, which
// is widened, comes with half as many lines.
template <class Stored>
inline constexpr double kCopiedNear = sizeof(Stored) / 4.0;

struct ProductSizes {
  int64_t rows, cols, terms;
};

// True where a vector is a whole line.
template <class Compute>
bool HasLineVectors(const FewRowsKernels<Compute>& kernels) {
  return kernels.lanes * int64_t{sizeof(Compute)} == kLineBytes;
}

// Adds `times` products whose sums are stored once. Each term of a tile takes its multiply-adds,
// and no less than a sum waits for its last term. Vectors come from the first cache: whole lines as
// soon as to kernels on whole vectors, shorter ones as to other matrix kernels.
template <class Compute>
void AddProducts(Work& work, const FewRowsKernels<Compute>& kernels, double times,
                 const ProductSizes& sizes, const FewRowsTile& tile) {
  constexpr double kStored = 0.5;  // of what it takes to fold a sum, too
  const bool lines = HasLineVectors(kernels);
  const int64_t vectors = CeilDiv(sizes.cols, kernels.lanes);
  const int64_t tile_vectors = std::min<int64_t>(tile.vectors, vectors);
  const double tiles =
      times * Product(CeilDiv(sizes.rows, int64_t{tile.rows}), CeilDiv(vectors, tile_vectors));
  const int64_t sums = tile.rows * tile_vectors;
  work.Add(WorkKind::kGemmFma, tiles * Product(sizes.terms, std::max(sums, WaitingSlots(lines))));
  work.Add(lines ? WorkKind::kWholeLoad : WorkKind::kGemmLoad,
           tiles * Product(sizes.terms, tile_vectors));
  work.Add(WorkKind::kGemmSingle, tiles * Product(sizes.terms, tile.rows));
  work.Add(WorkKind::kSegment, tiles);
  work.Add(WorkKind::kFold, kStored * times * Product(sizes.rows, vectors));
}

template <class Compute>
void AddProducts(Work& work, const FewRowsKernels<Compute>& kernels, double times,
                 const ProductSizes& sizes) {
  AddProducts(work, kernels, times, sizes, kernels.TileOf(sizes.rows, /*turned=*/false));
}

}  // namespace convgrad
