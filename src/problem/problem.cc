#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/checked.h"
#include "base/error.h"
#include "problem/geometry.h"
#include "problem/shapes.h"
#include "problem/window.h"

namespace convgrad {
namespace {

SpatialAxis RowsOf(const ConvGeometry& g) {
  return {g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top};
}

SpatialAxis ColsOf(const ConvGeometry& g) {
  return {g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left};
}

// The bytes of a tensor whose shape was checked.
int64_t BytesOf(const Shape& shape, DType dtype) {
  return *CheckedProduct(shape) * InfoOf(dtype).bytes;
}

}  // namespace

const char* NameOf(DataFormat format) {
  return format == DataFormat::kNHWC ? "NHWC" : "NCHW";
}

const char* NameOf(Padding padding) {
  switch (padding) {
    case Padding::kSame: return "SAME";
    case Padding::kValid: return "VALID";
    case Padding::kExplicit: return "EXPLICIT";
  }
  ThrowInternal("unknown padding");
}

Shape Problem::InputShape() const {
  return ToShape({geometry.batch, geometry.in_h, geometry.in_w, geometry.in_c}, data_format);
}

Shape Problem::FilterShape() const {
  const ConvGeometry& g = geometry;
  if (InfoOf(op).depthwise) return {g.kernel_h, g.kernel_w, g.in_c, g.group_out_c};
  return {g.kernel_h, g.kernel_w, g.group_in_c, g.out_c};
}

Shape Problem::OutputShape() const {
  return ToShape({geometry.batch, geometry.out_h, geometry.out_w, geometry.out_c}, data_format);
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

std::optional<int64_t> Problem::CheckedTerms() const {
  const ConvGeometry& g = geometry;
  if (g.groups == 0) return 0;
  const int64_t factors[] = {g.batch, RowsOf(g).ValidPairs(), ColsOf(g).ValidPairs(), g.out_c,
                             g.group_in_c};
  const std::optional<int64_t> terms = CheckedProduct(factors);
  constexpr int64_t kLimit = int64_t{1} << 62;
  return terms && *terms < kLimit ? terms : std::nullopt;
}

bool Problem::HasTerms() const {
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    if (*CheckedProduct(ShapeOf(role)) == 0) return false;
  }
  return true;
}

int64_t Problem::ValidTerms() const {
  return CheckedTerms().value();
}

int64_t Problem::MaxTerms() const {
  const ConvGeometry& g = geometry;
  if (ValidTerms() == 0) return 0;
  const SpatialAxis rows = RowsOf(g);
  const SpatialAxis cols = ColsOf(g);
  // No overflow: at most ValidTerms.
  switch (InfoOf(op).direction) {
    case Direction::kForward: return rows.MaxTapsOfOutput() * cols.MaxTapsOfOutput() * g.group_in_c;
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

int64_t Problem::NumElements(Role role) const {
  return *CheckedProduct(ShapeOf(role));
}

int64_t Problem::NumResults() const {
  return *CheckedProduct(ResultShape());
}

int64_t Problem::ResultBytes() const {
  return BytesOf(ResultShape(), dtype);
}

std::string Problem::ToLine() const {
  const ConvGeometry& g = geometry;
  return fmt::format(
      "{} {} {} in={} filter={} strides={},{} dilations={},{} pads={},{},{},{} padding={}",
      InfoOf(op).name, InfoOf(dtype).name, NameOf(data_format), fmt::join(InputShape(), ","),
      fmt::join(FilterShape(), ","), g.stride_h, g.stride_w, g.dilation_h, g.dilation_w, g.pad_top,
      g.pad_bottom, g.pad_left, g.pad_right, NameOf(padding));
}

namespace {

// Takes one line apart.
class LineParser {
 public:
  explicit LineParser(const std::string& line) : line_(line), words_(line) {}

  std::string Word() {
    std::string word;
    if (!(words_ >> word)) Throw("has too few words");
    return word;
  }

  // The words that are left are fields, KEY=VALUE.
  void ReadFields() {
    for (std::string word; words_ >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) Throw(fmt::format("'{}' is no field", word));
      const std::string key = word.substr(0, equals);
      if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
        Throw(fmt::format("'{}' is no field", key));
      }
      if (!fields_.emplace(key, word.substr(equals + 1)).second) {
        Throw(fmt::format("'{}' is there twice", key));
      }
    }
  }

  const std::string& Field(const char* key) const {
    const auto field = fields_.find(key);
    if (field == fields_.end()) Throw(fmt::format("has no '{}='", key));
    return field->second;
  }

  // The comma-separated numbers of a field.
  std::vector<int64_t> Numbers(const char* key, size_t count) const {
    const std::string& text = Field(key);
    const char* const end = text.data() + text.size();
    std::vector<int64_t> numbers;
    for (const char* at = text.data();; ++at) {
      int64_t number = 0;
      const auto [next, error] = std::from_chars(at, end, number);
      if (error != std::errc() || (next != end && *next != ',')) break;
      numbers.push_back(number);
      at = next;
      if (at == end) break;
    }
    const size_t commas = static_cast<size_t>(std::ranges::count(text, ','));
    if (numbers.size() == count && commas == count - 1) return numbers;
    Throw(fmt::format("{}={} is not {} numbers", key, text, count));
  }

  [[noreturn]] void Throw(const std::string& why) const {
    ThrowUsage("problem/syntax", fmt::format("problem '{}'", line_), why,
               "the form is OP DTYPE FORMAT in=... filter=... strides=H,W dilations=H,W "
               "pads=TOP,BOTTOM,LEFT,RIGHT padding=SAME|VALID|EXPLICIT");
  }

 private:
  static constexpr std::string_view kKeys[] = {"in",        "filter", "strides",
                                               "dilations", "pads",   "padding"};
  const std::string& line_;
  std::istringstream words_;
  std::map<std::string, std::string, std::less<>> fields_;
};

// The one of `choices` that is called `name`.
template <class Choice>
Choice ParseName(const LineParser& line, const std::string& name,
                 std::initializer_list<Choice> choices) {
  for (const Choice choice : choices) {
    if (name == NameOf(choice)) return choice;
  }
  line.Throw(fmt::format("'{}' is not known", name));
}

// The forward op of the same kind: its operands' shapes say everything about a problem.
Op ForwardOf(Op op) {
  return InfoOf(op).depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
}

}  // namespace

Problem ParseProblem(const std::string& text) {
  LineParser line(text);
  const Op op = ParseOp(line.Word());
  const std::string dtype_name = line.Word();
  const std::optional<DType> dtype = ParseDType(dtype_name);
  if (!dtype) line.Throw(fmt::format("'{}' is no element type", dtype_name));

  ConvSpec spec;
  spec.op = ForwardOf(op);
  spec.dtype = *dtype;
  spec.data_format = ParseName(line, line.Word(), {DataFormat::kNHWC, DataFormat::kNCHW});
  line.ReadFields();
  spec.padding =
      ParseName(line, line.Field("padding"), {Padding::kSame, Padding::kValid, Padding::kExplicit});
  spec.input = line.Numbers("in", 4);
  spec.filter = line.Numbers("filter", 4);
  spec.strides = line.Numbers("strides", 2);
  spec.dilations = line.Numbers("dilations", 2);
  const std::vector<int64_t> pads = line.Numbers("pads", 4);
  if (spec.padding == Padding::kExplicit) spec.explicit_paddings = pads;

  Problem problem = MakeProblem(spec);
  problem.op = op;
  const ConvGeometry& g = problem.geometry;
  const std::vector<int64_t> expected = {g.pad_top, g.pad_bottom, g.pad_left, g.pad_right};
  if (pads != expected) line.Throw(fmt::format("the pads must be {}", fmt::join(expected, ",")));
  return problem;
}

}  // namespace convgrad
