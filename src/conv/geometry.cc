#include "conv/geometry.h"

#include <fmt/format.h>

#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "conv/attributes.h"
#include "conv/window.h"

namespace convgrad {
namespace {

struct ImageSizes {
  int64_t batch, h, w, c;
};

ImageSizes InFormat(const Shape& shape, DataFormat format) {
  const ImageAxes axes = AxesOf(format);
  return {shape[axes.batch], shape[axes.height], shape[axes.width], shape[axes.channel]};
}

struct FilterSizes {
  int64_t h, w, in_c, last;  // `last`: output channels, or the multiplier of a depthwise filter
};

[[noreturn]] void ThrowSizes(const Sizes& sizes, std::string code, std::string what,
                             std::string why, std::string fix = "") {
  if (sizes.from_file) ThrowData(std::move(code), std::move(what), std::move(why), std::move(fix));
  ThrowUsage(std::move(code), std::move(what), std::move(why), std::move(fix));
}

// Checks what a sizes vector says by itself.
void CheckSizes(const char* name, const Sizes& sizes, bool two_allowed) {
  const std::string given = fmt::format("{} {}", name, ToString(sizes.values));
  const size_t count = sizes.values.size();
  if (count != 4 && !(two_allowed && count == 2)) {
    ThrowSizes(sizes, "sizes/length", fmt::format("{} of {} values", name, count),
               two_allowed ? "must have 4 values, or 2 (height, width)" : "must have 4 values");
  }
  for (const int64_t size : sizes.values) {
    if (size < 0) ThrowSizes(sizes, "sizes/negative", given, fmt::format("{} is negative", size));
    if (size > kMaxDimension) {
      ThrowSizes(sizes, "sizes/too-large", given,
                 fmt::format("{} is too large: the limit is {}", size, kMaxDimension));
    }
  }
  const auto elements = CheckedProduct(sizes.values);
  if (!elements || *elements > kMaxElements) {
    ThrowSizes(sizes, "sizes/too-large", given,
               fmt::format("names a tensor of more than {} elements", kMaxElements));
  }
}

void CheckShape(Role role, const Shape& shape) {
  if (shape.size() != 4) {
    ThrowData("shape/rank", fmt::format("{} {}", NameOf(role), ToString(shape)),
              fmt::format("must have 4 dimensions, has {}", shape.size()));
  }
  for (const int64_t size : shape) {
    if (size < 0 || size > kMaxDimension) {
      ThrowData("shape/too-large", fmt::format("{} {}", NameOf(role), ToString(shape)),
                fmt::format("dimensions must be from 0 to {}", kMaxDimension));
    }
  }
  const auto elements = CheckedProduct(shape);
  if (!elements || *elements > kMaxElements) {
    ThrowData("shape/too-large", fmt::format("{} {}", NameOf(role), ToString(shape)),
              fmt::format("has more than {} elements", kMaxElements));
  }
}

}  // namespace

// Turns a ConvSpec into a Problem, step by step in TensorFlow's order.
class ProblemMaker {
 public:
  explicit ProblemMaker(const ConvSpec& spec)
      : spec_(spec), info_(InfoOf(spec.op)), attributes_(CheckAttributes(spec)) {}

  Problem Make() {
    CheckOperands();
    CollectShapes();
    SetChannels();
    SetWindows();
    Shape output = {geometry_.batch, geometry_.out_h, geometry_.out_w, geometry_.out_c};
    CheckShape(Role::kOutBackprop, output);
    return {spec_.op, spec_.dtype, spec_.data_format, spec_.padding, geometry_};
  }

 private:
  void CheckOperands() const;
  void CollectShapes();
  void SetChannels();
  void SetWindows();
  void CheckOutBackprop() const;
  Shape ShapeFromInputSizes() const;

  const ConvSpec& spec_;
  const OpInfo& info_;
  const Attributes attributes_;
  ImageSizes input_ = {};
  FilterSizes filter_ = {};
  ConvGeometry geometry_ = {};
};

void ProblemMaker::CheckOperands() const {
  const auto given = [this](Role role) {
    switch (role) {
      case Role::kInput: return spec_.input.has_value();
      case Role::kFilter: return spec_.filter.has_value();
      case Role::kOutBackprop: return spec_.out_backprop.has_value();
    }
    return false;
  };
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    const bool needed = role == info_.operands[0] || role == info_.operands[1];
    if (needed && !given(role)) {
      ThrowUsage("operand/missing", info_.name, fmt::format("needs {}", NameOf(role)));
    }
    if (!needed && given(role)) {
      ThrowUsage("operand/unexpected", info_.name, fmt::format("takes no {}", NameOf(role)));
    }
  }
  if (!InfoOf(spec_.dtype).is_float) {
    ThrowData("dtype/unsupported", InfoOf(spec_.dtype).name, "is no type of an operand",
              "use float16, bfloat16, float32 or float64");
  }
}

Shape ProblemMaker::ShapeFromInputSizes() const {
  const std::vector<int64_t>& sizes = spec_.input_sizes->values;
  if (sizes.size() == 4) return sizes;
  const ImageAxes axes = AxesOf(spec_.data_format);
  Shape shape(4);
  shape[axes.batch] = (*spec_.out_backprop)[axes.batch];
  shape[axes.height] = sizes[0];
  shape[axes.width] = sizes[1];
  shape[axes.channel] = (*spec_.filter)[2];
  return shape;
}

void ProblemMaker::CollectShapes() {
  if (info_.direction == Direction::kBackpropInput) {
    if (!spec_.input_sizes) ThrowUsage("operand/missing", info_.name, "needs input_sizes");
    CheckSizes("input_sizes", *spec_.input_sizes, !info_.depthwise);
  }
  if (info_.direction == Direction::kBackpropFilter) {
    if (!spec_.filter_sizes) ThrowUsage("operand/missing", info_.name, "needs filter_sizes");
    CheckSizes("filter_sizes", *spec_.filter_sizes, false);
  }
  if (spec_.input) CheckShape(Role::kInput, *spec_.input);
  if (spec_.filter) CheckShape(Role::kFilter, *spec_.filter);
  if (spec_.out_backprop) CheckShape(Role::kOutBackprop, *spec_.out_backprop);
  const Shape input = spec_.input ? *spec_.input : ShapeFromInputSizes();
  const Shape& filter = spec_.filter ? *spec_.filter : spec_.filter_sizes->values;
  input_ = InFormat(input, spec_.data_format);
  filter_ = {filter[0], filter[1], filter[2], filter[3]};
}

void ProblemMaker::SetChannels() {
  ConvGeometry& g = geometry_;
  g.batch = input_.batch;
  g.in_h = input_.h;
  g.in_w = input_.w;
  g.in_c = input_.c;
  g.kernel_h = filter_.h;
  g.kernel_w = filter_.w;
  if (info_.depthwise) {
    if (filter_.in_c != input_.c) {
      ThrowData("shape/channels", "filter",
                fmt::format("is for {} input channels, the input has {}", filter_.in_c, input_.c));
    }
    g.groups = input_.c;
    g.group_in_c = 1;
    g.group_out_c = filter_.last;
    g.out_c = input_.c * filter_.last;
    return;
  }
  if (filter_.in_c == 0) ThrowData("shape/channels", "filter", "has no input channels");
  if (input_.c % filter_.in_c != 0) {
    ThrowData("shape/channels", "filter",
              fmt::format("has {} input channels, which do not divide the {} of the input",
                          filter_.in_c, input_.c));
  }
  g.groups = input_.c / filter_.in_c;
  if (g.groups > 0 && filter_.last % g.groups != 0) {
    ThrowData("shape/groups", "filter",
              fmt::format("its {} output channels can't be divided into {} groups", filter_.last,
                          g.groups));
  }
  g.group_in_c = filter_.in_c;
  g.group_out_c = g.groups > 0 ? filter_.last / g.groups : 0;
  g.out_c = filter_.last;
}

void ProblemMaker::SetWindows() {
  ConvGeometry& g = geometry_;
  g.stride_h = attributes_.stride_h;
  g.stride_w = attributes_.stride_w;
  g.dilation_h = attributes_.dilation_h;
  g.dilation_w = attributes_.dilation_w;
  const WindowFit rows =
      FitWindow({g.in_h, g.kernel_h, g.stride_h, g.dilation_h, spec_.padding, attributes_.pad_top,
                 attributes_.pad_bottom});
  const WindowFit cols =
      FitWindow({g.in_w, g.kernel_w, g.stride_w, g.dilation_w, spec_.padding, attributes_.pad_left,
                 attributes_.pad_right});
  if (rows.out < 0 || cols.out < 0) {
    ThrowData("shape/window", "filter", "does not fit into the padded input");
  }
  g.out_h = rows.out;
  g.out_w = cols.out;
  g.pad_top = rows.pad_before;
  g.pad_bottom = rows.pad_after;
  g.pad_left = cols.pad_before;
  g.pad_right = cols.pad_after;
  if (spec_.out_backprop) CheckOutBackprop();
}

void ProblemMaker::CheckOutBackprop() const {
  const ConvGeometry& g = geometry_;
  const ImageSizes given = InFormat(*spec_.out_backprop, spec_.data_format);
  if (given.batch != g.batch || given.h != g.out_h || given.w != g.out_w || given.c != g.out_c) {
    const Problem problem = {spec_.op, spec_.dtype, spec_.data_format, spec_.padding, g};
    ThrowData("shape/out-backprop", fmt::format("out_backprop {}", ToString(*spec_.out_backprop)),
              fmt::format("must have the shape {}", ToString(problem.OutputShape())));
  }
}

Problem MakeProblem(const ConvSpec& spec) { return ProblemMaker(spec).Make(); }

}  // namespace convgrad
