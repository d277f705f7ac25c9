// Random small convolution problems for tests: every op, type, layout and kind of padding, unequal
// strides and dilations, groups, multipliers, and the sizes at which vector code changes its path.
// The same seed gives the same problems everywhere. Knows nothing of how they are computed.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>

#include "base/error.h"
#include "problem/geometry.h"
#include "support/draw.h"

namespace convgrad {

// The values to draw from; one that is set is kept fixed.
struct RandomProblemOptions {
  std::optional<Op> op;
  std::optional<DType> dtype;
  std::optional<DataFormat> data_format;
  std::optional<Padding> padding;
  int64_t max_terms = 200'000;  // products of one problem, at most
  bool allow_empty = true;      // sizes of 0
  bool relates_sizes = false;   // sizes that follow from each other, too
};

class RandomProblems {
 public:
  explicit RandomProblems(uint64_t seed, RandomProblemOptions options = {})
      : draw_(seed), options_(options) {}

  // Draws until a legal problem of bearable size comes up.
  Problem Next() {
    while (true) {
      if (const std::optional<Problem> problem = Legal(DrawSpec())) return *problem;
    }
  }

 private:
  // Problems of so many terms have room for sizes that are cut into parts.
  bool IsLarge() const { return options_.max_terms > 1'000'000; }
  // Vector lengths and their neighbours, for the dimension that lies innermost.
  int64_t Channels() {
    if (options_.allow_empty && draw_.OneIn(40)) return 0;
    if (IsLarge() && draw_.OneIn(4)) return draw_(66, 600);
    return draw_.OneOf<int64_t>({1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65});
  }
  int64_t Pixels() {
    if (options_.allow_empty && draw_.OneIn(40)) return 0;
    if (IsLarge() && draw_.OneIn(4)) return draw_(34, 300);
    return draw_.OneOf<int64_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33});
  }
  int64_t Taps() {
    if (options_.allow_empty && draw_.OneIn(60)) return 0;
    return draw_.OneOf<int64_t>({1, 1, 1, 2, 3, 3, 3, 4, 5, 5, 7, 9});
  }

  ConvSpec DrawSpec() {
    ConvSpec spec;
    spec.op = options_.op.value_or(AllOps()[draw_(0, std::ssize(AllOps()) - 1)].op);
    spec.dtype = options_.dtype.value_or(draw_.OneOf(
        {DType::kFloat32, DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}));
    spec.data_format = options_.data_format.value_or(
        draw_.OneOf({DataFormat::kNHWC, DataFormat::kNHWC, DataFormat::kNCHW}));
    spec.padding = options_.padding.value_or(
        draw_.OneOf({Padding::kSame, Padding::kValid, Padding::kExplicit}));
    spec.strides = {draw_.OneOf<int64_t>({1, 1, 1, 2, 2, 3, 4}),
                    draw_.OneOf<int64_t>({1, 1, 1, 2, 2, 3, 4})};
    if (draw_.OneIn(2)) spec.strides[1] = spec.strides[0];
    spec.dilations = {draw_.OneOf<int64_t>({1, 1, 1, 1, 2, 3}),
                      draw_.OneOf<int64_t>({1, 1, 1, 1, 2, 3})};
    if (draw_.OneIn(2)) spec.dilations[1] = spec.dilations[0];
    if (spec.padding == Padding::kExplicit) {
      for (int i = 0; i < 4; ++i)
        spec.explicit_paddings.push_back(draw_.OneOf<int64_t>({0, 0, 1, 1, 2, 3, 6}));
    }
    DrawShapes(spec);
    if (options_.relates_sizes) Relate(spec);
    return spec;
  }

  // Sizes of an axis that follow from each other, for which code changes its path: windows side by
  // side, a filter as long as the map or as far apart as it, a stride that a dilation meets. And
  // pixels a power of two apart, which crowd in few sets of the caches.
  void Relate(ConvSpec& spec) {
    const bool nhwc = spec.data_format == DataFormat::kNHWC;
    for (const size_t axis : {0, 1}) {
      const int64_t kernel = (*spec.filter)[axis];
      if (kernel == 0) continue;
      int64_t& map = (*spec.input)[axis + (nhwc ? 1 : 2)];
      if (draw_.OneIn(4)) spec.strides[axis] = kernel;
      if (draw_.OneIn(8)) spec.dilations[axis] = spec.strides[axis] * draw_.OneOf<int64_t>({1, 2});
      if (draw_.OneIn(4)) map = kernel * draw_.OneOf<int64_t>({1, 1, 2, 3});
      if (draw_.OneIn(8)) map = (kernel - 1) * spec.dilations[axis] + draw_(0, 2);
    }
    int64_t& channels = (*spec.input)[nhwc ? 3 : 1];
    if (draw_.OneIn(12) && (*spec.filter)[2] == channels) {
      channels = (*spec.filter)[2] = draw_.OneOf<int64_t>({128, 256, 512, 1024});
    }
  }

  // As if for the forward op, whose shapes say everything.
  void DrawShapes(ConvSpec& spec) {
    const int64_t batch =
        options_.allow_empty && draw_.OneIn(40) ? 0 : draw_.OneOf<int64_t>({1, 1, 2, 3, 5});
    const int64_t h = Pixels(), w = Pixels();
    int64_t in_c = Channels();
    if (InfoOf(spec.op).depthwise) {
      spec.filter = Shape{Taps(), Taps(), in_c, Multiplier()};
    } else {
      const int64_t groups = draw_.OneIn(3) ? draw_.OneOf<int64_t>({2, 3, 4, 8}) : 1;
      const int64_t group_in_c = draw_.OneOf<int64_t>({1, 2, 3, 4, 8, 15, 16, 17, 33});
      if (groups > 1) in_c = groups * group_in_c;
      spec.filter = Shape{Taps(), Taps(), groups > 1 ? group_in_c : in_c,
                          groups > 1 ? groups * Multiplier() : Channels()};
    }
    spec.input =
        spec.data_format == DataFormat::kNHWC ? Shape{batch, h, w, in_c} : Shape{batch, in_c, h, w};
  }

  int64_t Multiplier() {
    if (options_.allow_empty && draw_.OneIn(60)) return 0;
    return draw_.OneOf<int64_t>({1, 1, 1, 2, 3, 4, 8, 17});
  }

  std::optional<Problem> Legal(ConvSpec spec) const {
    const Op op = spec.op;
    spec.op = InfoOf(op).depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
    try {
      Problem problem = MakeProblem(spec);
      problem.op = op;
      if (problem.ValidTerms() > options_.max_terms) return std::nullopt;
      return problem;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  testing::Draw draw_;
  RandomProblemOptions options_;
};

// A command line that runs `problem` on generated operands and compares it with the reference.
inline std::string ReproLine(const Problem& problem, const std::string& fill = "fill:integer") {
  const OpInfo& info = InfoOf(problem.op);
  const ConvGeometry& g = problem.geometry;
  const auto shape_of = [](const Shape& shape) {
    return testing::ListOf({shape[0], shape[1], shape[2], shape[3]});
  };
  std::string line = std::string("convgrad check ") + info.name;
  for (const Role role : info.operands) {
    const char* flag = role == Role::kInput    ? "--input"
                       : role == Role::kFilter ? "--filter"
                                               : "--out-backprop";
    line += std::string(" ") + flag + " " + fill + "@" + shape_of(problem.ShapeOf(role));
  }
  if (info.direction == Direction::kBackpropInput) {
    line += " --input-sizes " + shape_of(problem.InputShape());
  }
  if (info.direction == Direction::kBackpropFilter) {
    line += " --filter-sizes " + shape_of(problem.FilterShape());
  }
  line += " --strides " + testing::ListOf({g.stride_h, g.stride_w});
  line += " --dilations " + testing::ListOf({g.dilation_h, g.dilation_w});
  line += std::string(" --padding ") + NameOf(problem.padding);
  if (problem.padding == Padding::kExplicit) {
    line += " --explicit-paddings " +
            testing::ListOf({g.pad_top, g.pad_bottom, g.pad_left, g.pad_right});
  }
  return line + " --data-format " + NameOf(problem.data_format) + " --dtype " +
         InfoOf(problem.dtype).name;
}

// A failing parameterised test prints this.
inline void PrintTo(const Problem& problem, std::ostream* out) {
  *out << problem.ToLine();
}

}  // namespace convgrad
