#include "problem/misfit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "problem/attributes.h"
#include "problem/shapes.h"

namespace convgrad {
namespace {

struct Variation {
  ConvSpec spec;
  std::string suggestion;
};

// The first that is legal.
std::string FirstLegal(const std::vector<Variation>& variations, const IsLegal& is_legal) {
  for (const Variation& variation : variations) {
    if (is_legal(variation.spec)) return variation.suggestion;
  }
  return "";
}

// The same heights and widths whatever the layout.
ConvSpec WithShortAttributes(const ConvSpec& spec) {
  const Attributes a = CheckAttributes(spec);
  ConvSpec copy = spec;
  copy.strides = {a.stride_h, a.stride_w};
  copy.dilations = {a.dilation_h, a.dilation_w};
  if (spec.padding == Padding::kExplicit) {
    copy.explicit_paddings = {a.pad_top, a.pad_bottom, a.pad_left, a.pad_right};
  }
  return copy;
}

// The filter's shape as given, whether it is an operand or a sizes vector.
Shape* FilterOf(ConvSpec& spec) {
  return spec.filter ? &*spec.filter : &spec.filter_sizes->values;
}

// The input's shape likewise; null for the short form of the sizes.
const Shape* InputOf(const ConvSpec& spec) {
  if (spec.input) return &*spec.input;
  const bool is_full = spec.input_sizes && spec.input_sizes->values.size() == 4;
  return is_full ? &spec.input_sizes->values : nullptr;
}

// A filter that is larger than the image may be legal but is hardly what was meant.
bool IsPlausible(ConvSpec spec) {
  const Shape* input = InputOf(spec);
  if (!input) return true;
  const ImageSizes image = ImageSizesOf(*input, spec.data_format);
  const Shape& filter = *FilterOf(spec);
  const FilterAxes axes = AxesOf(spec.filter_format);
  return filter[axes.height] <= image.h && filter[axes.width] <= image.w;
}

void AddOtherFormat(const ConvSpec& spec, std::vector<Variation>& variations) {
  Variation other = {spec, ""};
  other.spec.data_format = OtherFormat(spec.data_format);
  other.suggestion = fmt::format("the shapes fit data_format {}, given is {}",
                                 NameOf(other.spec.data_format), NameOf(spec.data_format));
  variations.push_back(std::move(other));
}

// Filters of other programs, with images as given or, as PyTorch and ONNX have both, in the other
// order too.
void AddOtherFilterFormats(const ConvSpec& spec, std::vector<Variation>& variations) {
  for (const FilterFormat format : kAllFilterFormats) {
    if (format == spec.filter_format) continue;
    for (const bool same_images : {true, false}) {
      Variation other = {spec, ""};
      other.spec.filter_format = format;
      if (!same_images) other.spec.data_format = OtherFormat(spec.data_format);
      other.suggestion = fmt::format(
          "the shapes fit filter_format {}{}, given is {}{}", NameOf(format),
          same_images ? "" : fmt::format(" with data_format {}", NameOf(other.spec.data_format)),
          NameOf(spec.filter_format),
          same_images ? "" : fmt::format(" with {}", NameOf(spec.data_format)));
      variations.push_back(std::move(other));
    }
  }
}

// Filters of transposed convolutions in TensorFlow, which no format names.
void AddSwappedFilterChannels(const ConvSpec& spec, std::vector<Variation>& variations) {
  if (spec.filter_format != FilterFormat::kHWIO) return;
  Variation other = {spec, ""};
  Shape& shape = *FilterOf(other.spec);
  if (shape[2] == shape[3]) return;
  std::swap(shape[2], shape[3]);
  other.suggestion = fmt::format(
      "the filter seems to be in [height,width,out,in] order: {} would fit", ToString(shape));
  variations.push_back(std::move(other));
}

// Sizes in NCHW order beside tensors in NHWC, or the other way round.
void AddOtherSizesOrder(const ConvSpec& spec, std::vector<Variation>& variations) {
  if (!spec.input_sizes || spec.input_sizes->values.size() != 4) return;
  const DataFormat other_format = OtherFormat(spec.data_format);
  Variation other = {spec, ""};
  Shape& sizes = other.spec.input_sizes->values;
  sizes = ToShape(ImageSizesOf(sizes, other_format), spec.data_format);
  other.suggestion = fmt::format("input_sizes seem to be in {} order: {} would fit",
                                 NameOf(other_format), ToString(sizes));
  variations.push_back(std::move(other));
}

void AddSwappedOperands(const ConvSpec& spec, std::vector<Variation>& variations) {
  Variation other = {spec, "the two operands seem to be swapped"};
  const auto& operands = InfoOf(spec.op).operands;
  const auto shape_of = [&](Role role) -> std::optional<Shape>& {
    if (role == Role::kInput) return other.spec.input;
    return role == Role::kFilter ? other.spec.filter : other.spec.out_backprop;
  };
  std::swap(shape_of(operands[0]), shape_of(operands[1]));
  variations.push_back(std::move(other));
}

// conv2d for depthwise_conv2d or the other way round.
void AddOtherKindOfOp(const ConvSpec& spec, std::vector<Variation>& variations) {
  const OpInfo& info = InfoOf(spec.op);
  for (const OpInfo& other_info : AllOps()) {
    if (other_info.direction != info.direction || other_info.depthwise == info.depthwise) continue;
    Variation other = {spec, fmt::format("the shapes fit {}", other_info.name)};
    other.spec.op = other_info.op;
    variations.push_back(std::move(other));
  }
}

// The stride nearest to the given one from above, or from 1 on, that gives the wanted size.
std::optional<int64_t> StrideThatFits(Window window, std::optional<int64_t> out) {
  constexpr int64_t kMostStrides = 64;
  const auto fits = [&](int64_t stride) {
    window.stride = stride;
    const int64_t size = FitWindow(window).out;
    return out ? size == *out : size >= 0;
  };
  if (fits(window.stride)) return window.stride;
  for (int64_t stride = 1; stride <= kMostStrides; ++stride) {
    if (fits(stride)) return stride;
  }
  return std::nullopt;
}

void AddOtherStrides(const ConvSpec& spec, WantedWindows wanted,
                     std::vector<Variation>& variations) {
  wanted.rows.padding = wanted.cols.padding = spec.padding;
  const auto stride_h = StrideThatFits(wanted.rows, wanted.out_h);
  const auto stride_w = StrideThatFits(wanted.cols, wanted.out_w);
  if (!stride_h || !stride_w) return;
  Variation other = {spec, fmt::format("padding {} with strides {},{} would fit",
                                       NameOf(spec.padding), *stride_h, *stride_w)};
  other.spec.strides = {*stride_h, *stride_w};
  variations.push_back(std::move(other));
}

// The least pads that give the wanted size, split as SAME does.
std::pair<int64_t, int64_t> PadsThatFit(const Window& window, std::optional<int64_t> out) {
  const int64_t covered = (std::max<int64_t>(1, out.value_or(1)) - 1) * window.stride +
                          EffectiveKernel(window.kernel, window.dilation);
  const int64_t pads = std::max<int64_t>(0, covered - window.in);
  return {pads / 2, pads - pads / 2};
}

// As short as can be: "1", "1,2" for height and width, or "0,1,0,1".
std::string PadsInWords(const std::array<int64_t, 4>& pads) {
  const auto [top, bottom, left, right] = pads;
  if (top != bottom || left != right) {
    return fmt::format("{},{},{},{} (top,bottom,left,right)", top, bottom, left, right);
  }
  return top == left ? fmt::format("{}", top) : fmt::format("{},{}", top, left);
}

void AddOtherPads(const ConvSpec& spec, const WantedWindows& wanted,
                  std::vector<Variation>& variations) {
  const auto [top, bottom] = PadsThatFit(wanted.rows, wanted.out_h);
  const auto [left, right] = PadsThatFit(wanted.cols, wanted.out_w);
  Variation other = {spec,
                     fmt::format("padding {} would fit", PadsInWords({top, bottom, left, right}))};
  other.spec.padding = Padding::kExplicit;
  other.spec.explicit_paddings = {top, bottom, left, right};
  variations.push_back(std::move(other));
}

ConvSpec WithPadding(ConvSpec spec, Padding padding) {
  spec.padding = padding;
  spec.explicit_paddings.clear();
  return spec;
}

}  // namespace

std::string SuggestOtherMeaning(const ConvSpec& given, const IsLegal& is_legal) {
  const ConvSpec spec = WithShortAttributes(given);
  std::vector<Variation> variations;
  AddOtherFormat(spec, variations);
  AddOtherSizesOrder(spec, variations);
  AddOtherKindOfOp(spec, variations);
  AddOtherFilterFormats(spec, variations);
  AddSwappedFilterChannels(spec, variations);
  AddSwappedOperands(spec, variations);
  return FirstLegal(variations, [&](const ConvSpec& variation) {
    return is_legal(variation) && IsPlausible(variation);
  });
}

std::string SuggestOtherAttributes(const ConvSpec& given, const WantedWindows& wanted,
                                   const IsLegal& is_legal) {
  const ConvSpec spec = WithShortAttributes(given);
  std::vector<Variation> variations;
  for (const Padding padding : {Padding::kSame, Padding::kValid}) {
    if (padding == spec.padding) continue;
    variations.push_back(
        {WithPadding(spec, padding), fmt::format("padding {} would fit", NameOf(padding))});
  }
  AddOtherStrides(spec, wanted, variations);
  Variation undilated = {spec, "dilations 1,1 would fit"};
  undilated.spec.dilations = {1, 1};
  variations.push_back(std::move(undilated));
  AddOtherPads(spec, wanted, variations);
  AddOtherStrides(WithPadding(spec, Padding::kSame), wanted, variations);
  AddOtherStrides(WithPadding(spec, Padding::kValid), wanted, variations);
  return FirstLegal(variations, is_legal);
}

}  // namespace convgrad
