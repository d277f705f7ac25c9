// The table of operations: what they are called, which tensors they take and give.
#pragma once

#include <span>
#include <string_view>

namespace convgrad {

enum class Op {
  kConv2DBackpropFilter,
  kConv2DBackpropInput,
  kDepthwiseConv2DBackpropFilter,
  kDepthwiseConv2DBackpropInput,
  kConv2D,
  kDepthwiseConv2D,
};

enum class Direction { kForward, kBackpropInput, kBackpropFilter };

// A tensor's part in a convolution y = conv(x, w). Each direction computes one from the other two.
enum class Role { kInput, kFilter, kOutBackprop };

struct OpInfo {
  Op op;
  const char* name;                      // canonical: TensorFlow's Python name
  std::span<const char* const> aliases;  // other spellings, without prefixes
  Direction direction;
  bool depthwise;
  Role operands[2];        // in TensorFlow's order, the sizes vector left out
  const char* sizes_flag;  // "filter_sizes", "input_sizes", or null
  const char* result;      // "filter_backprop", "input_backprop", "output"
};

std::span<const OpInfo> AllOps();
const OpInfo& InfoOf(Op op);

// Accepts every public spelling, with or without the prefixes `tf.nn.`, `tf.compat.v1.nn.`,
// `tf.compat.v2.nn.`, `tf.raw_ops.`. Throws usage "op/unknown" that suggests the nearest.
Op ParseOp(std::string_view name);

// "input", "filter", "out_backprop".
const char* NameOf(Role role);

}  // namespace convgrad
