// The forms on the micro-kernel of few rows (kernels/gemm/few_rows.h) share for which types there
// is one, and what a product is counted to take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "base/memory.h"
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

// Tiles side by side of so many vectors: the last ones are shared, see the kernel's TileColumns.
inline int64_t TilesAcross(int64_t vectors, int64_t most) {
  const int64_t whole = std::max<int64_t>(vectors - 2, 0) / most;
  return whole + (vectors - whole * most > most ? 2 : 1);
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
  const int64_t across = TilesAcross(vectors, tile.vectors);
  const double down = times * Product(CeilDiv(sizes.rows, int64_t{tile.rows}));
  const int64_t slots = std::max(tile.rows * vectors, WaitingSlots(lines) * across);
  work.Add(WorkKind::kGemmFma, down * Product(sizes.terms, slots));
  work.Add(lines ? WorkKind::kWholeLoad : WorkKind::kGemmLoad,
           down * Product(sizes.terms, vectors));
  work.Add(WorkKind::kGemmSingle, down * Product(sizes.terms, tile.rows, across));
  work.Add(WorkKind::kSegment, down * Product(across));
  work.Add(WorkKind::kFold, kStored * times * Product(sizes.rows, vectors));
}

template <class Compute>
void AddProducts(Work& work, const FewRowsKernels<Compute>& kernels, double times,
                 const ProductSizes& sizes) {
  AddProducts(work, kernels, times, sizes, kernels.TileOf(sizes.rows, /*turned=*/false));
}

}  // namespace convgrad
