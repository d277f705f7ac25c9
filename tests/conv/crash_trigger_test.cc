// The triggers of TensorFlow's security advisories and crash reports on these ops: each ends in a
// clear error or in the right zeros. Meant to run under the sanitizers too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "conv/compute.h"
#include "problem/geometry.h"

namespace convgrad {
namespace {

constexpr Op kConvFilter = Op::kConv2DBackpropFilter;
constexpr Op kConvInput = Op::kConv2DBackpropInput;
constexpr Op kDepthwiseFilter = Op::kDepthwiseConv2DBackpropFilter;
constexpr Op kDepthwiseInput = Op::kDepthwiseConv2DBackpropInput;

enum class Outcome { kUsage, kData, kZeros };

struct Trigger {
  const char* report;
  Op op;
  std::vector<int64_t> sizes;  // of the gradient ops
  Shape first, second;         // the operands, in the op's order
  std::vector<int64_t> strides = {1, 1, 1, 1};
  Padding padding = Padding::kSame;
  Outcome outcome;
  std::vector<int64_t> explicit_paddings = {};
  std::vector<int64_t> dilations = {1, 1, 1, 1};
  DataFormat data_format = DataFormat::kNHWC;
};

constexpr Padding kSame = Padding::kSame, kValid = Padding::kValid;
constexpr Outcome kUsage = Outcome::kUsage, kData = Outcome::kData, kZeros = Outcome::kZeros;
constexpr int64_t kBig = 1879048192;

const Trigger kTriggers[] = {
    // No channels: an empty sum. TensorFlow refuses it only for its own bookkeeping.
    {"CVE-2021-29524",
     kConvFilter,
     {1, 1, 1, 1},
     {0, 0, 1, 0},
     {0, 0, 1, 1},
     {1, 66, 18, 1},
     kSame,
     kZeros},
    {"CVE-2021-29538", kConvFilter, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1}, kSame, kData},
    // 2 groups, 1 output channel.
    {"CVE-2021-29540 a",
     kConvFilter,
     {1, 1, 1, 1},
     {1, 1, 1, 2},
     {1, 1, 1, 1},
     {1, 66, 49, 1},
     kValid,
     kData},
    {"CVE-2021-29540 b",
     kConvFilter,
     {3, 8, 1, 1},
     {0, 1, 1, 5},
     {0, 1, 1, 1},
     {1, 66, 49, 1},
     kValid,
     kData},
    {"CVE-2021-29525", kConvInput, {52, 1, 1, 5}, {0, 1, 5, 0}, {52, 1, 1, 0}, {1}, kSame, kZeros},
    {"CVE-2021-29526", Op::kConv2D, {}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1}, kSame, kData},
    {"CVE-2021-41209", Op::kConv2D, {}, {1, 1, 1, 1}, {1, 0, 1, 1}, {1}, kSame, kZeros},
    {"CVE-2022-35996",
     Op::kConv2D,
     {},
     {1, 0, 2, 1},
     {1, 1, 1, 1},
     {1},
     Padding::kExplicit,
     kZeros,
     {0, 0, 1, 1, 1, 1, 0, 0}},
    {"CVE-2022-35999",
     kConvInput,
     {3, 1, 1, 2},
     {1, 3, 2, 3},
     {3, 1, 0, 3},
     {1, 1, 2, 1},
     kValid,
     kZeros},
    {"CVE-2022-35969", kConvInput, {65534, 65534}, {3, 3, 2, 2}, {}, {1}, kSame, kData},
    {"issue 57715", kConvInput, {2, -2}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1}, kSame, kUsage},
    {"issue 57709", kConvInput, {-470478018, 1}, {}, {2, 1, 1, 1}, {1}, kSame, kUsage},
    {"issue 57958",
     kConvInput,
     {114078056, 179835296},
     {},
     {2, 2, 2, 2},
     {1, 10, 10, 1},
     kSame,
     kUsage},
    {"issue 125506", kConvInput, {2, 2}, {}, {1, 3, 3, 8}, {2}, kSame, kData},
    {"issue 125511", kConvInput, {2, 4, 2}, {3, 3, 3, 3}, {1, 4, 4, 3}, {2}, kSame, kUsage},
    {"issue 62142", kConvFilter, {3}, {2, 7}, {10}, {3}, kValid, kUsage, {2}, {1}},
    {"issue 57980", kConvFilter, {5}, {1, 1, 1, 1, 1, 1}, {}, {1, 1, 1, 1, 1, 1}, kValid, kUsage},
    {"issue 57981",
     kConvFilter,
     {3, 3, 1, 1},
     {1, 4, 4, 1, 1},
     {1, 4, 4, 1},
     {1, 1, 1},
     kSame,
     kUsage},
    {"issue 85257",
     kConvFilter,
     {1, 1, 1, 1},
     {1, 1, 1, 1},
     {1, 1, 1, 1},
     {4538426903074820908},
     kSame,
     kUsage},
    {"issue 85255",
     Op::kDepthwiseConv2D,
     {},
     {},
     {1, 9},
     {INT64_MAX, INT64_MAX},
     kValid,
     kUsage,
     {},
     std::vector<int64_t>(11, 1099511627776)},
    {"issue 60201",
     kDepthwiseInput,
     {-100, 5, 7},
     {16, 3, 3, 5},
     {1, 0, 0, 1},
     {1, 0, 1, 1},
     kValid,
     kUsage,
     {},
     {1, 0, 77, 1, 64}},
    {"issue 89845", kDepthwiseInput, {1, 5, 5, 1}, {4}, {1, 1}, {1, 1}, kValid, kData},
    {"issue 104881", kDepthwiseInput, {1, 5, 5, 1}, {3, 3, 1}, {1, 3, 3}, {1, 1}, kValid, kData},
    {"issue 58180",
     kDepthwiseFilter,
     {},
     {},
     {1, 4, 4, 1},
     {1, 1, 128, 128},
     kValid,
     kUsage,
     {},
     {96, 25, 10},
     DataFormat::kNCHW},
    {"issue 85258", kDepthwiseFilter, {}, {}, {}, {}, kValid, kUsage},
    {"issue 59059",
     kDepthwiseFilter,
     std::vector<int64_t>(13, kBig),
     {4, 5, 5, 48},
     {4, 5, 5, 96},
     {1},
     kSame,
     kUsage},
    {"IvySyn, 13 sizes",
     kDepthwiseInput,
     std::vector<int64_t>(13, kBig),
     {1, 1, 48, 2},
     {1, 1, 48, 2},
     {1},
     kSame,
     kUsage},
    {"IvySyn, 4 sizes",
     kDepthwiseFilter,
     {kBig, kBig, kBig, kBig},
     {4, 5, 5, 48},
     {4, 5, 5, 96},
     {1},
     kSame,
     kUsage},
    // Empty outputs that left the result unwritten.
    {"PR 126484, batch",
     kDepthwiseFilter,
     {3, 3, 2, 2},
     {0, 5, 5, 2},
     {0, 5, 5, 4},
     {1},
     kSame,
     kZeros},
    {"PR 126484, height",
     kDepthwiseFilter,
     {3, 3, 2, 2},
     {2, 0, 5, 2},
     {2, 0, 5, 4},
     {1},
     kSame,
     kZeros},
    {"multiplier 0", kDepthwiseInput, {1, 2, 2, 3}, {2, 2, 3, 0}, {1, 2, 2, 0}, {1}, kSame, kZeros},
    {"im2col on an empty output",
     kConvFilter,
     {2, 2, 1, 1},
     {1, 1, 1, 1},
     {1, 0, 0, 1},
     {3},
     kValid,
     kZeros},
    {"PR 127835", Op::kConv2D, {}, {2, 3, 3, 2}, {4, 4, 2, 5}, {1}, kValid, kZeros},
};

ConvSpec SpecOf(const Trigger& trigger) {
  ConvSpec spec;
  spec.op = trigger.op;
  spec.data_format = trigger.data_format;
  spec.padding = trigger.padding;
  spec.strides = trigger.strides;
  spec.dilations = trigger.dilations;
  spec.explicit_paddings = trigger.explicit_paddings;
  const OpInfo& info = InfoOf(trigger.op);
  const auto set = [&](Role role, const Shape& shape) {
    (role == Role::kInput    ? spec.input
     : role == Role::kFilter ? spec.filter
                             : spec.out_backprop) = shape;
  };
  set(info.operands[0], trigger.first);
  set(info.operands[1], trigger.second);
  if (info.direction == Direction::kBackpropInput) spec.input_sizes = Sizes{trigger.sizes};
  if (info.direction == Direction::kBackpropFilter) spec.filter_sizes = Sizes{trigger.sizes};
  return spec;
}

Tensor Ones(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    std::fill_n(tensor.mutable_data<Stored>(), tensor.num_elements(), Narrow<Stored>(1));
  });
  return tensor;
}

void ExpectZeros(const ConvSpec& spec) {
  const Problem problem = MakeProblem(spec);
  const auto& operands = InfoOf(problem.op).operands;
  const Tensor result = Compute(problem, Ones(problem.dtype, problem.ShapeOf(operands[0])),
                                Ones(problem.dtype, problem.ShapeOf(operands[1])), Execution{});
  EXPECT_EQ(result.shape(), problem.ResultShape());
  const char* bytes = static_cast<const char*>(result.raw());
  EXPECT_TRUE(std::all_of(bytes, bytes + result.num_bytes(), [](char byte) { return byte == 0; }));
}

TEST(CrashTriggers, EndInAnErrorOrInZeros) {
  for (const Trigger& trigger : kTriggers) {
    for (const DType dtype :
         {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      SCOPED_TRACE(std::string(trigger.report) + " " + InfoOf(dtype).name);
      ConvSpec spec = SpecOf(trigger);
      spec.dtype = dtype;
      if (trigger.outcome == Outcome::kZeros) {
        ExpectZeros(spec);
        continue;
      }
      try {
        ADD_FAILURE() << "not refused: " << MakeProblem(spec).ToLine();
      } catch (const Error& error) {
        const bool is_usage = trigger.outcome == Outcome::kUsage;
        EXPECT_EQ(error.exit_code(), is_usage ? ExitCode::kUsage : ExitCode::kData)
            << error.message();
      }
    }
  }
}

}  // namespace
}  // namespace convgrad
