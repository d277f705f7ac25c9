// What follows from a legal problem: shapes, counts, its one-line form.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "conv/geometry.h"
#include "conv/window.h"

namespace convgrad {
namespace {

Dimension RowsOf(const ConvGeometry& g) {
  return {g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top};
}

Dimension ColsOf(const ConvGeometry& g) {
  return {g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left};
}

Shape ImageShape(DataFormat format, int64_t batch, int64_t h, int64_t w, int64_t c) {
  return format == DataFormat::kNHWC ? Shape{batch, h, w, c} : Shape{batch, c, h, w};
}

// The bytes of a tensor whose shape was checked.
int64_t BytesOf(const Shape& shape, DType dtype) {
  return *CheckedProduct(shape) * InfoOf(dtype).bytes;
}

}  // namespace

const char* NameOf(DataFormat format) { return format == DataFormat::kNHWC ? "NHWC" : "NCHW"; }

const char* NameOf(Padding padding) {
  switch (padding) {
    case Padding::kSame: return "SAME";
    case Padding::kValid: return "VALID";
    case Padding::kExplicit: return "EXPLICIT";
  }
  ThrowInternal("unknown padding");
}

Shape Problem::InputShape() const {
  return ImageShape(data_format, geometry.batch, geometry.in_h, geometry.in_w, geometry.in_c);
}

Shape Problem::FilterShape() const {
  const ConvGeometry& g = geometry;
  if (InfoOf(op).depthwise) return {g.kernel_h, g.kernel_w, g.in_c, g.group_out_c};
  return {g.kernel_h, g.kernel_w, g.group_in_c, g.out_c};
}

Shape Problem::OutputShape() const {
  return ImageShape(data_format, geometry.batch, geometry.out_h, geometry.out_w, geometry.out_c);
}

Shape Problem::ShapeOf(Role role) const {
  switch (role) {
    case Role::kInput: return InputShape();
    case Role::kFilter: return FilterShape();
    case Role::kOutBackprop: return OutputShape();
  }
  ThrowInternal("unknown role");
}

Shape Problem::ResultShape() const {
  switch (InfoOf(op).direction) {
    case Direction::kForward: return OutputShape();
    case Direction::kBackpropInput: return InputShape();
    case Direction::kBackpropFilter: return FilterShape();
  }
  ThrowInternal("unknown direction");
}

int64_t Problem::ValidTerms() const {
  const ConvGeometry& g = geometry;
  if (g.groups == 0) return 0;
  const int64_t factors[] = {g.batch, RowsOf(g).ValidPairs(), ColsOf(g).ValidPairs(), g.out_c,
                             g.group_in_c};
  const auto terms = CheckedProduct(factors);
  if (!terms) ThrowInternal("number of terms was not checked");
  return *terms;
}

int64_t Problem::MaxTerms() const {
  const ConvGeometry& g = geometry;
  if (ValidTerms() == 0) return 0;
  const Dimension rows = RowsOf(g);
  const Dimension cols = ColsOf(g);
  // No overflow: at most ValidTerms.
  switch (InfoOf(op).direction) {
    case Direction::kForward:
      return rows.MaxTapsOfOutput() * cols.MaxTapsOfOutput() * g.group_in_c;
    case Direction::kBackpropInput:
      return rows.MaxPairsOfInput() * cols.MaxPairsOfInput() * g.group_out_c;
    case Direction::kBackpropFilter:
      return rows.MaxOutputsOfTap() * cols.MaxOutputsOfTap() * g.batch;
  }
  ThrowInternal("unknown direction");
}

int64_t Problem::OperandBytes() const {
  int64_t bytes = 0;
  for (const Role role : InfoOf(op).operands) bytes += BytesOf(ShapeOf(role), dtype);
  return bytes;
}

int64_t Problem::ResultBytes() const { return BytesOf(ResultShape(), dtype); }

std::string Problem::ToLine() const {
  const ConvGeometry& g = geometry;
  return fmt::format(
      "{} {} {} in={} filter={} strides={},{} dilations={},{} pads={},{},{},{} padding={}",
      InfoOf(op).name, InfoOf(dtype).name, NameOf(data_format), fmt::join(InputShape(), ","),
      fmt::join(FilterShape(), ","), g.stride_h, g.stride_w, g.dilation_h, g.dilation_w, g.pad_top,
      g.pad_bottom, g.pad_left, g.pad_right, NameOf(padding));
}

namespace {

[[noreturn]] void ThrowLine(const std::string& line, const std::string& why) {
  ThrowUsage("problem/syntax", fmt::format("problem '{}'", line), why,
             "the form is OP DTYPE FORMAT in=N,H,W,C filter=H,W,I,O strides=H,W dilations=H,W "
             "pads=TOP,BOTTOM,LEFT,RIGHT padding=SAME");
}

// The comma-separated numbers of one field.
std::vector<int64_t> ParseNumbers(const std::string& line, std::string_view text, size_t count) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int64_t number;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) ThrowLine(line, fmt::format("'{}' are no numbers", text));
    numbers.push_back(number);
    if (next == end) break;
    if (*next != ',') ThrowLine(line, fmt::format("'{}' are no numbers", text));
    at = next + 1;
  }
  if (numbers.size() != count) ThrowLine(line, fmt::format("'{}' must be {} numbers", text, count));
  return numbers;
}

Op ForwardOf(Op op) { return InfoOf(op).depthwise ? Op::kDepthwiseConv2D : Op::kConv2D; }

}  // namespace

Problem ParseProblem(const std::string& line) {
  std::istringstream words(line);
  std::string op, dtype, format, word;
  if (!(words >> op >> dtype >> format)) ThrowLine(line, "has too few words");
  std::map<std::string, std::string> fields;
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) ThrowLine(line, fmt::format("'{}' is no field", word));
    if (!fields.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      ThrowLine(line, fmt::format("'{}' is there twice", word.substr(0, equals)));
    }
  }
  const auto numbers = [&](const char* key, size_t count) {
    if (!fields.contains(key)) ThrowLine(line, fmt::format("has no '{}='", key));
    return ParseNumbers(line, fields[key], count);
  };
  ConvSpec spec;
  const Op parsed_op = ParseOp(op);
  spec.op = ForwardOf(parsed_op);
  const auto parsed_dtype = ParseDType(dtype);
  if (!parsed_dtype) ThrowLine(line, fmt::format("'{}' is no element type", dtype));
  spec.dtype = *parsed_dtype;
  if (format != "NHWC" && format != "NCHW") ThrowLine(line, fmt::format("'{}' is no data format", format));
  spec.data_format = format == "NHWC" ? DataFormat::kNHWC : DataFormat::kNCHW;
  const std::string padding = fields["padding"];
  if (padding == "SAME") spec.padding = Padding::kSame;
  else if (padding == "VALID") spec.padding = Padding::kValid;
  else if (padding == "EXPLICIT") spec.padding = Padding::kExplicit;
  else ThrowLine(line, fmt::format("'{}' is no padding", padding));
  spec.input = numbers("in", 4);
  spec.filter = numbers("filter", 4);
  spec.strides = numbers("strides", 2);
  spec.dilations = numbers("dilations", 2);
  const std::vector<int64_t> pads = numbers("pads", 4);
  if (spec.padding == Padding::kExplicit) spec.explicit_paddings = pads;
  // The shapes of the forward op say everything; the direction only names the result.
  Problem problem = MakeProblem(spec);
  problem.op = parsed_op;
  const ConvGeometry& g = problem.geometry;
  if (pads != std::vector<int64_t>{g.pad_top, g.pad_bottom, g.pad_left, g.pad_right}) {
    ThrowLine(line, fmt::format("the pads of padding {} are {},{},{},{}", padding, g.pad_top,
                                g.pad_bottom, g.pad_left, g.pad_right));
  }
  return problem;
}

}  // namespace convgrad
