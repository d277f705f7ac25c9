// Operator inputs as PyTorch's benchmarks log them, an operator's name before its calls or in the
// same line:
//   Operator: aten.convolution_backward.default
//   cnt: 2, ((T([8, 64, 7, 7], f16), T([8, 32, 7, 7], f16), ..., [True, True, False]), {})
//   aten.convolution.default((T([1, 3, 8, 8], f32), T([4, 3, 3, 3], f32), None, [1, 1], ...), {})
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/dialects/dialect.h"
#include "cli/dialects/python_literal.h"
#include "cli/dialects/strided_shape.h"
#include "cli/dialects/words.h"

namespace convgrad::cli {
namespace {

enum class Operator { kOther, kForward, kBackward };

constexpr std::string_view kForwardName = "aten.convolution.default";
constexpr std::string_view kBackwardName = "aten.convolution_backward.default";

using Kind = PythonValue::Kind;

const PythonValue& At(const PythonValue& list, size_t index) {
  if (list.kind != Kind::kList || index >= list.items.size()) {
    throw Refusal(kMalformed, "arguments are missing");
  }
  return list.items[index];
}

const PythonValue& TensorAt(const PythonValue& list, size_t index) {
  const PythonValue& value = At(list, index);
  if (value.kind != Kind::kTensor) throw Refusal(kMalformed, "a tensor is missing");
  return value;
}

std::vector<int64_t> IntegersAt(const PythonValue& list, size_t index) {
  std::vector<int64_t> numbers;
  for (const PythonValue& item : At(list, index).items) {
    if (item.kind != Kind::kInteger) throw Refusal(kMalformed, "a list of numbers is missing");
    numbers.push_back(item.number);
  }
  return numbers;
}

// The arguments that both operators have in a row: stride, padding, dilation, transposed,
// output_padding, groups.
struct Attributes {
  SpatialPair stride, padding, dilation, output_padding;
  bool is_transposed;
  int64_t groups;
};

Attributes ReadAttributes(const PythonValue& arguments, size_t first, size_t spatial) {
  const auto pair = [&](size_t offset, int64_t of_height_one, const char* name) {
    return ToPair(IntegersAt(arguments, first + offset), spatial, of_height_one, name);
  };
  const PythonValue& groups = At(arguments, first + 5);
  if (groups.kind != Kind::kInteger) throw Refusal(kMalformed, "the number of groups is missing");
  return {pair(0, 1, "strides"),
          pair(1, 0, "paddings"),
          pair(2, 1, "dilations"),
          pair(4, 0, "output paddings"),
          At(arguments, first + 3).Is("True"),
          groups.number};
}

void SetAxis(int64_t stride, int64_t padding, int64_t dilation, int64_t output_padding,
             bool is_transposed, LoggedAxis& axis) {
  axis.stride = stride;
  axis.dilation = dilation;
  axis.pad_begin = axis.pad_end = padding;
  axis.out = 1;
  axis.CheckRange();
  axis.out = is_transposed ? (axis.in - 1) * stride - 2 * padding + axis.Extent() + output_padding
                           : axis.ExpectedOut();
}

// The convolution of `input` and `filter`, forward; `first` is the index of the strides.
LoggedConv ConvOf(const PythonValue& arguments, const PythonValue& input, const PythonValue& filter,
                  size_t first, bool& is_transposed) {
  LoggedConv conv;
  SetShapes({input.shape, input.strides}, {filter.shape, filter.strides}, conv);
  const Attributes attributes = ReadAttributes(arguments, first, input.shape.size() - 2);
  is_transposed = attributes.is_transposed;
  conv.groups = attributes.groups;
  conv.dtype = ParseLoggedType(input.word);
  if (ParseLoggedType(filter.word) != conv.dtype) {
    throw Refusal(kMixedTypes, fmt::format("{} and {}", input.word, filter.word));
  }
  SetAxis(attributes.stride.h, attributes.padding.h, attributes.dilation.h,
          attributes.output_padding.h, is_transposed, conv.rows);
  SetAxis(attributes.stride.w, attributes.padding.w, attributes.dilation.w,
          attributes.output_padding.w, is_transposed, conv.cols);
  // A transposed convolution's filter has the channels of its input first.
  CheckLogged(conv.groups);
  CheckLogged(filter.shape[1]);
  const int64_t of_groups = filter.shape[1] * conv.groups;
  const int64_t own = is_transposed ? conv.out_c : of_groups;
  if (own != conv.in_c) {
    throw Refusal(kContradiction, fmt::format("{} channels, a filter for {}", conv.in_c, own));
  }
  if (is_transposed) conv.out_c = of_groups;
  return conv;
}

Reading ReadForward(const PythonValue& arguments) {
  bool is_transposed = false;
  LoggedConv conv =
      ConvOf(arguments, TensorAt(arguments, 0), TensorAt(arguments, 1), 3, is_transposed);
  conv.has_bias = At(arguments, 2).kind == Kind::kTensor;
  if (is_transposed) conv.Transpose();
  Reading reading;
  reading.convs.push_back(conv);
  return reading;
}

// By output_mask: whether the gradients of input and filter were asked for.
Reading ReadBackward(const PythonValue& arguments) {
  const PythonValue& out = TensorAt(arguments, 0);
  bool is_transposed = false;
  LoggedConv conv =
      ConvOf(arguments, TensorAt(arguments, 1), TensorAt(arguments, 2), 4, is_transposed);
  if (out.shape.size() != TensorAt(arguments, 1).shape.size() || out.shape[0] != conv.batch ||
      out.shape[1] != conv.out_c) {
    throw Refusal(kContradiction, "the gradient of the output has other images or channels");
  }
  if (ParseLoggedType(out.word) != conv.dtype) {
    throw Refusal(kMixedTypes, fmt::format("{} and {}", out.word, InfoOf(conv.dtype).name));
  }
  conv.cols.out = out.shape.back();
  if (out.shape.size() == 4) conv.rows.out = out.shape[2];
  const PythonValue& mask = At(arguments, 10);
  conv.has_bias = At(mask, 2).Is("True");
  Reading reading;
  const Direction directions[] = {Direction::kBackpropInput, Direction::kBackpropFilter};
  for (size_t i = 0; i < 2; ++i) {
    if (!At(mask, i).Is("True")) continue;
    LoggedConv one = conv;
    one.direction = directions[i];
    if (is_transposed) one.Transpose();
    reading.convs.push_back(one);
  }
  if (reading.convs.empty()) throw Refusal("the gradient of a bias alone");
  return reading;
}

// Takes the name of an operator, and what follows it, off a line.
std::optional<Operator> TakeOperator(std::string_view& line) {
  const std::pair<std::string_view, Operator> kNames[] = {{kForwardName, Operator::kForward},
                                                          {kBackwardName, Operator::kBackward}};
  for (const auto& [name, operator_] : kNames) {
    const size_t at = line.find(name);
    if (at == std::string_view::npos) continue;
    line.remove_prefix(at + name.size());
    return operator_;
  }
  return std::nullopt;
}

// Takes "cnt: 12, " off a line.
std::optional<int64_t> TakeCount(std::string_view& line) {
  constexpr std::string_view kCount = "cnt: ";
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || !line.substr(begin).starts_with(kCount)) {
    return std::nullopt;
  }
  const std::string_view rest = line.substr(begin + kCount.size());
  const size_t comma = rest.find(',');
  if (comma == std::string_view::npos) throw Refusal(kMalformed, "the line ends early");
  const auto count = ReadInteger(rest.substr(0, comma));
  if (!count || *count < 1) throw Refusal(kMalformed, "the count is no number");
  CheckLogged(*count);
  line = rest.substr(comma + 1);
  return count;
}

class PyTorchReader final : public DialectReader {
 public:
  Reading Read(std::string_view record) override {
    constexpr std::string_view kOperatorMark = "Operator: ";
    if (record.starts_with(kOperatorMark)) {
      operator_ = TakeOperator(record).value_or(Operator::kOther);
      return {};
    }
    Reading reading;
    try {
      const auto count = TakeCount(record);
      Operator operator_of_line = count ? operator_ : Operator::kOther;
      if (const auto named = TakeOperator(record)) operator_of_line = *named;
      if (operator_of_line == Operator::kOther) return {};
      reading = ReadCall(operator_of_line, record);
      reading.count = count.value_or(1);
    } catch (const Refusal& refusal) {
      reading.refusals.push_back(refusal);
    }
    return reading;
  }

 private:
  // "((ARGUMENTS), {})": behind the arguments, those given by name, of which convolutions have
  // none.
  static Reading ReadCall(Operator operator_, std::string_view text) {
    const PythonValue call = ParsePythonValue(text);
    const PythonValue& arguments = At(call, 0);
    return operator_ == Operator::kForward ? ReadForward(arguments) : ReadBackward(arguments);
  }

  Operator operator_ = Operator::kOther;
};

}  // namespace

std::unique_ptr<DialectReader> MakePyTorchReader() {
  return std::make_unique<PyTorchReader>();
}

}  // namespace convgrad::cli
