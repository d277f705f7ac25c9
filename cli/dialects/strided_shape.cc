#include "cli/dialects/strided_shape.h"

#include <fmt/format.h>

#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

void CheckRank(const StridedShape& shape, const char* name) {
  if (shape.sizes.size() == 5) throw Refusal(kThreeDimensional);
  if (shape.sizes.size() != 3 && shape.sizes.size() != 4) {
    throw Refusal(kContradiction, fmt::format("{} of {} dimensions", name, shape.sizes.size()));
  }
}

}  // namespace

bool StridedShape::HasChannelsLast() const {
  if (strides.size() != sizes.size() || sizes.size() < 3) return false;
  // A dimension of one tells nothing by its stride.
  for (size_t i = 2; i < sizes.size(); ++i) {
    if (sizes[i] > 1) return sizes[1] > 1 && strides[1] < strides.back();
  }
  return false;
}

void SetShapes(const StridedShape& input, const StridedShape& filter, LoggedConv& conv) {
  CheckRank(input, "an input");
  CheckRank(filter, "a filter");
  if (input.sizes.size() != filter.sizes.size()) {
    throw Refusal(kContradiction, "input and filter have as many dimensions");
  }
  conv.batch = input.sizes[0];
  conv.in_c = input.sizes[1];
  conv.out_c = filter.sizes[0];
  conv.cols.in = input.sizes.back();
  conv.cols.kernel = filter.sizes.back();
  if (input.sizes.size() == 4) {
    conv.rows.in = input.sizes[2];
    conv.rows.kernel = filter.sizes[2];
  }
  if (input.HasChannelsLast()) conv.data_format = DataFormat::kNHWC;
  if (filter.HasChannelsLast()) conv.filter_format = FilterFormat::kOHWI;
}

SpatialPair ToPair(const std::vector<int64_t>& numbers, size_t spatial, int64_t of_height_one,
                   const char* name) {
  if (spatial == 1 && numbers.size() == 1) return {of_height_one, numbers[0]};
  if (spatial == 2 && numbers.size() == 1) return {numbers[0], numbers[0]};
  if (spatial == 2 && numbers.size() == 2) return {numbers[0], numbers[1]};
  throw Refusal(kContradiction, fmt::format("{} {} for {}", numbers.size(), name,
                                            Plural(spatial, "spatial dimension")));
}

}  // namespace convgrad::cli
