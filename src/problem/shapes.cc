#include "problem/shapes.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "problem/attributes.h"

namespace convgrad {
namespace {

// Why a shape without negative dimensions is too large, or "".
std::string WhyTooLarge(const Shape& shape) {
  for (const int64_t size : shape) {
    if (size > kMaxDimension) {
      return fmt::format("{} is too large: the limit of a dimension is {}", size, kMaxDimension);
    }
  }
  const std::optional<int64_t> elements = CheckedProduct(shape);
  if (elements && *elements <= kMaxElements) return "";
  return fmt::format("too large: the limit is {} elements", kMaxElements);
}

// Shows a few dimensions only: the vector comes from outside and can be long.
std::string Shown(const Shape& shape) {
  constexpr size_t kMostShown = 16;
  if (shape.size() <= kMostShown) return ToString(shape);
  const std::string shown = ToString(std::span(shape).first(kMostShown));
  return shown.substr(0, shown.size() - 1) + ",...]";
}

std::string FixOfRank(const Shape& shape) {
  if (shape.size() != 3) return "";
  return fmt::format("a dimension of 1 may be missing: reshape it to [1,{}",
                     ToString(shape).substr(1));
}

[[noreturn]] void ThrowSizes(const Sizes& sizes, const char* code, std::string what,
                             std::string why, std::string fix = "") {
  if (sizes.from_file) ThrowData(code, std::move(what), std::move(why), std::move(fix));
  ThrowUsage(code, std::move(what), std::move(why), std::move(fix));
}

}  // namespace

ImageSizes ImageSizesOf(const Shape& shape, DataFormat format) {
  const ImageAxes axes = AxesOf(format);
  return {shape[axes.batch], shape[axes.height], shape[axes.width], shape[axes.channel]};
}

Shape ToShape(const ImageSizes& sizes, DataFormat format) {
  if (format == DataFormat::kNHWC) return {sizes.batch, sizes.h, sizes.w, sizes.c};
  return {sizes.batch, sizes.c, sizes.h, sizes.w};
}

void CheckShape(const char* name, const Shape& shape) {
  const std::string what = fmt::format("{} {}", name, Shown(shape));
  if (shape.size() != 4) {
    ThrowData("shape/rank", what, fmt::format("must have 4 dimensions, has {}", shape.size()),
              FixOfRank(shape));
  }
  for (const int64_t size : shape) {
    if (size < 0) ThrowData("shape/negative", what, fmt::format("{} is negative", size));
  }
  const std::string reason = WhyTooLarge(shape);
  if (!reason.empty()) ThrowData("shape/too-large", what, reason);
}

void CheckSizes(const char* name, const Sizes& sizes, ShortForm short_form) {
  const std::string what = fmt::format("{} {}", name, Shown(sizes.values));
  const size_t count = sizes.values.size();
  const bool short_allowed = short_form == ShortForm::kAllowed;
  if (count != 4 && !(short_allowed && count == 2)) {
    ThrowSizes(sizes, "sizes/length", what,
               fmt::format("must have {}, has {}",
                           short_allowed ? "4 values, or 2 (height, width)" : "4 values", count));
  }
  for (const int64_t size : sizes.values) {
    if (size < 0) ThrowSizes(sizes, "sizes/negative", what, fmt::format("{} is negative", size));
  }
  const std::string reason = WhyTooLarge(sizes.values);
  if (!reason.empty()) ThrowSizes(sizes, "sizes/too-large", what, reason);
}

}  // namespace convgrad
