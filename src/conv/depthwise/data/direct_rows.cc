#include "conv/depthwise/data/direct_rows.h"

#include "kernels/depthwise/depthwise_rows.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

bool Fits(const Dimension& dimension) {
  return dimension.kernel == kRowsTaps && dimension.dilation == 1 && dimension.stride <= 2;
}

}  // namespace

// An input gradient without a stride is a forward whose taps descend.
RowsAxis::RowsAxis(const Dimension& dimension)
    : of(dimension),
      spread(!dimension.forward && dimension.stride == 2),
      first(dimension.forward ? -dimension.pad
            : spread          ? dimension.pad
                              : dimension.pad - (kRowsTaps - 1)),
      first_tap(dimension.forward || spread ? 0 : kRowsTaps - 1),
      tap_step(dimension.forward || spread ? 1 : -1) {}

bool RowsAxis::HasNarrowEnds() const {
  if (spread) return (first + of.num_results() - 1) / 2 <= of.num_sources();
  const int64_t step = of.forward ? of.stride : 1;
  const int64_t last = first + (of.num_results() - 1) * step + kRowsTaps - 1;
  return first >= -1 && last <= of.num_sources();
}

bool CanMakeAllRows(const Dimension& rows, const Dimension& cols) {
  return Fits(rows) && Fits(cols) && rows.stride == cols.stride &&
         cols.num_results() >= kLeastRowsColumns && RowsAxis(cols).HasNarrowEnds();
}

bool CanTakeRowsInTurn(const Dimension& rows, const Dimension& cols) {
  return rows.kernel * cols.kernel <= kBlockTerms && cols.kernel <= kMostTapsInTurn;
}

}  // namespace convgrad
