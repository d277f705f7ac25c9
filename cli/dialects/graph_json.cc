// Graphs of a single convolution as JSON: what cuDNN's frontend prints of a graph, and what hipDNN
// reads and writes. Both name tensors, which a node refers to, with sizes in the order NCHW and
// strides that tell the real one.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/dialects/dialect.h"
#include "cli/dialects/strided_shape.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

// The name of a node of one kind, and the tensors that play its roles.
struct NodeForm {
  const char* kind;
  Direction direction;
  const char* input;
  const char* filter;
  const char* output;
};

// How a program writes graphs.
struct GraphForm {
  const char* kind_key;
  NodeForm nodes[3];
  const char* sizes_key;
  const char* strides_key;
  const char* attributes;  // where a node keeps its numbers; null: in itself
  const char* mode_key;
  const char* type_context;  // where the graph's own types are; null: in itself
  const char* io_type_key;
};

constexpr GraphForm kCudnn = {"tag",
                              {{"CONV_FPROP", Direction::kForward, "X", "W", "Y"},
                               {"CONV_DGRAD", Direction::kBackpropInput, "DX", "W", "DY"},
                               {"CONV_WGRAD", Direction::kBackpropFilter, "X", "DW", "DY"}},
                              "dim",
                              "stride",
                              nullptr,
                              "math_mode",
                              "context",
                              "io_data_type"};

constexpr GraphForm kHipdnn = {"type",
                               {{"ConvolutionFwdAttributes", Direction::kForward, "x_tensor_uid",
                                 "w_tensor_uid", "y_tensor_uid"},
                                {"ConvolutionBwdAttributes", Direction::kBackpropInput,
                                 "dx_tensor_uid", "w_tensor_uid", "dy_tensor_uid"},
                                {"ConvolutionWrwAttributes", Direction::kBackpropFilter,
                                 "x_tensor_uid", "dw_tensor_uid", "dy_tensor_uid"}},
                               "dims",
                               "strides",
                               "parameters",
                               "conv_mode",
                               nullptr,
                               "io_data_type"};

// Null, not an exception, where an object has no such key.
const Json& At(const Json& object, const std::string& key) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::vector<int64_t> Integers(const Json& value) {
  std::vector<int64_t> numbers;
  if (!value.is_array()) return numbers;
  for (const Json& one : value) {
    if (!one.is_number_integer()) throw Refusal(kMalformed, "a list of numbers is missing");
    numbers.push_back(one.get<int64_t>());
  }
  return numbers;
}

class GraphReader final : public DialectReader {
 public:
  explicit GraphReader(const GraphForm& form) : form_(form) {}

  Reading Read(std::string_view record) override {
    Reading reading;
    const Json graph = TryParseJson(record);
    // An object of other output may be one of Python's, say.
    if (graph.is_discarded()) return Speaks(record) ? Refused(Refusal(kMalformed)) : reading;
    const Json& nodes = At(graph, "nodes");
    if (!nodes.is_array() || At(graph, "tensors").is_null()) return reading;
    try {
      const NodeForm* form = nodes.size() == 1 ? FormOf(nodes[0]) : nullptr;
      if (form == nullptr) {
        if (!Speaks(record)) return reading;
        throw Refusal("a graph of more than a single convolution",
                      fmt::format("{} nodes", nodes.size()));
      }
      reading.convs.push_back(ConvOf(graph, nodes[0], *form));
    } catch (const Refusal& refusal) {
      return Refused(refusal);
    }
    return reading;
  }

 private:
  static Reading Refused(const Refusal& refusal) {
    Reading reading;
    reading.refusals.push_back(refusal);
    return reading;
  }

  // True if the kind of a convolution stands anywhere in a text.
  bool Speaks(std::string_view text) const {
    return std::any_of(std::begin(form_.nodes), std::end(form_.nodes), [&](const NodeForm& node) {
      return text.find(fmt::format("\"{}\"", node.kind)) != std::string_view::npos;
    });
  }

  const NodeForm* FormOf(const Json& node) const {
    const std::string kind = Text(At(node, form_.kind_key));
    for (const NodeForm& form : form_.nodes) {
      if (kind == form.kind) return &form;
    }
    return nullptr;
  }

  // A node refers to a tensor by its name, or by a number, which is a key of an object of tensors
  // or their `uid`.
  const Json& TensorOf(const Json& graph, const Json& node, const char* role) const {
    const Json& inputs = At(At(node, "inputs"), role);
    const Json& reference = inputs.is_null() ? At(At(node, "outputs"), role) : inputs;
    const Json& tensors = At(graph, "tensors");
    const std::string key = reference.is_string() ? Text(reference) : DumpJson(reference);
    if (!At(tensors, key).is_null()) return At(tensors, key);
    for (const Json& tensor : tensors) {
      if (!reference.is_null() && At(tensor, "uid") == reference) return tensor;
    }
    throw Refusal(kMalformed, fmt::format("the tensor {} is missing", role));
  }

  StridedShape ShapeOf(const Json& tensor) const {
    return {Integers(At(tensor, form_.sizes_key)), Integers(At(tensor, form_.strides_key))};
  }

  DType TypeOf(const Json& graph, const Json& tensor) const {
    std::string type = Text(At(tensor, "data_type"));
    if (type.empty() || type == "unset" || type == "NOT_SET") {
      const Json& types = form_.type_context == nullptr ? graph : At(graph, form_.type_context);
      type = Text(At(types, form_.io_type_key));
    }
    return ParseLoggedType(type);
  }

  LoggedConv ConvOf(const Json& graph, const Json& node, const NodeForm& form) const {
    const Json& input = TensorOf(graph, node, form.input);
    const Json& filter = TensorOf(graph, node, form.filter);
    const Json& output = TensorOf(graph, node, form.output);
    LoggedConv conv;
    conv.direction = form.direction;
    const StridedShape in = ShapeOf(input), taps = ShapeOf(filter);
    SetShapes(in, taps, conv);
    conv.dtype = TypeOf(graph, input);
    if (TypeOf(graph, filter) != conv.dtype || TypeOf(graph, output) != conv.dtype) {
      throw Refusal(kMixedTypes);
    }
    if (taps.sizes[1] < 1 || conv.in_c % taps.sizes[1] != 0) {
      throw Refusal(kContradiction,
                    fmt::format("{} channels, a filter for {}", conv.in_c, taps.sizes[1]));
    }
    conv.groups = conv.in_c / taps.sizes[1];
    SetWindow(form_.attributes == nullptr ? node : At(node, form_.attributes), in.sizes.size() - 2,
              conv);
    SetOutput(ShapeOf(output).sizes, conv);
    return conv;
  }

  void SetWindow(const Json& attributes, size_t spatial, LoggedConv& conv) const {
    if (Text(At(attributes, form_.mode_key)) == "CONVOLUTION") throw Refusal(kFlippedFilter);
    const auto pair = [&](const char* key, int64_t of_height_one) {
      return ToPair(Integers(At(attributes, key)), spatial, of_height_one, key);
    };
    const bool is_split = !At(attributes, "pre_padding").is_null();
    const SpatialPair begin = pair(is_split ? "pre_padding" : "padding", 0);
    const SpatialPair end = pair(is_split ? "post_padding" : "padding", 0);
    const SpatialPair stride = pair("stride", 1), dilation = pair("dilation", 1);
    const auto set = [](LoggedAxis& axis, int64_t first, int64_t last, int64_t step, int64_t gap) {
      axis.pad_begin = first;
      axis.pad_end = last;
      axis.stride = step;
      axis.dilation = gap;
      axis.CheckRange();
      axis.out = axis.ExpectedOut();
    };
    set(conv.rows, begin.h, end.h, stride.h, dilation.h);
    set(conv.cols, begin.w, end.w, stride.w, dilation.w);
  }

  // Sizes of an output that the program was to infer are empty.
  static void SetOutput(const std::vector<int64_t>& sizes, LoggedConv& conv) {
    if (sizes.empty()) return;
    if (sizes.size() < 3 || sizes[0] != conv.batch || sizes[1] != conv.out_c) {
      throw Refusal(kContradiction, "the output has other images or channels");
    }
    conv.cols.out = sizes.back();
    if (sizes.size() == 4) conv.rows.out = sizes[2];
  }

  const GraphForm& form_;
};

}  // namespace

std::unique_ptr<DialectReader> MakeCudnnReader() {
  return std::make_unique<GraphReader>(kCudnn);
}

std::unique_ptr<DialectReader> MakeHipdnnReader() {
  return std::make_unique<GraphReader>(kHipdnn);
}

}  // namespace convgrad::cli
