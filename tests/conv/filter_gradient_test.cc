// The filter gradient's forms against the reference, bit for bit, where there are runs or blocks
// enough for threads to take whole ones: blocks of images, of rows and of parts of rows; strides,
// dilations, padding, groups, every type and target. And what plans count of their work.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "conv/conv2d/filter/algorithms.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// A problem line; not every one has an output or is taken.
std::string DrawLine(Draw& draw, int64_t batch, int64_t h, int64_t w, int64_t in_c, int64_t out_c) {
  const bool nhwc = draw(0, 1) == 0;
  const int64_t groups = draw(0, 2) == 0 ? draw(2, 3) : 1;
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string("conv2d_backprop_filter ") + kTypes[draw(0, 3)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({draw(1, 3), draw(1, 3), in_c, groups * out_c}) +
         " strides=" + ListOf({1, draw(0, 3) == 0 ? 2 : 1}) +
         " dilations=" + ListOf({draw(1, 2), draw(1, 2)}) +
         " pads=" + ListOf({draw(0, 2), draw(0, 2), draw(0, 2), draw(0, 2)}) + " padding=EXPLICIT";
}

// About 50 blocks and more: every one of three threads has a run.
std::string DrawManyBlocks(Draw& draw) {
  const int64_t kind = draw(0, 2);
  const int64_t batch = kind == 0 ? draw(100, 160) : draw(2, 3);
  const int64_t h = kind == 0 ? draw(10, 14) : draw(16, 30);
  const int64_t w = kind == 0 ? draw(10, 14) : kind == 1 ? draw(120, 200) : draw(280, 400);
  return DrawLine(draw, batch, h, w, draw(1, 5), draw(1, 5));
}

// Some 8 to 40: every one of three threads has blocks, and none has a run. Enough channels for
// their sums to be little beside the operands.
std::string DrawSomeBlocks(Draw& draw) {
  const int64_t kind = draw(0, 2);
  const int64_t batch = kind == 0 ? draw(8, 40) : 1;
  const int64_t h = kind == 0 ? draw(13, 15) : draw(8, 16);
  const int64_t w = kind == 0 ? draw(13, 15) : kind == 1 ? draw(120, 250) : draw(280, 400);
  return DrawLine(draw, batch, h, w, draw(4, 24), draw(4, 24));
}

// Pixels of one operand or of both are a multiple of 2 KiB apart, packed or as they lie, and there
// are enough of them to crowd in few sets of the caches.
std::string DrawCrowdedPixels(Draw& draw) {
  const bool nhwc = draw(0, 3) > 0, wide = draw(0, 1) == 0;
  const int64_t crowded = wide ? 256 : 512;
  const int64_t few = wide && draw(0, 1) == 0 ? crowded : draw(3, 24);
  const bool inputs_crowd = draw(0, 1) == 0;
  const int64_t groups = few % 2 == 0 && draw(0, 2) == 0 ? 2 : 1;
  const int64_t in_c = inputs_crowd ? crowded : few, out_c = inputs_crowd ? few : crowded;
  const int64_t h = draw(9, 10), w = draw(29, 31);
  const char* type = wide ? "float64" : draw(0, 2) == 0 ? "bfloat16" : "float32";
  return std::string("conv2d_backprop_filter ") + type + (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({1, h, w, in_c}) : ListOf({1, in_c, h, w})) +
         " filter=" + ListOf({1, few < 20 ? draw(1, 2) : 1, in_c / groups, out_c}) +
         " strides=1,1 dilations=1,1 pads=" + ListOf({0, 0, 0, draw(0, 1)}) + " padding=EXPLICIT";
}

class FilterGradient : public ::testing::TestWithParam<const char*> {};

TEST_P(FilterGradient, OfManyBlocks) {
  for (const Values values : {Values::kOrdinary, Values::kSpecial}) {
    CheckOnRandomProblems(GetParam(), 30, 31, DrawManyBlocks, RandomOperands, values);
  }
}

TEST_P(FilterGradient, OfSomeBlocks) {
  CheckOnRandomProblems(GetParam(), 30, 33, DrawSomeBlocks, RandomOperands, Values::kOrdinary);
}

TEST_P(FilterGradient, OfCrowdedPixels) {
  CheckOnRandomProblems(GetParam(), 12, 32, DrawCrowdedPixels, RandomOperands, Values::kOrdinary);
}

INSTANTIATE_TEST_SUITE_P(AllForms, FilterGradient,
                         ::testing::Values("taps-apart", "taps-joined", "input-lanes",
                                           "joined-input-lanes"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

Work WorkOf(const Algorithm& algorithm, const std::string& sizes, const KernelTable& kernels) {
  const Problem problem = ParseProblem("conv2d_backprop_filter float32 " + sizes +
                                       " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  return algorithm.plan(problem, kernels, 1)->CountWork();
}

// Whatever a form pads or leaves empty comes on top of the terms; twice the images, whole runs of
// them, are twice the multiply-adds, and more of everything else that is done at all.
TEST(FilterGradientWork, CountsEveryTermOfEveryImage) {
  const std::string sizes = ",3,28,28 filter=3,3,3,16";
  const auto multiply_adds = [](const Work& work) {
    return work.Of(WorkKind::kGemmFma) + work.Of(WorkKind::kWholeFma);
  };
  const double terms = 16.0 * 3 * 16 * (28 + 27 + 27) * (28 + 27 + 27);
  int counted = 0;
  for (const KernelTable& kernels : SupportedKernels()) {
    for (const Algorithm& algorithm : AlgorithmsOf(Op::kConv2DBackpropFilter)) {
      const std::string name = algorithm.name;
      if (name == "direct" || name == "reference" || name == "plane-squares" ||
          name == "few-pixels" || name == "few-channels") {
        continue;
      }
      const Work once = WorkOf(algorithm, "NCHW in=16" + sizes, kernels);
      const Work twice = WorkOf(algorithm, "NCHW in=32" + sizes, kernels);
      EXPECT_GE(multiply_adds(once) * kernels.vector_bytes / 4, terms) << name;
      EXPECT_LE(multiply_adds(once) * kernels.vector_bytes / 4, 12 * terms) << name;
      EXPECT_DOUBLE_EQ(multiply_adds(twice), 2 * multiply_adds(once)) << name;
      for (const WorkKind kind : {WorkKind::kSegment, WorkKind::kCall, WorkKind::kFold,
                                  WorkKind::kRun, WorkKind::kTask}) {
        EXPECT_GT(once.Of(kind), 0) << name;
        EXPECT_GT(twice.Of(kind), once.Of(kind)) << name;
      }
      ++counted;
    }
  }
  EXPECT_GE(counted, 6);
}

// Lines that every tile has to find again are those of pixels: of many, and of fewer that lie on as
// many pages, where a few wide panels read them in place. Planes that are read where they lie have
// none.
TEST(FilterGradientWork, CountsPixelsThatAreFar) {
  const auto far_lines = [](const std::string& name, const std::string& sizes,
                            const KernelTable& kernels) {
    for (const Algorithm& algorithm : AlgorithmsOf(Op::kConv2DBackpropFilter)) {
      if (name != algorithm.name) continue;
      return WorkOf(algorithm, sizes, kernels).Of(WorkKind::kFarLine);
    }
    ADD_FAILURE() << name;
    return -1.0;
  };
  const std::string few = "NHWC in=1,7,7,32 filter=1,1,32,64";
  const std::string on_many_pages = "NHWC in=1,7,7,2048 filter=1,1,2048,64";
  const std::string packed = "NHWC in=1,7,7,2048 filter=1,1,2048,1024";
  const std::string many = "NHWC in=1,28,28,32 filter=1,1,32,64";
  const std::string planes = "NCHW in=2,32,28,28 filter=1,1,32,64";
  for (const KernelTable& kernels : SupportedKernels()) {
    SCOPED_TRACE(NameOf(kernels.isa));
    EXPECT_EQ(far_lines("taps-joined", few, kernels), 0);
    EXPECT_GT(far_lines("taps-joined", on_many_pages, kernels), 0);
    EXPECT_EQ(far_lines("taps-apart", on_many_pages, kernels) > 0, kernels.vector_bytes == 64);
    EXPECT_EQ(far_lines("taps-apart", packed, kernels), 0);
    EXPECT_GT(far_lines("taps-joined", many, kernels), 0);
    EXPECT_EQ(far_lines("taps-apart", planes, kernels), 0);
  }
}

// Planes of 4 KiB that several tiles read; one tile alone reads its lines once, in order.
TEST(FilterGradientWork, CountsCrowdedPlanesThatAreReadAgain) {
  const auto far_lines = [](const std::string& filter, const KernelTable& kernels) {
    const Problem problem =
        ParseProblem("conv2d_backprop_filter float32 NCHW in=2,64,32,32 filter=" + filter +
                     " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return kConv2DFilterTapsApart.plan(problem, kernels, 1)->CountWork().Of(WorkKind::kFarLine);
  };
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kScalar) continue;  // four columns are several panels
    EXPECT_EQ(far_lines("1,1,64,4", kernels), 0) << NameOf(kernels.isa);
    EXPECT_GT(far_lines("3,3,64,4", kernels), 0) << NameOf(kernels.isa);
  }
}

// More blocks than a list may hold: planned all the same, by what lists none.
TEST(FilterGradientOf, PlansTensorsBeyondAnyMemory) {
  const Problem problem = ParseProblem(
      "conv2d_backprop_filter float32 NHWC in=1,4000000,4000000,3 filter=3,3,3,2 strides=1,1 "
      "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  EXPECT_EQ(PlanRun(problem, {}).algorithm, "reference");
}

}  // namespace
}  // namespace convgrad::testing
