// Specs with sizes, strides and pads at and beyond every limit: MakeProblem either refuses them
// with an error of the user's or gives a problem whose numbers hold; never slow, never undefined.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "conv/compute.h"
#include "problem/geometry.h"
#include "support/from_environment.h"

namespace convgrad {
namespace {

class HostileSpecs {
 public:
  explicit HostileSpecs(uint64_t seed) : random_(seed) {}

  ConvSpec Next() {
    ConvSpec spec;
    spec.op = AllOps()[Below(AllOps().size())].op;
    spec.dtype = AllDTypes()[Below(Mostly(4, AllDTypes().size()))].dtype;
    spec.data_format = static_cast<DataFormat>(Below(2));
    spec.padding = static_cast<Padding>(Below(3));
    spec.strides = Attribute();
    spec.dilations = Attribute();
    if (spec.padding == Padding::kExplicit) spec.explicit_paddings = Numbers(Mostly(4, 8), 0);
    const OpInfo& info = InfoOf(spec.op);
    for (const Role role : info.operands) Set(spec, role, Numbers(Mostly(4, Below(7)), 0));
    if (info.direction == Direction::kBackpropInput) spec.input_sizes = DrawSizes();
    if (info.direction == Direction::kBackpropFilter) spec.filter_sizes = DrawSizes();
    if (Below(8) != 0) MakeChannelsFit(spec);
    return spec;
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  uint64_t Mostly(uint64_t usual, uint64_t other) { return Below(16) == 0 ? other : usual; }

  int64_t Number(int64_t least) {
    switch (Below(12)) {
      case 0: return kMaxDimension - static_cast<int64_t>(Below(3));
      case 1: return int64_t{1} << Below(31);
      case 2: return static_cast<int64_t>(Below(uint64_t{kMaxDimension}));
      case 3: return Mostly(1, 0) ? 1 : kMaxDimension + 1;
      case 4: return Mostly(1, 0) ? 2 : static_cast<int64_t>(random_());
      default: return least + static_cast<int64_t>(Below(9));
    }
  }
  std::vector<int64_t> Numbers(uint64_t count, int64_t least) {
    std::vector<int64_t> numbers(count);
    for (int64_t& number : numbers) number = Number(least);
    return numbers;
  }
  std::vector<int64_t> Attribute() { return Numbers(Mostly(2, Below(6)), 1); }
  Sizes DrawSizes() { return {Numbers(Mostly(4, Below(7)), 0), Below(2) == 0}; }

  static void Set(ConvSpec& spec, Role role, const Shape& shape) {
    (role == Role::kInput    ? spec.input
     : role == Role::kFilter ? spec.filter
                             : spec.out_backprop) = shape;
  }

  // Most random shapes would fail at the first comparison; this lets the rest see them.
  void MakeChannelsFit(ConvSpec& spec) {
    Shape* input = spec.input ? &*spec.input : &spec.input_sizes->values;
    Shape* filter = spec.filter ? &*spec.filter : &spec.filter_sizes->values;
    if (input->size() != 4 || filter->size() != 4) return;
    const int channel = spec.data_format == DataFormat::kNHWC ? 3 : 1;
    (*filter)[2] = (*input)[channel];
    if (!spec.out_backprop || spec.out_backprop->size() != 4) return;
    (*spec.out_backprop)[0] = (*input)[0];
    (*spec.out_backprop)[channel] =
        InfoOf(spec.op).depthwise ? CheckedMul((*input)[channel], (*filter)[3]).value_or(INT64_MAX)
                                  : (*filter)[3];
    FitOutput(spec, *input);
  }
  // The output of SAME, which is simplest.
  static void FitOutput(ConvSpec& spec, const Shape& input) {
    if (spec.padding != Padding::kSame || spec.strides.size() != 2) return;
    const int row = spec.data_format == DataFormat::kNHWC ? 1 : 2;
    for (int i = 0; i < 2; ++i) {
      const int64_t in = input[row + i], stride = spec.strides[i];
      if (in < 0 || in > kMaxDimension || stride < 1 || stride > kMaxDimension) continue;
      (*spec.out_backprop)[row + i] = CeilDiv(in, stride);
    }
  }

  std::mt19937_64 random_;
};

// A plan is made at once, or refused because the tensors alone are too large.
void ExpectPlannable(const Problem& problem) {
  Execution execution;
  execution.num_threads = 2;
  execution.max_memory_bytes = int64_t{1} << 30;
  const std::clock_t start = std::clock();
  try {
    CheckMemory(problem, execution, problem.OperandBytes(), /*operands_are_allocated=*/false);
  } catch (const Error& error) {
    ASSERT_EQ(error.exit_code(), ExitCode::kIo) << error.message();
  }
  ASSERT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
}

// Whatever is asked of a legal problem has an answer, at once.
void ExpectSound(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  ASSERT_GE(g.out_h, 0);
  ASSERT_GE(g.out_w, 0);
  ASSERT_LE(g.out_h, kMaxDimension);
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    ASSERT_LE(CheckedProduct(problem.ShapeOf(role)).value(), kMaxElements);
  }
  ASSERT_GE(problem.ValidTerms(), 0);
  ASSERT_LE(problem.MaxTerms(), problem.ValidTerms());
  ASSERT_GE(problem.Flops(), problem.ValidTerms());
  ASSERT_GT(problem.OperandBytes() + problem.ResultBytes(), -1);
  ASSERT_EQ(ParseProblem(problem.ToLine()).ToLine(), problem.ToLine());
  ExpectPlannable(problem);
}

TEST(HostileSpecs, AreRefusedOrSound) {
  HostileSpecs specs(1);
  const int num_specs = Rounds(20'000);
  int num_legal = 0;
  for (int i = 0; i < num_specs; ++i) {
    const ConvSpec spec = specs.Next();
    try {
      const Problem problem = MakeProblem(spec);
      ++num_legal;
      SCOPED_TRACE(problem.ToLine());
      ExpectSound(problem);
    } catch (const Error& error) {
      ASSERT_TRUE(error.exit_code() == ExitCode::kUsage || error.exit_code() == ExitCode::kData)
          << error.message();
      ASSERT_LT(error.message().size(), 1000u) << error.message();
    }
  }
  EXPECT_GT(num_legal, num_specs / 20);
}

void ExpectPlannedAtOnce(const Problem& problem, Precision precision) {
  SCOPED_TRACE(problem.ToLine());
  Execution execution;
  execution.precision = precision;
  const std::clock_t start = std::clock();
  EXPECT_GT(PlanRun(problem, execution).memory_bytes, 0);
  EXPECT_LT(std::clock() - start, 5 * CLOCKS_PER_SEC);
}

// One long row of an image: no table of its columns. The processor's time, for others may want it
// too.
TEST(HostileSpecs, LongRowsArePlannedAtOnce) {
  for (const char* op :
       {"conv2d", "conv2d_backprop_input", "conv2d_backprop_filter", "depthwise_conv2d",
        "depthwise_conv2d_backprop_input", "depthwise_conv2d_backprop_filter"}) {
    const std::string channels = std::string(op).starts_with("depthwise") ? "1" : "32";
    for (const char* type : {"float32", "float64", "bfloat16"}) {
      const std::string line = std::string(op) + " " + type +
                               " NHWC in=1,1,500000000,1 filter=1,3,1," + channels +
                               " strides=1,1 dilations=1,1 pads=0,0,1,1 padding=EXPLICIT";
      ExpectPlannedAtOnce(ParseProblem(line), Precision::kStandard);
    }
  }
}

// Terabytes: no list of images, nor of what each is cut into. Depthwise filter gradients do have
// one of their blocks.
TEST(HostileSpecs, LargeBatchesArePlannedAtOnce) {
  const auto expect = [](const std::string& op_and_type, const std::string& sizes) {
    const bool is_depthwise = op_and_type.starts_with("depthwise");
    const Problem problem =
        ParseProblem(op_and_type + " " + sizes + " filter=3,3,4," + (is_depthwise ? "1" : "4") +
                     " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    for (const Precision precision : kAllPrecisions) ExpectPlannedAtOnce(problem, precision);
  };
  for (const std::string type : {" float32", " float64", " bfloat16"}) {
    for (const OpInfo& op : AllOps()) {
      if (op.op == Op::kDepthwiseConv2DBackpropFilter) continue;
      expect(op.name + type, "NHWC in=100000,1000,1000,4");
      expect(op.name + type, "NCHW in=100000,4,1000,1000");
    }
    for (const std::string op : {"conv2d", "conv2d_backprop_input"}) {
      expect(op + type, "NHWC in=2000000000,100,100,4");
      expect(op + type, "NCHW in=2000000000,4,100,100");
    }
  }
}

}  // namespace
}  // namespace convgrad
