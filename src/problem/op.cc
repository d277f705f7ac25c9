#include "problem/op.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace convgrad {
namespace {

constexpr const char* kConv2DBackpropFilterAliases[] = {"Conv2DBackpropFilter"};
constexpr const char* kConv2DBackpropInputAliases[] = {"Conv2DBackpropInput"};
constexpr const char* kDepthwiseBackpropFilterAliases[] = {
    "depthwise_conv2d_native_backprop_filter", "DepthwiseConv2dNativeBackpropFilter"};
constexpr const char* kDepthwiseBackpropInputAliases[] = {"depthwise_conv2d_native_backprop_input",
                                                          "DepthwiseConv2dNativeBackpropInput"};
constexpr const char* kConv2DAliases[] = {"Conv2D"};
constexpr const char* kDepthwiseAliases[] = {"depthwise_conv2d_native", "DepthwiseConv2dNative"};

// In the order of the enum.
constexpr std::array<OpInfo, 6> kOps = {{
    {Op::kConv2DBackpropFilter,
     "conv2d_backprop_filter",
     kConv2DBackpropFilterAliases,
     Direction::kBackpropFilter,
     false,
     {Role::kInput, Role::kOutBackprop},
     "filter_sizes",
     "filter_backprop"},
    {Op::kConv2DBackpropInput,
     "conv2d_backprop_input",
     kConv2DBackpropInputAliases,
     Direction::kBackpropInput,
     false,
     {Role::kFilter, Role::kOutBackprop},
     "input_sizes",
     "input_backprop"},
    {Op::kDepthwiseConv2DBackpropFilter,
     "depthwise_conv2d_backprop_filter",
     kDepthwiseBackpropFilterAliases,
     Direction::kBackpropFilter,
     true,
     {Role::kInput, Role::kOutBackprop},
     "filter_sizes",
     "filter_backprop"},
    {Op::kDepthwiseConv2DBackpropInput,
     "depthwise_conv2d_backprop_input",
     kDepthwiseBackpropInputAliases,
     Direction::kBackpropInput,
     true,
     {Role::kFilter, Role::kOutBackprop},
     "input_sizes",
     "input_backprop"},
    {Op::kConv2D,
     "conv2d",
     kConv2DAliases,
     Direction::kForward,
     false,
     {Role::kInput, Role::kFilter},
     nullptr,
     "output"},
    {Op::kDepthwiseConv2D,
     "depthwise_conv2d",
     kDepthwiseAliases,
     Direction::kForward,
     true,
     {Role::kInput, Role::kFilter},
     nullptr,
     "output"},
}};

constexpr std::string_view kPrefixes[] = {"tf.nn.", "tf.compat.v1.nn.", "tf.compat.v2.nn.",
                                          "tf.raw_ops."};

std::string_view WithoutPrefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

std::vector<std::string_view> AllSpellings() {
  std::vector<std::string_view> names;
  for (const OpInfo& info : kOps) {
    names.push_back(info.name);
    names.insert(names.end(), info.aliases.begin(), info.aliases.end());
  }
  return names;
}

std::string FixOfUnknownOp(std::string_view bare) {
  if (bare == "conv2d_transpose") {
    return "its arguments differ: use conv2d_backprop_input with --input-sizes OUTPUT_SHAPE, "
           "--filter FILTERS and --out-backprop INPUT";
  }
  if (const auto nearest = Nearest(bare, AllSpellings())) {
    return fmt::format("did you mean {}?", *nearest);
  }
  std::string names;
  for (const OpInfo& info : kOps) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return "the ops are " + names;
}

}  // namespace

std::span<const OpInfo> AllOps() {
  return kOps;
}

const OpInfo& InfoOf(Op op) {
  return kOps[static_cast<size_t>(op)];
}

Op ParseOp(std::string_view name) {
  const std::string_view bare = WithoutPrefix(name);
  for (const OpInfo& info : kOps) {
    if (bare == info.name) return info.op;
    for (const std::string_view alias : info.aliases) {
      if (bare == alias) return info.op;
    }
  }
  ThrowUsage("op/unknown", fmt::format("op '{}'", name.substr(0, 100)), "there is no such op",
             FixOfUnknownOp(bare));
}

const char* NameOf(Role role) {
  switch (role) {
    case Role::kInput: return "input";
    case Role::kFilter: return "filter";
    case Role::kOutBackprop: return "out_backprop";
  }
  ThrowInternal("unknown role");
}

}  // namespace convgrad
