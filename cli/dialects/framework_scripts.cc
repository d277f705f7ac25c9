// A case as Python for a framework. Each script says the convolution in the framework's own words,
// on the operands of the case, and leaves the result in the order of the case.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/dialects/dialect.h"
#include "cli/dialects/script_operands.h"

namespace convgrad::cli {
namespace {

bool IsDepthwise(const ExportCase& one) {
  return InfoOf(one.problem.op).depthwise;
}
bool IsNhwc(const ExportCase& one) {
  return one.problem.data_format == DataFormat::kNHWC;
}
Direction DirectionOf(const ExportCase& one) {
  return InfoOf(one.problem.op).direction;
}

// A tensor of Python turned around by its method `method`, if that does anything.
std::string Turned(const std::string& tensor, const std::vector<int>& order, const char* method) {
  if (order.empty()) return tensor;
  return fmt::format("{}.{}({})", tensor, method, fmt::join(order, ", "));
}

// Images of the case as NCHW, and back.
std::string ToNchw(const ExportCase& one, const std::string& images, const char* method) {
  return IsNhwc(one) ? Turned(images, {0, 3, 1, 2}, method) : images;
}
std::string FromNchw(const ExportCase& one, const std::string& images, const char* method) {
  return IsNhwc(one) ? Turned(images, {0, 2, 3, 1}, method) : images;
}
std::string ToNhwc(const ExportCase& one, const std::string& images) {
  return IsNhwc(one) ? images : Turned(images, {0, 2, 3, 1}, "transpose");
}
std::string FromNhwc(const ExportCase& one, const std::string& images) {
  return IsNhwc(one) ? images : Turned(images, {0, 3, 1, 2}, "transpose");
}

// The filter of the case as OIHW, a depthwise one as [C*M,1,h,w].
std::string ToOihw(const ExportCase& one, const std::string& filter, const char* method) {
  const ConvGeometry& g = one.problem.geometry;
  switch (one.filter_format) {
    case FilterFormat::kOIHW: return filter;
    case FilterFormat::kOHWI: return Turned(filter, {0, 3, 1, 2}, method);
    case FilterFormat::kHWIO:
      if (!IsDepthwise(one)) return Turned(filter, {3, 2, 0, 1}, method);
      return fmt::format("{}.reshape({}, 1, {}, {})", Turned(filter, {2, 3, 0, 1}, method), g.out_c,
                         g.kernel_h, g.kernel_w);
  }
  return filter;
}

// As HWIO, a depthwise one as [h,w,C,M], and back.
std::string ToHwio(const ExportCase& one, const std::string& filter) {
  const ConvGeometry& g = one.problem.geometry;
  if (one.filter_format == FilterFormat::kHWIO) return filter;
  if (IsDepthwise(one)) {
    return fmt::format("{}.reshape({}, {}, {}, {}).transpose(2, 3, 0, 1)", filter, g.in_c,
                       g.group_out_c, g.kernel_h, g.kernel_w);
  }
  const bool is_oihw = one.filter_format == FilterFormat::kOIHW;
  return Turned(filter, is_oihw ? std::vector<int>{2, 3, 1, 0} : std::vector<int>{1, 2, 3, 0},
                "transpose");
}
std::string FromHwio(const ExportCase& one, const std::string& filter) {
  if (one.filter_format == FilterFormat::kHWIO) return filter;
  if (IsDepthwise(one)) {
    const Shape given = ShapeIn(one.filter_format, true, one.problem.FilterShape());
    return fmt::format("{}.transpose(2, 3, 0, 1).reshape({})", filter, fmt::join(given, ", "));
  }
  const bool is_oihw = one.filter_format == FilterFormat::kOIHW;
  return Turned(filter, is_oihw ? std::vector<int>{3, 2, 0, 1} : std::vector<int>{3, 0, 1, 2},
                "transpose");
}

// The shape of the tensor that is no operand, as the case has it.
Shape ShapeOfResult(const ExportCase& one) {
  Shape shape = one.problem.ResultShape();
  if (DirectionOf(one) != Direction::kBackpropFilter) return shape;
  return ShapeIn(one.filter_format, IsDepthwise(one), shape);
}

const char* ResultRole(const ExportCase& one) {
  return NameOf(DirectionOf(one) == Direction::kBackpropInput ? Role::kInput : Role::kFilter);
}

}  // namespace

// A gradient is that of the whole expression, with respect to the tensor in the order of the case.
std::string WritePyTorchScript(const ExportCase& one) {
  const ConvGeometry& g = one.problem.geometry;
  const bool is_forward = DirectionOf(one) == Direction::kForward;
  std::string text = ScriptHead(one, "import torch\n");
  text += fmt::format("dtype = torch.{}\n", InfoOf(one.problem.dtype).name);
  for (const ExportOperand& operand : one.operands) {
    text += fmt::format("{0} = torch.from_numpy({0}).to(dtype)\n", NameOf(operand.role));
  }
  if (!is_forward) {
    text += fmt::format("{} = torch.zeros({}, dtype=dtype, requires_grad=True)\n", ResultRole(one),
                        PythonTuple(ShapeOfResult(one)));
  }
  text += fmt::format("x = {}\nw = {}\n", ToNchw(one, "input", "permute"),
                      ToOihw(one, "filter", "permute"));
  Shape pads = {g.pad_top, g.pad_left};
  if (g.pad_top != g.pad_bottom || g.pad_left != g.pad_right) {
    text += fmt::format("x = torch.nn.functional.pad(x, ({}, {}, {}, {}))\n", g.pad_left,
                        g.pad_right, g.pad_top, g.pad_bottom);
    pads = {0, 0};
  }
  text += fmt::format(
      "y = torch.nn.functional.conv2d(x, w, stride={}, padding={}, dilation={}, groups={})\n",
      PythonTuple({g.stride_h, g.stride_w}), PythonTuple(pads),
      PythonTuple({g.dilation_h, g.dilation_w}), g.groups);
  text += fmt::format("result = {}\n", FromNchw(one, "y", "permute"));
  if (!is_forward) {
    text +=
        fmt::format("result = torch.autograd.grad(result, {}, out_backprop)[0]\n", ResultRole(one));
  }
  const bool is_narrow = one.problem.dtype == DType::kBFloat16;
  text += fmt::format("result = result.detach(){}.numpy()\n", is_narrow ? ".float()" : "");
  return text + ScriptTail(one);
}

// The name of the operation in tf.raw_ops.
const char* RawOpOf(const ExportCase& one) {
  const bool is_depthwise = IsDepthwise(one);
  switch (DirectionOf(one)) {
    case Direction::kForward: return is_depthwise ? "DepthwiseConv2dNative" : "Conv2D";
    case Direction::kBackpropInput:
      return is_depthwise ? "DepthwiseConv2dNativeBackpropInput" : "Conv2DBackpropInput";
    case Direction::kBackpropFilter:
      return is_depthwise ? "DepthwiseConv2dNativeBackpropFilter" : "Conv2DBackpropFilter";
  }
  ThrowInternal("unknown direction");
}

// TensorFlow's operations have the names and attributes of ours. On CPUs they have NHWC alone.
std::string WriteTensorFlowScript(const ExportCase& one) {
  const Problem& problem = one.problem;
  const ConvGeometry& g = problem.geometry;
  std::string text = ScriptHead(one, "import tensorflow as tf\n");
  std::string arguments;
  for (const ExportOperand& operand : one.operands) {
    const std::string role = NameOf(operand.role);
    const bool is_filter = operand.role == Role::kFilter;
    text +=
        fmt::format("{} = tf.cast({}, tf.{})\n", role,
                    is_filter ? ToHwio(one, role) : ToNhwc(one, role), InfoOf(problem.dtype).name);
    arguments += fmt::format("{0}={0}, ", role);
  }
  if (DirectionOf(one) == Direction::kBackpropInput) {
    arguments += fmt::format("input_sizes={}, ", PythonTuple({g.batch, g.in_h, g.in_w, g.in_c}));
  } else if (DirectionOf(one) == Direction::kBackpropFilter) {
    arguments += fmt::format("filter_sizes={}, ", PythonTuple(problem.FilterShape()));
  }
  std::string paddings;
  if (problem.padding == Padding::kExplicit) {
    paddings = fmt::format(", explicit_paddings=[0, 0, {}, {}, {}, {}, 0, 0]", g.pad_top,
                           g.pad_bottom, g.pad_left, g.pad_right);
  }
  text += fmt::format(
      "result = tf.raw_ops.{}({}strides=[1, {}, {}, 1], dilations=[1, {}, {}, 1], "
      "padding=\"{}\"{}, data_format=\"NHWC\")\n",
      RawOpOf(one), arguments, g.stride_h, g.stride_w, g.dilation_h, g.dilation_w,
      NameOf(problem.padding), paddings);
  if (problem.dtype == DType::kBFloat16) text += "result = tf.cast(result, tf.float32)\n";
  const bool is_filter = DirectionOf(one) == Direction::kBackpropFilter;
  text += fmt::format("result = {}\n", is_filter ? FromHwio(one, "result.numpy()")
                                                 : FromNhwc(one, "result.numpy()"));
  return text + ScriptTail(one);
}

// JAX takes the orders of the case as they are; a depthwise filter in TensorFlow's order is that of
// as many groups with its last two dimensions in one.
std::string WriteJaxScript(const ExportCase& one) {
  const Problem& problem = one.problem;
  const ConvGeometry& g = problem.geometry;
  const char* const data = NameOf(problem.data_format);
  std::string filter = "filter";
  if (IsDepthwise(one) && one.filter_format == FilterFormat::kHWIO) {
    filter = fmt::format("filter.reshape({}, {}, 1, {})", g.kernel_h, g.kernel_w, g.out_c);
  }
  std::string text = ScriptHead(one, "import jax\nimport jax.numpy as jnp\n");
  if (problem.dtype == DType::kFloat64) text += "jax.config.update(\"jax_enable_x64\", True)\n";
  for (const ExportOperand& operand : one.operands) {
    text += fmt::format("{0} = jnp.asarray({0}).astype(jnp.{1})\n", NameOf(operand.role),
                        InfoOf(problem.dtype).name);
  }
  text += fmt::format(
      "\n\ndef forward(input, filter):\n"
      "    return jax.lax.conv_general_dilated(\n"
      "        input, {}, window_strides={}, padding=[({}, {}), ({}, {})],\n"
      "        rhs_dilation={}, dimension_numbers=(\"{}\", \"{}\", \"{}\"),\n"
      "        feature_group_count={}, precision=jax.lax.Precision.HIGHEST)\n\n\n",
      filter, PythonTuple({g.stride_h, g.stride_w}), g.pad_top, g.pad_bottom, g.pad_left,
      g.pad_right, PythonTuple({g.dilation_h, g.dilation_w}), data, NameOf(one.filter_format), data,
      g.groups);
  if (DirectionOf(one) == Direction::kForward) {
    text += "result = forward(input, filter)\n";
  } else {
    const bool is_input = DirectionOf(one) == Direction::kBackpropInput;
    text += fmt::format("{} = jnp.zeros({}, jnp.{})\n", ResultRole(one),
                        PythonTuple(ShapeOfResult(one)), InfoOf(problem.dtype).name);
    text += "_, gradients = jax.vjp(forward, input, filter)\n";
    text += fmt::format("result = gradients(out_backprop)[{}]\n", is_input ? 0 : 1);
  }
  const bool is_narrow = problem.dtype == DType::kBFloat16;
  text += fmt::format("result = np.asarray(result{})\n", is_narrow ? ".astype(jnp.float32)" : "");
  return text + ScriptTail(one);
}

// A model of one node Conv, run by ONNX Runtime.
std::string WriteOnnxScript(const ExportCase& one) {
  const Problem& problem = one.problem;
  const ConvGeometry& g = problem.geometry;
  if (DirectionOf(one) != Direction::kForward) one.Refuse("ONNX has no operator for this gradient");
  if (problem.dtype == DType::kBFloat16) one.Refuse("ONNX Runtime convolves no bfloat16");
  std::string text = ScriptHead(one, "import onnx\nimport onnxruntime\n");
  text += fmt::format("x = np.ascontiguousarray({})\nw = np.ascontiguousarray({})\n",
                      ToNchw(one, "input", "transpose"), ToOihw(one, "filter", "transpose"));
  text += fmt::format(
      "dtype = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)\n"
      "node = onnx.helper.make_node(\n"
      "    \"Conv\", [\"X\", \"W\"], [\"Y\"], kernel_shape=[{}, {}], strides=[{}, {}],\n"
      "    pads=[{}, {}, {}, {}], dilations=[{}, {}], group={})\n",
      g.kernel_h, g.kernel_w, g.stride_h, g.stride_w, g.pad_top, g.pad_left, g.pad_bottom,
      g.pad_right, g.dilation_h, g.dilation_w, g.groups);
  text +=
      "values = [onnx.helper.make_tensor_value_info(name, dtype, shape)\n"
      "          for name, shape in ((\"X\", x.shape), (\"W\", w.shape), (\"Y\", None))]\n"
      "graph = onnx.helper.make_graph([node], \"convolution\", values[:2], values[2:])\n"
      "model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(\"\", 11)],\n"
      "                               ir_version=7)\n"
      "session = onnxruntime.InferenceSession(model.SerializeToString(),\n"
      "                                       providers=[\"CPUExecutionProvider\"])\n"
      "result = session.run(None, {\"X\": x, \"W\": w})[0]\n";
  text += fmt::format("result = {}\n", FromNchw(one, "result", "transpose"));
  return text + ScriptTail(one);
}

}  // namespace convgrad::cli
