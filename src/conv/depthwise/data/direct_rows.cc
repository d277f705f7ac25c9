#include "conv/depthwise/data/direct_rows.h"

#include <cstdint>

#include "kernels/depthwise/depthwise_rows.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

bool Fits(const Dimension& dimension) {
  return dimension.kernel == kRowsTaps && dimension.dilation == 1 && dimension.stride <= 2;
}

// At most the first and the last position that results read are off the source. An input gradient
// without a stride is a forward whose taps descend.
bool HasNarrowEnds(const Dimension& of) {
  if (IsSpread(of)) return (of.pad + of.num_results() - 1) / 2 <= of.num_sources();
  const int64_t first = of.forward ? -of.pad : of.pad - (kRowsTaps - 1);
  const int64_t step = of.forward ? of.stride : 1;
  const int64_t last = first + (of.num_results() - 1) * step + kRowsTaps - 1;
  return first >= -1 && last <= of.num_sources();
}

}  // namespace

bool IsSpread(const Dimension& dimension) {
  return !dimension.forward && dimension.stride == 2;
}

bool CanMakeAllRows(const Dimension& rows, const Dimension& cols) {
  return Fits(rows) && Fits(cols) && rows.stride == cols.stride &&
         cols.num_results() >= kLeastRowsColumns && HasNarrowEnds(cols);
}

bool CanTakeRowsInTurn(const Dimension& rows, const Dimension& cols) {
  return rows.kernel * cols.kernel <= kBlockTerms && cols.kernel <= kMostTapsInTurn;
}

}  // namespace convgrad
