#include "cli/dialects/logged_conv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

ConvSpec SpecOf(const LoggedConv& conv, bool depthwise) {
  ConvSpec spec;
  spec.op = depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
  spec.dtype = conv.dtype;
  spec.data_format = DataFormat::kNHWC;
  spec.filter_format = FilterFormat::kOIHW;
  spec.padding = Padding::kExplicit;
  spec.explicit_paddings = {conv.rows.pad_begin, conv.rows.pad_end, conv.cols.pad_begin,
                            conv.cols.pad_end};
  spec.strides = {conv.rows.stride, conv.cols.stride};
  spec.dilations = {conv.rows.dilation, conv.cols.dilation};
  spec.input = {conv.batch, conv.rows.in, conv.cols.in, conv.in_c};
  spec.filter = {conv.out_c, conv.in_c / conv.groups, conv.rows.kernel, conv.cols.kernel};
  spec.groups = conv.groups;
  return spec;
}

Op OpOf(bool depthwise, Direction direction) {
  switch (direction) {
    case Direction::kForward: return depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
    case Direction::kBackpropInput:
      return depthwise ? Op::kDepthwiseConv2DBackpropInput : Op::kConv2DBackpropInput;
    case Direction::kBackpropFilter:
      return depthwise ? Op::kDepthwiseConv2DBackpropFilter : Op::kConv2DBackpropFilter;
  }
  ThrowInternal("unknown direction");
}

std::string OperandKey(const char* key, const Shape& shape) {
  return fmt::format(R"(, "{}": {{"fill": "normal", "shape": [{}]}})", key, fmt::join(shape, ", "));
}

std::string SizesKey(const char* key, const Shape& shape) {
  return fmt::format(R"(, "{}": [{}])", key, fmt::join(shape, ", "));
}

}  // namespace

void CheckLogged(int64_t number) {
  if (number < 0 || number > kMostLogged) throw Refusal(kTooLarge, fmt::format("{}", number));
}

int64_t LoggedAxis::Extent() const {
  return (kernel - 1) * dilation + 1;
}

int64_t LoggedAxis::ExpectedOut() const {
  const int64_t room = in + pad_begin + pad_end - Extent();
  return room < 0 ? 0 : room / stride + 1;
}

void LoggedAxis::InferPadEnd() {
  pad_end = std::max<int64_t>(0, (out - 1) * stride + Extent() - in - pad_begin);
}

void LoggedAxis::CheckRange() const {
  for (const int64_t number : {in, out, kernel, stride, dilation, pad_begin, pad_end}) {
    CheckLogged(number);
  }
  if (kernel < 1 || stride < 1 || dilation < 1) {
    throw Refusal(kContradiction, "a filter, a stride or a dilation of 0");
  }
}

void LoggedConv::Transpose() {
  std::swap(in_c, out_c);
  std::swap(rows.in, rows.out);
  std::swap(cols.in, cols.out);
  if (direction == Direction::kForward) {
    direction = Direction::kBackpropInput;
  } else if (direction == Direction::kBackpropInput) {
    direction = Direction::kForward;
  }
}

Problem LoggedConv::ToProblem() const {
  rows.CheckRange();
  cols.CheckRange();
  for (const int64_t number : {batch, in_c, out_c, groups}) CheckLogged(number);
  if (groups < 1 || in_c % groups != 0 || out_c % groups != 0) {
    throw Refusal(kContradiction,
                  fmt::format("{} and {} channels are not in {} groups", in_c, out_c, groups));
  }
  const bool depthwise = groups > 1 && groups == in_c;
  try {
    Problem problem = MakeProblem(SpecOf(*this, depthwise));
    if (problem.geometry.out_h != rows.out || problem.geometry.out_w != cols.out) {
      throw Refusal(kContradiction,
                    fmt::format("the output is {} x {}, by the other numbers {} x {}", rows.out,
                                cols.out, problem.geometry.out_h, problem.geometry.out_w));
    }
    problem.op = OpOf(depthwise, direction);
    problem.data_format = data_format;
    return problem;
  } catch (const Error& error) {
    throw Refusal(kContradiction, error.message());
  }
}

DType ParseLoggedType(std::string_view name) {
  try {
    return ParseFloatType("type", std::string(name));
  } catch (const Error&) {
    throw Refusal(fmt::format("type {}: convgrad computes float16, bfloat16, float32 and float64",
                              name.substr(0, 20)));
  }
}

std::string CaseKeysOf(const LoggedConv& conv, const Problem& problem) {
  const OpInfo& op = InfoOf(problem.op);
  const Shape filter = ShapeIn(conv.filter_format, op.depthwise, problem.FilterShape());
  std::string keys = fmt::format(R"("op": "{}", "dtype": "{}", "data_format": "{}", )"
                                 R"("filter_format": "{}")",
                                 op.name, InfoOf(problem.dtype).name, NameOf(conv.data_format),
                                 NameOf(conv.filter_format));
  switch (op.direction) {
    case Direction::kForward:
      keys += OperandKey("input", problem.InputShape()) + OperandKey("filter", filter);
      break;
    case Direction::kBackpropInput:
      keys += SizesKey("input_sizes", problem.InputShape()) + OperandKey("filter", filter) +
              OperandKey("out_backprop", problem.OutputShape());
      break;
    case Direction::kBackpropFilter:
      keys += OperandKey("input", problem.InputShape()) + SizesKey("filter_sizes", filter) +
              OperandKey("out_backprop", problem.OutputShape());
      break;
  }
  const ConvGeometry& g = problem.geometry;
  keys += fmt::format(
      R"(, "strides": [{}, {}], "dilations": [{}, {}], "padding": [{}, {}, {}, {}])", g.stride_h,
      g.stride_w, g.dilation_h, g.dilation_w, g.pad_top, g.pad_bottom, g.pad_left, g.pad_right);
  if (conv.groups > 1) keys += fmt::format(R"(, "groups": {})", conv.groups);
  return keys;
}

}  // namespace convgrad::cli
