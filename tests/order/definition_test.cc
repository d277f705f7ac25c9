// Every op against the definition of its result, written out here in plain loops over integers, so
// that all sums are exact: whatever is mathematically defined is computed, in every layout.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "conv/compute.h"
#include "problem/geometry.h"
#include "support/random_problem.h"

namespace convgrad {
namespace {

// A tensor of small integers, addressed by its logical dimensions.
class Integers {
 public:
  explicit Integers(Shape shape) : shape_(std::move(shape)) {
    values_.resize(static_cast<size_t>(*CheckedProduct(shape_)));
  }
  void Fill(uint64_t seed) {
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<int64_t>((i + seed) * 0x9E3779B97F4A7C15u >> 33) % 5 - 2;
    }
  }
  int64_t& At(int64_t a, int64_t b, int64_t c, int64_t d) {
    return values_[static_cast<size_t>(((a * shape_[1] + b) * shape_[2] + c) * shape_[3] + d)];
  }
  int64_t& Image(DataFormat format, int64_t n, int64_t h, int64_t w, int64_t c) {
    return format == DataFormat::kNHWC ? At(n, h, w, c) : At(n, c, h, w);
  }
  const Shape& shape() const { return shape_; }
  const std::vector<int64_t>& values() const { return values_; }

 private:
  Shape shape_;
  std::vector<int64_t> values_;
};

struct Tensors {
  Integers input, filter, output;
};

// f(x, w, y) for every product: input element, filter element, output element.
template <class F>
void ForEachTerm(const Problem& problem, Tensors& t, F&& f) {
  const ConvGeometry& g = problem.geometry;
  const bool depthwise = InfoOf(problem.op).depthwise;
  const DataFormat format = problem.data_format;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t i = 0; i < g.out_h; ++i)
      for (int64_t j = 0; j < g.out_w; ++j)
        for (int64_t r = 0; r < g.kernel_h; ++r)
          for (int64_t s = 0; s < g.kernel_w; ++s) {
            const int64_t row = i * g.stride_h + r * g.dilation_h - g.pad_top;
            const int64_t col = j * g.stride_w + s * g.dilation_w - g.pad_left;
            if (row < 0 || row >= g.in_h || col < 0 || col >= g.in_w) continue;
            for (int64_t c = 0; c < g.in_c; ++c) {
              const int64_t group = c / g.group_in_c, q = c % g.group_in_c;
              for (int64_t m = 0; m < g.group_out_c; ++m) {
                const int64_t o = group * g.group_out_c + m;
                f(t.input.Image(format, n, row, col, c),
                  depthwise ? t.filter.At(r, s, c, m) : t.filter.At(r, s, q, o),
                  t.output.Image(format, n, i, j, o));
              }
            }
          }
}

Tensors MakeTensors(const Problem& problem) {
  Tensors t = {Integers(problem.InputShape()), Integers(problem.FilterShape()),
               Integers(problem.OutputShape())};
  const Direction direction = InfoOf(problem.op).direction;
  if (direction != Direction::kBackpropInput) t.input.Fill(1);
  if (direction != Direction::kBackpropFilter) t.filter.Fill(1000);
  if (direction != Direction::kForward) t.output.Fill(1'000'000);
  return t;
}

const Integers& ResultByDefinition(const Problem& problem, Tensors& t) {
  switch (InfoOf(problem.op).direction) {
    case Direction::kForward:
      ForEachTerm(problem, t, [](int64_t x, int64_t w, int64_t& y) { y += x * w; });
      return t.output;
    case Direction::kBackpropInput:
      ForEachTerm(problem, t, [](int64_t& x, int64_t w, int64_t y) { x += w * y; });
      return t.input;
    default:
      ForEachTerm(problem, t, [](int64_t x, int64_t& w, int64_t y) { w += x * y; });
      return t.filter;
  }
}

Tensor ToTensor(const Integers& integers, DType dtype) {
  Tensor tensor(dtype, integers.shape());
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.mutable_data<Stored>()[i] =
          Narrow<Stored>(static_cast<double>(integers.values()[static_cast<size_t>(i)]));
    }
  });
  return tensor;
}

const Integers& TensorOf(const Tensors& t, Role role) {
  return role == Role::kInput ? t.input : role == Role::kFilter ? t.filter : t.output;
}

void ExpectComputed(const Problem& problem) {
  SCOPED_TRACE(problem.ToLine() + "\n" + ReproLine(problem));
  Tensors t = MakeTensors(problem);
  const auto& operands = InfoOf(problem.op).operands;
  const Tensor result = Compute(problem, ToTensor(TensorOf(t, operands[0]), problem.dtype),
                                ToTensor(TensorOf(t, operands[1]), problem.dtype), Execution{});
  const Tensor expected = ToTensor(ResultByDefinition(problem, t), problem.dtype);
  ASSERT_EQ(result.shape(), expected.shape());
  // Bits: the zero of an empty sum is +0.
  const char* actual_bytes = static_cast<const char*>(result.raw());
  const char* expected_bytes = static_cast<const char*>(expected.raw());
  for (int64_t i = 0; i < result.num_bytes(); ++i) {
    ASSERT_EQ(actual_bytes[i], expected_bytes[i]) << "element " << i / InfoOf(problem.dtype).bytes;
  }
}

TEST(Definition, HoldsForRandomProblems) {
  RandomProblemOptions options;
  options.max_terms = 20'000;
  RandomProblems problems(1, options);
  for (int i = 0; i < 1'000; ++i) ExpectComputed(problems.Next());
}

// The problem of `op` whose forward direction has these shapes, made the way a user makes it.
Problem MakeFor(Op op, ConvSpec spec) {
  const OpInfo& info = InfoOf(op);
  spec.op = info.depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
  const Problem forward = MakeProblem(spec);
  spec.op = op;
  if (info.direction != Direction::kForward) spec.out_backprop = forward.OutputShape();
  if (info.direction == Direction::kBackpropInput) {
    spec.input_sizes = Sizes{*spec.input};
    spec.input.reset();
  }
  if (info.direction == Direction::kBackpropFilter) {
    spec.filter_sizes = Sizes{*spec.filter};
    spec.filter.reset();
  }
  return MakeProblem(spec);
}

void ExpectComputedByAllDirections(const ConvSpec& spec) {
  for (const OpInfo& info : AllOps()) {
    if (info.depthwise == InfoOf(spec.op).depthwise) ExpectComputed(MakeFor(info.op, spec));
  }
}

ConvSpec SpecOf(Op op, Shape input, Shape filter, Padding padding = Padding::kSame) {
  ConvSpec spec;
  spec.op = op;
  spec.input = std::move(input);
  spec.filter = std::move(filter);
  spec.padding = padding;
  return spec;
}

// TensorFlow's CPU kernels refuse these, or ignore the attribute, for lack of a kernel only.

TEST(Computed, WhereTensorFlowHasNoKernelForDilatedGradients) {
  for (const std::vector<int64_t>& dilations : {std::vector<int64_t>{2}, {1, 2}, {3, 2}}) {
    for (const std::vector<int64_t>& strides : {std::vector<int64_t>{1}, {2}, {2, 3}}) {
      ConvSpec spec = SpecOf(Op::kConv2D, {2, 9, 8, 3}, {3, 2, 3, 4});
      spec.strides = strides;
      spec.dilations = dilations;
      ExpectComputedByAllDirections(spec);
      spec.op = Op::kDepthwiseConv2D;
      ExpectComputedByAllDirections(spec);
    }
  }
}

TEST(Computed, WhereTensorFlowHasNoKernelForGroupedGradients) {
  ExpectComputedByAllDirections(SpecOf(Op::kConv2D, {2, 6, 5, 8}, {3, 3, 2, 12}));
  ExpectComputedByAllDirections(SpecOf(Op::kConv2D, {2, 6, 5, 8}, {3, 3, 1, 8}));
}

TEST(Computed, WhereTensorFlowHasNoKernelForUnequalStridesOfDepthwise) {
  ConvSpec spec = SpecOf(Op::kDepthwiseConv2D, {2, 7, 8, 3}, {3, 3, 3, 2});
  spec.strides = {1, 3};
  ExpectComputedByAllDirections(spec);
}

TEST(Computed, WhereTensorFlowHasNoKernelForNchw) {
  for (const Op op : {Op::kConv2D, Op::kDepthwiseConv2D}) {
    ConvSpec spec = SpecOf(op, {2, 4, 6, 5}, {3, 3, 4, 4});
    spec.data_format = DataFormat::kNCHW;
    ExpectComputedByAllDirections(spec);
  }
}

// Where no term exists the result is +0 or empty, in every op, whatever TensorFlow returns.

TEST(Empty, BatchOrImage) {
  for (const Op op : {Op::kConv2D, Op::kDepthwiseConv2D}) {
    ExpectComputedByAllDirections(SpecOf(op, {0, 5, 5, 2}, {3, 3, 2, 3}));
    ExpectComputedByAllDirections(SpecOf(op, {2, 0, 5, 2}, {3, 3, 2, 3}));
    ExpectComputedByAllDirections(SpecOf(op, {2, 5, 0, 2}, {3, 3, 2, 3}));
    ExpectComputedByAllDirections(SpecOf(op, {0, 0, 0, 2}, {3, 3, 2, 3}));
  }
}

TEST(Empty, OutputTruncatedToNothing) {
  for (const Op op : {Op::kConv2D, Op::kDepthwiseConv2D}) {
    ExpectComputedByAllDirections(SpecOf(op, {2, 2, 5, 2}, {3, 3, 2, 3}, Padding::kValid));
    // These shapes once crashed TensorFlow's filter gradient.
    ConvSpec spec = SpecOf(op, {1, 1, 1, 1}, {2, 2, 1, 1}, Padding::kValid);
    spec.strides = {3};
    ExpectComputedByAllDirections(spec);
    spec = SpecOf(op, {1, 3, 5, 1}, {4, 2, 1, 1}, Padding::kValid);
    spec.strides = {2};
    ExpectComputedByAllDirections(spec);
  }
}

TEST(Empty, InputUnderNothingButPadding) {
  for (const Op op : {Op::kConv2D, Op::kDepthwiseConv2D}) {
    ConvSpec spec = SpecOf(op, {1, 0, 2, 1}, {1, 1, 1, 1}, Padding::kExplicit);
    spec.explicit_paddings = {0, 0, 1, 1, 1, 1, 0, 0};
    ExpectComputedByAllDirections(spec);
  }
}

TEST(Empty, Channels) {
  ExpectComputedByAllDirections(SpecOf(Op::kConv2D, {2, 4, 4, 0}, {3, 3, 2, 3}));
  ExpectComputedByAllDirections(SpecOf(Op::kConv2D, {2, 4, 4, 2}, {3, 3, 2, 0}));
  ExpectComputedByAllDirections(SpecOf(Op::kDepthwiseConv2D, {2, 4, 4, 0}, {3, 3, 0, 2}));
  ExpectComputedByAllDirections(SpecOf(Op::kDepthwiseConv2D, {2, 4, 4, 3}, {3, 3, 3, 0}));
}

TEST(Empty, Filter) {
  for (const Op op : {Op::kConv2D, Op::kDepthwiseConv2D}) {
    for (const Padding padding : {Padding::kSame, Padding::kValid}) {
      ExpectComputedByAllDirections(SpecOf(op, {2, 4, 4, 2}, {0, 3, 2, 3}, padding));
      ExpectComputedByAllDirections(SpecOf(op, {2, 4, 4, 2}, {3, 0, 2, 3}, padding));
      ExpectComputedByAllDirections(SpecOf(op, {2, 4, 4, 2}, {0, 0, 2, 3}, padding));
    }
  }
}

TEST(Computed, PadsBeyondTheFilter) {
  for (const Op op : {Op::kConv2D, Op::kDepthwiseConv2D}) {
    ConvSpec spec = SpecOf(op, {2, 3, 2, 2}, {2, 3, 2, 3}, Padding::kExplicit);
    spec.explicit_paddings = {7, 3, 0, 9};
    ExpectComputedByAllDirections(spec);
    spec.strides = {3, 2};
    ExpectComputedByAllDirections(spec);
  }
}

TEST(Computed, FiltersLargerThanTheInputAndHugeDilations) {
  for (const Op op : {Op::kConv2D, Op::kDepthwiseConv2D}) {
    ExpectComputedByAllDirections(SpecOf(op, {2, 3, 2, 2}, {9, 8, 2, 3}));
    ConvSpec spec = SpecOf(op, {1, 4, 5, 2}, {3, 3, 2, 2});
    spec.dilations = {kMaxDimension, kMaxDimension - 1};
    ExpectComputedByAllDirections(spec);
    spec.strides = {kMaxDimension, 1};
    ExpectComputedByAllDirections(spec);
  }
}

}  // namespace
}  // namespace convgrad
