#include "problem/framework_op.h"

namespace convgrad {
namespace {

struct Known {
  std::string_view name;
  Op op;
};

// In NCHW and OIHW order. PyTorch's depthwise convolutions are grouped ones and so are conv2d here.
constexpr Known kKnown[] = {
    {"torch.nn.functional.conv2d", Op::kConv2D},
    {"torch.nn.Conv2d", Op::kConv2D},
    {"torch.conv2d", Op::kConv2D},
    {"nn.functional.conv2d", Op::kConv2D},
    {"nn.Conv2d", Op::kConv2D},
    {"F.conv2d", Op::kConv2D},
    {"aten::conv2d", Op::kConv2D},
    {"torch.nn.grad.conv2d_weight", Op::kConv2DBackpropFilter},
    {"nn.grad.conv2d_weight", Op::kConv2DBackpropFilter},
    {"conv2d_weight", Op::kConv2DBackpropFilter},
    {"torch.nn.grad.conv2d_input", Op::kConv2DBackpropInput},
    {"nn.grad.conv2d_input", Op::kConv2DBackpropInput},
    {"conv2d_input", Op::kConv2DBackpropInput},
    {"Conv", Op::kConv2D},
    {"onnx.Conv", Op::kConv2D},
    {"onnx::Conv", Op::kConv2D},
    {"ai.onnx.Conv", Op::kConv2D},
};

struct Ambiguous {
  std::string_view name;  // without the namespaces before it
  const char* advice;
};

constexpr const char* kTransposed =
    "a transposed convolution is the input gradient of one: use conv2d_backprop_input "
    "--input-sizes OUTPUT_SHAPE --filter WEIGHT --out-backprop INPUT --data-format NCHW "
    "--filter-format OIHW";
constexpr const char* kBackward =
    "it gives several gradients, here each is a command: conv2d_backprop_filter --input X "
    "--filter-sizes WEIGHT_SHAPE --out-backprop DY, and conv2d_backprop_input --input-sizes "
    "X_SHAPE "
    "--filter WEIGHT --out-backprop DY, both with --data-format NCHW --filter-format OIHW "
    "--padding "
    "N";
constexpr const char* kForward =
    "use conv2d --input X --filter WEIGHT --data-format NCHW --filter-format OIHW --padding N; "
    "where it is transposed, conv2d_backprop_input";
constexpr Ambiguous kAmbiguous[] = {
    {"convolution", kForward},
    {"_convolution", kForward},
    {"cudnn_convolution", kForward},
    {"mkldnn_convolution", kForward},
    {"convolution_backward", kBackward},
    {"cudnn_convolution_backward", kBackward},
    {"conv_transpose2d", kTransposed},
    {"ConvTranspose2d", kTransposed},
    {"ConvTranspose", kTransposed},
    {"conv_general_dilated",
     "use conv2d --input LHS --filter RHS with --data-format and --filter-format as in "
     "dimension_numbers (NCHW and OIHW where there are none), --strides, --dilations RHS_DILATION, "
     "--groups FEATURE_GROUP_COUNT and --padding; with lhs_dilation it is conv2d_backprop_input"},
    {"conv_with_general_padding",
     "use conv2d --data-format NCHW --filter-format OIHW with --padding "
     "[[top,bottom],[left,right]]"},
};

constexpr std::string_view kNamespaces[] = {"torch.ops.aten.",
                                            "torch.nn.functional.",
                                            "torch.nn.",
                                            "torch.",
                                            "nn.functional.",
                                            "nn.",
                                            "F.",
                                            "aten::",
                                            "aten.",
                                            "onnx::",
                                            "onnx.",
                                            "ai.onnx.",
                                            "jax.lax.",
                                            "lax."};

std::string_view WithoutNamespace(std::string_view name) {
  for (const std::string_view space : kNamespaces) {
    if (name.starts_with(space)) return name.substr(space.size());
  }
  return name;
}

}  // namespace

std::optional<FrameworkOp> FindFrameworkOp(std::string_view name) {
  for (const Known& known : kKnown) {
    if (name == known.name) {
      return FrameworkOp{known.op, DataFormat::kNCHW, FilterFormat::kOIHW};
    }
  }
  return std::nullopt;
}

std::string AdviceOnFrameworkOp(std::string_view name) {
  std::string_view bare = WithoutNamespace(name);
  if (bare.ends_with(".default")) bare.remove_suffix(8);  // as torch.fx prints overloads
  for (const Ambiguous& ambiguous : kAmbiguous) {
    if (bare == ambiguous.name) return ambiguous.advice;
  }
  return "";
}

}  // namespace convgrad
