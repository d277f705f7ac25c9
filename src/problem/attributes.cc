#include "problem/attributes.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace convgrad {
namespace {

using Values = std::vector<int64_t>;

std::string Given(const char* attribute, const Values& values) {
  return fmt::format("{} {}", attribute, ToString(values));
}

void CheckLimit(const char* attribute, const Values& values) {
  for (const int64_t value : values) {
    if (value > kMaxDimension) {
      ThrowUsage(fmt::format("attribute/{}", attribute), Given(attribute, values),
                 fmt::format("{} is too large: the limit is {}", value, kMaxDimension));
    }
  }
}

// True if 4 strides or dilations are 1 in the batch and channel dimensions.
bool IsOneOutside(const Values& values, const ImageAxes& axes) {
  return values[axes.batch] == 1 && values[axes.channel] == 1;
}

std::string FixOfOrder(bool fits_other_format, DataFormat format) {
  const ImageAxes axes = AxesOf(format);
  if (fits_other_format) {
    return fmt::format("they fit the order of data_format {}, given is {}",
                       NameOf(OtherFormat(format)), NameOf(format));
  }
  return fmt::format(
      "data_format is {}, so height and width are values {} and {}; or give only these",
      NameOf(format), axes.height + 1, axes.width + 1);
}

// Strides or dilations, as height and width.
std::pair<int64_t, int64_t> CheckSteps(const char* attribute, const Values& values,
                                       DataFormat format) {
  const std::string code = fmt::format("attribute/{}", attribute);
  const std::string given = Given(attribute, values);
  const ImageAxes axes = AxesOf(format);
  if (values.size() != 1 && values.size() != 2 && values.size() != 4) {
    ThrowUsage(code, given, fmt::format("has {} values", values.size()),
               fmt::format("give 1, 2 (height, width) or 4 ({} order)", NameOf(format)));
  }
  if (values.size() == 4 && !IsOneOutside(values, axes)) {
    ThrowUsage(code, given, "must be 1 in the batch and channel dimensions",
               FixOfOrder(IsOneOutside(values, AxesOf(OtherFormat(format))), format));
  }
  for (const int64_t value : values) {
    if (value < 1) {
      ThrowUsage(code, given, fmt::format("must be at least 1, got {}", value), "give 1 for none");
    }
  }
  CheckLimit(attribute, values);
  if (values.size() == 1) return {values[0], values[0]};
  if (values.size() == 2) return {values[0], values[1]};
  return {values[axes.height], values[axes.width]};
}

constexpr const char* kPaddings = "explicit_paddings";
constexpr const char* kPaddingsCode = "attribute/explicit_paddings";

// 8 values in data_format order as top, bottom, left, right.
Values SpatialPaddings(const Values& values, DataFormat format) {
  const ImageAxes axes = AxesOf(format);
  const auto is_zero_outside = [&](const ImageAxes& a) {
    return values[2 * a.batch] == 0 && values[2 * a.batch + 1] == 0 && values[2 * a.channel] == 0 &&
           values[2 * a.channel + 1] == 0;
  };
  if (!is_zero_outside(axes)) {
    const bool fits_other = is_zero_outside(AxesOf(OtherFormat(format)));
    ThrowUsage(kPaddingsCode, Given(kPaddings, values),
               "must be 0 in the batch and channel dimensions",
               fits_other ? FixOfOrder(true, format) : "give only 4 values: top,bottom,left,right");
  }
  return {values[2 * axes.height], values[2 * axes.height + 1], values[2 * axes.width],
          values[2 * axes.width + 1]};
}

Values CheckPaddings(const ConvSpec& spec) {
  const Values& values = spec.explicit_paddings;
  if (spec.padding != Padding::kExplicit) {
    if (!values.empty()) {
      ThrowUsage(kPaddingsCode, Given(kPaddings, values),
                 fmt::format("have no meaning with padding {}", NameOf(spec.padding)),
                 "use padding EXPLICIT or leave them out");
    }
    return {0, 0, 0, 0};
  }
  if (values.size() != 4 && values.size() != 8) {
    ThrowUsage(kPaddingsCode, Given(kPaddings, values),
               fmt::format("padding EXPLICIT needs 4 or 8 values, got {}", values.size()),
               fmt::format("give top,bottom,left,right, or a pair for each dimension of {}",
                           NameOf(spec.data_format)));
  }
  for (const int64_t value : values) {
    if (value < 0) {
      ThrowUsage(kPaddingsCode, Given(kPaddings, values),
                 fmt::format("must not be negative, got {}", value), "crop the tensor instead");
    }
  }
  CheckLimit(kPaddings, values);
  return values.size() == 4 ? values : SpatialPaddings(values, spec.data_format);
}

}  // namespace

Attributes CheckAttributes(const ConvSpec& spec) {
  const auto [stride_h, stride_w] = CheckSteps("strides", spec.strides, spec.data_format);
  const auto [dilation_h, dilation_w] = CheckSteps("dilations", spec.dilations, spec.data_format);
  const Values pads = CheckPaddings(spec);
  return {stride_h, stride_w, dilation_h, dilation_w, pads[0], pads[1], pads[2], pads[3]};
}

}  // namespace convgrad
