// Names that other frameworks have for convolutions: those that say one thing only, with the orders
// of dimensions that they imply, and advice for the others.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "problem/geometry.h"

namespace convgrad {

// The meaning of a name where nothing else is said.
struct FrameworkOp {
  Op op;
  DataFormat data_format;
  FilterFormat filter_format;
};

// PyTorch's and ONNX's names, with the prefixes they are written with: "F.conv2d",
// "torch.nn.functional.conv2d", "aten::conv2d", "torch.nn.grad.conv2d_weight", "Conv".
std::optional<FrameworkOp> FindFrameworkOp(std::string_view name);

// The names to ask for instead of one that stands for several operations; "" for every other name.
std::string AdviceOnFrameworkOp(std::string_view name);

}  // namespace convgrad
