// The work that plans of forward convolutions and input gradients count: never less than
// what the problem asks for, and of a layer that fits its tiles exactly what follows from them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "conv/axes/tap_sum.h"
#include "conv/gemm/few_rows.h"
#include "conv/plan/algorithm.h"
#include "support/random_problem.h"

namespace convgrad::testing {
namespace {

Work CountOf(const std::string& name, const Problem& problem, const KernelTable& kernels) {
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (algorithm.name == name && algorithm.can(problem, kernels)) {
      return algorithm.plan(problem, kernels, 1)->CountWork();
    }
  }
  return {};
}

// Each of a vector's lanes takes two terms in pairs.
double LeastFmas(const Problem& problem, const KernelTable& kernels) {
  const double lanes = kernels.vector_bytes / (problem.dtype == DType::kFloat64 ? 8.0 : 4.0);
  return static_cast<double>(problem.ValidTerms()) / lanes / (kernels.takes_bf16_pairs ? 2 : 1);
}

TEST(LanesWork, IsNoLessThanTheProblems) {
  struct Form {
    const char* name;
    WorkKind fma;
  };
  constexpr std::array kForms = {
      Form{"channel-lanes", WorkKind::kGemmFma}, Form{"pixel-lanes", WorkKind::kGemmFma},
      Form{"im2col", WorkKind::kGemmFma}, Form{"few-terms", WorkKind::kGemmFma},
      Form{"image-lanes", WorkKind::kWholeFma}};
  int counted = 0;
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    RandomProblemOptions options;
    options.op = op;
    RandomProblems problems(7, options);
    for (int i = 0; i < 150; ++i) {
      const Problem problem = problems.Next();
      if (!problem.HasTerms() || !TapSum::Describes(problem)) continue;
      for (const KernelTable& kernels : SupportedKernels()) {
        for (const Form& form : kForms) {
          const Work work = CountOf(form.name, problem, kernels);
          if (work.Of(WorkKind::kFold) == 0) continue;  // it can't
          for (const double count : work.counts()) {
            ASSERT_TRUE(std::isfinite(count) && count >= 0) << problem.ToLine() << form.name;
          }
          ASSERT_GE(work.Of(form.fma) * 1.000001, LeastFmas(problem, kernels))
              << problem.ToLine() << ' ' << form.name;
          ++counted;
        }
      }
    }
  }
  EXPECT_GT(counted, 500);
}

// Three pixels of four meet no tap; the fourth ones are all pixels of a layer without a stride.
TEST(LanesWork, CopiesZerosWhereNothingIsAdded) {
  const auto problem = [](const std::string& sizes) {
    return ParseProblem("conv2d_backprop_input float32 NHWC " + sizes +
                        " filter=1,1,64,48 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
  };
  for (const KernelTable& kernels : SupportedKernels()) {
    const Work strided = CountOf("channel-lanes", problem("in=2,12,16,64 strides=2,2"), kernels);
    const Work plain = CountOf("channel-lanes", problem("in=2,6,8,64 strides=1,1"), kernels);
    EXPECT_EQ(plain.Of(WorkKind::kCopied), 0);
    EXPECT_EQ(strided.Of(WorkKind::kCopied), 2 * 12 * 16 * 64 * 3 / 4);
    EXPECT_EQ(strided.Of(WorkKind::kFold), plain.Of(WorkKind::kFold));
    EXPECT_EQ(strided.Of(WorkKind::kGemmFma), plain.Of(WorkKind::kGemmFma));
  }
}

// 1,152 pixels are 192 tiles of 6 pixels by 4 vectors, in twelve calls; of one block of terms each.
TEST(LanesWork, IsThatOfItsTiles) {
  const KernelTable* kernels = FindKernels(Isa::kAvx512);
  if (kernels == nullptr) GTEST_SKIP() << "the tiles are those of AVX-512";
  const Problem problem = ParseProblem(
      "conv2d float32 NHWC in=1,36,32,64 filter=1,1,64,64 strides=1,1 dilations=1,1 pads=0,0,0,0 "
      "padding=EXPLICIT");
  const Work work = CountOf("channel-lanes", problem, *kernels);
  EXPECT_EQ(work.Of(WorkKind::kGemmFma), 1152 * 4 * 64);
  EXPECT_EQ(work.Of(WorkKind::kGemmLoad), 192 * 64 * 4);
  EXPECT_EQ(work.Of(WorkKind::kGemmSingle), 192 * 64 * 6);
  EXPECT_EQ(work.Of(WorkKind::kSegment), 192);
  EXPECT_EQ(work.Of(WorkKind::kFold), 1152 * 4);
  EXPECT_EQ(work.Of(WorkKind::kCall), 12);
  EXPECT_EQ(work.Of(WorkKind::kTask), 1);
  EXPECT_EQ(work.Of(WorkKind::kCopied), 64 * 64);  // the filter
  EXPECT_EQ(work.Of(WorkKind::kTransposed), 0);
  EXPECT_EQ(work.Of(WorkKind::kFarLine), 0);
}

// 1,500 pixels in 63 panels of a line and a half meet 16 blocks of four channels. Copied rows of
// 128 channels lie on as many pages; twelve multiply-adds hide three quarters of a line. Those of
// 64 channels, or of 100 pixels, are at hand.
TEST(LanesWork, CountsLinesOnManyPages) {
  const KernelTable* kernels = FindKernels(Isa::kAvx2);
  if (kernels == nullptr) GTEST_SKIP() << "the tiles are those of AVX2";
  const auto far_lines = [&](const std::string& sizes) {
    const Problem problem =
        ParseProblem("conv2d float32 NCHW " + sizes +
                     " strides=1,1 dilations=1,1 pads=0,0,1,1 padding=EXPLICIT");
    return CountOf("pixel-lanes", problem, *kernels).Of(WorkKind::kFarLine);
  };
  EXPECT_EQ(far_lines("in=1,128,1,1500 filter=1,3,128,64"), 63 * 16 * (3 * 128) * 0.75);
  EXPECT_EQ(far_lines("in=1,64,1,1500 filter=1,3,64,64"), 0);
  EXPECT_EQ(far_lines("in=1,128,1,100 filter=1,3,128,64"), 0);
}

// 1,521 pixels are 96 panels of 16, 960 channels ten calls of 16 tiles. 64 KiB of copied planes are
// 64 panels of 16 channels, which each call takes, but for the last one.
TEST(LanesWork, JoinsPanelsOfCopiedPlanes) {
  const KernelTable* kernels = FindKernels(Isa::kAvx2);
  if (kernels == nullptr) GTEST_SKIP() << "the tiles are those of AVX2";
  const Problem problem = ParseProblem(
      "conv2d float32 NCHW in=1,16,77,78 filter=1,1,16,960 strides=2,2 dilations=1,1 "
      "pads=0,0,0,0 padding=EXPLICIT");
  EXPECT_EQ(CountOf("pixel-lanes", problem, *kernels).Of(WorkKind::kCall), (2 + 1) * 10);
}

// Positions of 20 rows of 22 columns, and what the last tap is beyond them, meet 208 channels in
// panels of 16.
TEST(LanesWork, CountsPanelsOfBlocksAsRows) {
  const KernelTable* kernels = FindKernels(Isa::kAvx2);
  if (kernels == nullptr) GTEST_SKIP() << "the tiles are those of AVX2";
  const Problem problem = ParseProblem(
      "conv2d_backprop_input float32 NCHW in=1,2,20,20 filter=3,3,2,208 strides=1,1 "
      "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  const Work work = CountOf("pixel-lanes", problem, *kernels);
  const double columns = 20 * 22 + 2 * 22 + 2, results = 2 * 20 * 20;
  EXPECT_EQ(work.Of(WorkKind::kCopied), 208 * columns + results);
  EXPECT_EQ(work.Of(WorkKind::kRun), 208 * columns / 16 + 2 * 20);
}

// Pixels of 2 MiB, from each of 16 images, and their results.
TEST(LanesWork, CountsStreamsOfImagesThatAreFar) {
  KernelTable kernels = SupportedKernels().front();
  const auto transposed = [&](const std::string& filter, const std::string& pads) {
    const Problem problem =
        ParseProblem("conv2d float32 NHWC in=16,16,16,128 filter=" + filter +
                     " strides=1,1 dilations=1,1 pads=" + pads + " padding=EXPLICIT");
    return CountOf("image-lanes", problem, kernels).Of(WorkKind::kTransposed);
  };
  kernels.near_bytes = int64_t{16} << 20;
  const double near = transposed("1,1,128,2", "0,0,0,0"),
               near_of_3x3 = transposed("3,3,128,2", "1,1,1,1");
  EXPECT_EQ(near, 16 * 16 * 16 * (128 + 2));
  kernels.near_bytes = int64_t{2} << 20;
  EXPECT_EQ(transposed("1,1,128,2", "0,0,0,0"), 1.5 * near);
  EXPECT_EQ(transposed("3,3,128,2", "1,1,1,1"), near_of_3x3);
}

// Planes are made of pixels in NHWC alone; a single channel's blocks are rows.
TEST(LanesWork, CountsPixelsOfPlanesThatAreFar) {
  KernelTable kernels = SupportedKernels().front();
  const auto transposed = [&](int64_t near_mebibytes, int64_t channels) {
    kernels.near_bytes = near_mebibytes << 20;
    const Problem problem =
        ParseProblem("conv2d float32 NHWC in=16,16,16,128 filter=" + ListOf({1, 1, 128, channels}) +
                     " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    const Work work = CountOf("pixel-lanes", problem, kernels);
    return work.Of(WorkKind::kTransposed) + work.Of(WorkKind::kScattered);
  };
  for (const int64_t channels : {1, 4}) {
    EXPECT_GT(transposed(16, channels), 0);
    EXPECT_EQ(transposed(2, channels), 1.5 * transposed(16, channels));
  }
}

TEST(LanesWork, CountsPlanesThatManyFiltersMeet) {
  const KernelTable& kernels = SupportedKernels().front();
  const auto of_filter = [&](int64_t filters, WorkKind kind) {
    const Problem problem =
        ParseProblem("conv2d float32 NCHW in=1,1,40,40 filter=" + ListOf({5, 5, 1, filters}) +
                     " strides=1,1 dilations=1,1 pads=2,2,2,2 padding=EXPLICIT");
    return CountOf("planes", problem, kernels).Of(kind) / static_cast<double>(filters);
  };
  for (const WorkKind kind : {WorkKind::kPlaneFma, WorkKind::kPlaneLoad}) {
    EXPECT_GT(of_filter(4, kind), 0);
    EXPECT_EQ(of_filter(8, kind), 1.5 * of_filter(4, kind));
    EXPECT_EQ(of_filter(32, kind), of_filter(8, kind));
  }
}

TEST(LanesWork, SharesTheLastTilesOfFewRows) {
  EXPECT_EQ(TilesAcross(1, 5), 1);
  EXPECT_EQ(TilesAcross(5, 5), 1);
  EXPECT_EQ(TilesAcross(6, 5), 2);
  EXPECT_EQ(TilesAcross(10, 5), 2);
  EXPECT_EQ(TilesAcross(11, 5), 3);
}

// Tiles have 4 rows and 5 vectors: 6 vectors are two of 3, not one of 5 and one of 1.
TEST(LanesWork, CountsSharedTilesOfFewRows) {
  const KernelTable* kernels = FindKernels(Isa::kAvx512);
  if (kernels == nullptr) GTEST_SKIP() << "the tiles are those of AVX-512";
  const Work work = CountOf("few-pixels",
                            ParseProblem("conv2d_backprop_filter float32 NHWC in=16,1,1,160 "
                                         "filter=1,1,160,96 strides=1,1 dilations=1,1 "
                                         "pads=0,0,0,0 padding=EXPLICIT"),
                            *kernels);
  EXPECT_EQ(work.Of(WorkKind::kGemmFma), 160 * 16 * 6);
  EXPECT_EQ(work.Of(WorkKind::kGemmSingle), 160 * 16 * 2);
  EXPECT_EQ(work.Of(WorkKind::kSegment), 160 / 4 * 2);
}

// In planes the source is transposed on its way in, and the result on its way out.
TEST(LanesWork, CountsWhatIsMoved) {
  const Problem problem = ParseProblem(
      "conv2d float64 NCHW in=2,20,9,7 filter=3,3,20,30 strides=1,1 dilations=1,1 pads=1,1,1,1 "
      "padding=EXPLICIT");
  const Work work = CountOf("channel-lanes", problem, SupportedKernels().front());
  EXPECT_EQ(work.Of(WorkKind::kTransposed), 2 * 2 * 9 * 7 * (20 + 30));
}

}  // namespace
}  // namespace convgrad::testing
