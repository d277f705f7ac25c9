// The workloads of data/workloads.json as problems, for the programs that time them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "problem/geometry.h"

namespace convgrad::testing {

inline nlohmann::json ReadWorkloads() {
  std::ifstream file(CONVGRAD_SOURCE_DIR "/data/workloads.json");
  return nlohmann::json::parse(file).at("cases");
}

inline constexpr std::pair<Direction, const char*> kPasses[] = {
    {Direction::kForward, "forward"},
    {Direction::kBackpropInput, "input"},
    {Direction::kBackpropFilter, "filter"},
};

inline ConvSpec SpecOf(const nlohmann::json& w, Direction direction, DataFormat format,
                       DType dtype) {
  const auto at = [&](const char* key) { return w.at(key).get<int64_t>(); };
  const bool depthwise = w.at("op") == "depthwise";
  ConvSpec spec;
  for (const OpInfo& op : AllOps()) {
    if (op.depthwise == depthwise && op.direction == direction) spec.op = op.op;
  }
  spec.dtype = dtype;
  spec.data_format = format;
  spec.padding = Padding::kExplicit;
  spec.explicit_paddings = {at("pt"), at("pb"), at("pl"), at("pr")};
  spec.strides = {at("sh"), at("sw")};
  spec.dilations = {at("dh"), at("dw")};
  const auto data = [&](int64_t h, int64_t w_, int64_t c) {
    return format == DataFormat::kNHWC ? Shape{at("n"), h, w_, c} : Shape{at("n"), c, h, w_};
  };
  const Shape input = data(at("h"), at("w"), at("c"));
  const Shape filter = {at("kh"), at("kw"), at("c") / w.value("groups", int64_t{1}),
                        depthwise ? at("mult") : at("k")};
  if (direction == Direction::kBackpropInput) {
    spec.input_sizes = Sizes{input};
  } else {
    spec.input = input;
  }
  if (direction == Direction::kBackpropFilter) {
    spec.filter_sizes = Sizes{filter};
  } else {
    spec.filter = filter;
  }
  if (direction != Direction::kForward) spec.out_backprop = data(at("oh"), at("ow"), at("k"));
  return spec;
}

}  // namespace convgrad::testing
