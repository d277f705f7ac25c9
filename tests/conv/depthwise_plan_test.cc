// Depthwise plans say what they do: at least the multiply-adds that the problem has, in
// vectors; and twice as much for twice the images.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>

#include "conv/depthwise/data/direct_cut.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

std::string DrawOfBatch(Draw& draw, int64_t batch) {
  constexpr const char* kOps[] = {"depthwise_conv2d ", "depthwise_conv2d_backprop_input ",
                                  "depthwise_conv2d_backprop_filter "};
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const bool nhwc = draw(0, 1) == 0;
  const int64_t channels = draw(1, 70), h = draw(3, 40), w = draw(3, 40), size = draw(1, 7);
  return std::string(kOps[draw(0, 2)]) + kTypes[draw(0, 3)] + (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, channels}) : ListOf({batch, channels, h, w})) +
         " filter=" + ListOf({size, size, channels, draw(1, 3)}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=1,1 pads=" + ListOf({draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)}) +
         " padding=EXPLICIT";
}

// The problem that `seed` draws; none where it is no problem.
std::optional<Problem> DrawProblem(uint64_t seed, int64_t batch) {
  Draw draw(seed);
  try {
    return ParseProblem(DrawOfBatch(draw, batch));
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool IsDepthwise(const std::string& name) {
  return name == "direct" || name == "planes" || name == "whole-planes";
}

double Fmas(const Work& work) {
  return work.Of(WorkKind::kRowFma) + work.Of(WorkKind::kPlaneFma);
}

bool GoesDown(const Plan& plan) {
  return plan.Tiles().ends_with("all rows together");
}

void CheckCounts(const Algorithm& algorithm, const Problem& problem, const Problem& twice,
                 const KernelTable& kernels) {
  const std::string where = problem.ToLine() + " " + algorithm.name + " " + NameOf(kernels.isa);
  const int64_t lanes =
      problem.dtype == DType::kFloat64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  const auto plan = algorithm.plan(problem, kernels, 1),
             of_more = algorithm.plan(twice, kernels, 1);
  const Work work = plan->CountWork(), of_twice = of_more->CountWork();
  EXPECT_GE(Fmas(work) * static_cast<double>(lanes), static_cast<double>(problem.ValidTerms()))
      << where;
  EXPECT_GE(work.Of(WorkKind::kTask), 1) << where;
  for (const double count : work.counts()) EXPECT_GE(count, 0) << where;
  EXPECT_GT(Fmas(of_twice), Fmas(work)) << where;
  // Plans that go down the rows count columns, which rows by themselves count in whole tiles.
  if (GoesDown(*plan) == GoesDown(*of_more)) {
    EXPECT_LE(Fmas(of_twice), 2 * Fmas(work)) << where;
  }
}

TEST(DepthwisePlan, CountsAllOfTheProblem) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::optional<Problem> problem = DrawProblem(seed, 16), twice = DrawProblem(seed, 32);
    if (!problem || !problem->HasTerms()) continue;
    for (const KernelTable& kernels : SupportedKernels()) {
      for (const Algorithm& algorithm : AlgorithmsOf(problem->op)) {
        if (!IsDepthwise(algorithm.name) || !algorithm.can(*problem, kernels)) continue;
        CheckCounts(algorithm, *problem, *twice, kernels);
      }
    }
  }
}

std::string TilesOf(const std::string& name, const std::string& line, const KernelTable& kernels) {
  const Problem problem = ParseProblem(line + " dilations=1,1 padding=EXPLICIT");
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (algorithm.name != name) continue;
    return algorithm.plan(problem, kernels, 1)->Tiles();
  }
  return "";
}

// How `direct` makes the rows of results of a square filter, "" or ", all rows" and how, of 14
// rows.
std::string RowsOfDirect(const std::string& op, int64_t cols, int64_t channels, int64_t stride,
                         const KernelTable& kernels, int64_t kernel = 3) {
  const std::string tiles = TilesOf("direct",
                                    op + " float32 NHWC in=" + ListOf({1, 14, cols, channels}) +
                                        " filter=" + ListOf({kernel, kernel, channels, 1}) +
                                        " strides=" + ListOf({stride, stride}) + " pads=1,1,1,1",
                                    kernels);
  return tiles.substr(std::min(tiles.find(", all rows"), tiles.size()));
}

TEST(DepthwisePlan, GoesDownTheRowsOfFourColumnsAndMore) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.depthwise_rows_f32.forward_rows == nullptr) continue;
    for (const int64_t stride : {1, 2}) {
      for (const std::string op : {"depthwise_conv2d", "depthwise_conv2d_backprop_input"}) {
        const int64_t spread = op == "depthwise_conv2d" ? stride : 1;
        const auto rows = [&](int64_t cols) {
          return RowsOfDirect(op, cols * spread, 480, stride, kernels);
        };
        EXPECT_NE(rows(4), "") << op;
        EXPECT_TRUE(stride > 1 || rows(4) == ", all rows together") << op;
        EXPECT_NE(rows(3), ", all rows together") << op;
      }
    }
  }
}

// Vectors of half a line come to every line of a result twice.
TEST(DepthwisePlan, GoesDownTheRowsOfWhatTheCachesHold) {
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.depthwise_rows_f32.forward_rows == nullptr) continue;
    const bool has_lines = kernels.vector_bytes >= 64;
    const auto goes_down = [&](int64_t mebibytes, const std::string& dtype = "float32",
                               int64_t channels = 128) {  // of both tensors
      return TilesOf("direct",
                     "depthwise_conv2d " + dtype +
                         " NHWC in=" + ListOf({mebibytes, 32, 32, channels}) + " filter=3,3," +
                         ListOf({channels, 1}) + " strides=1,1 pads=1,1,1,1",
                     kernels)
          .ends_with("all rows together");
    };
    kernels.near_bytes = int64_t{16} << 20;
    EXPECT_TRUE(goes_down(9));
    EXPECT_EQ(goes_down(10), has_lines);
    EXPECT_EQ(goes_down(13), has_lines);
    EXPECT_FALSE(goes_down(14));
    kernels.near_bytes = int64_t{3} << 20;  // the third cache is far
    EXPECT_TRUE(goes_down(2));
    EXPECT_EQ(goes_down(3), !has_lines);
    // Numbers that are widened take longer than lines from half as many bytes again.
    EXPECT_TRUE(goes_down(4, "float16", 256));
    EXPECT_EQ(goes_down(5, "float16", 256), !has_lines);
  }
}

// Rows of 7x7 filters take 256 bytes of every pixel of 768 at a time.
TEST(DepthwisePlan, TakesPartsOfPixelsUnderLargeFilters) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kScalar) continue;
    const auto tiles = [&](int64_t kernel, int64_t stride, const std::string& dtype = "float32",
                           int64_t channels = 192) {
      return TilesOf("direct",
                     "depthwise_conv2d " + dtype + " NHWC in=" + ListOf({1, 28, 28, channels}) +
                         " filter=" + ListOf({kernel, kernel, channels, 1}) +
                         " strides=" + ListOf({stride, stride}) + " pads=3,3,3,3",
                     kernels);
    };
    EXPECT_TRUE(tiles(7, 1).starts_with("64 channels")) << tiles(7, 1);
    EXPECT_TRUE(tiles(7, 1, "float64", 96).starts_with("32 channels"));
    EXPECT_TRUE(tiles(7, 2).starts_with("192 channels")) << tiles(7, 2);
    EXPECT_TRUE(tiles(5, 1).starts_with("192 channels")) << tiles(5, 1);
    EXPECT_TRUE(tiles(9, 1).starts_with("192 channels")) << tiles(9, 1);
  }
}

// Planes of 4 MiB of sources and results are fetched ahead where the third cache is far.
TEST(DepthwisePlan, FetchesPlanesThatAreNotNear) {
  const auto fetches = [&](int64_t channels, const KernelTable& kernels) {
    return TilesOf("whole-planes",
                   "depthwise_conv2d float32 NCHW in=" + ListOf({1, channels, 64, 64}) +
                       " filter=3,3," + ListOf({channels, 1}) + " strides=1,1 pads=1,1,1,1",
                   kernels)
        .ends_with("fetched ahead");
  };
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.plane_f32.sum_whole == nullptr) continue;
    kernels.near_bytes = int64_t{16} << 20;
    EXPECT_FALSE(fetches(128, kernels));
    EXPECT_TRUE(fetches(256, kernels));
    kernels.near_bytes = int64_t{3} << 20;
    EXPECT_FALSE(fetches(80, kernels));
    EXPECT_TRUE(fetches(128, kernels));
  }
}

// Pixels a multiple of 2 KiB apart share two sets of the first cache.
TEST(DepthwisePlan, MakesAllRowsUnlessPixelsShareSets) {
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.depthwise_rows_f32.forward_rows == nullptr) continue;
    kernels.first_cache_bytes = int64_t{48} << 10;
    const bool short_vectors = kernels.vector_bytes < 64;
    for (const std::string op : {"depthwise_conv2d", "depthwise_conv2d_backprop_input"}) {
      const auto makes = [&](int64_t channels, int64_t stride) {
        return !RowsOfDirect(op, 14, channels, stride, kernels).empty();
      };
      EXPECT_TRUE(makes(480, 1)) << op;
      EXPECT_TRUE(makes(480, 2)) << op;
      EXPECT_EQ(makes(1536, 1), short_vectors) << op;
      EXPECT_EQ(makes(1536, 2), short_vectors || op == "depthwise_conv2d") << op;
    }
  }
}

// Sets of eight lines have no room for three rows of a tile anyway.
TEST(DepthwisePlan, MakesAllRowsOfPixelsThatShareSmallSets) {
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.depthwise_rows_f32.forward_rows == nullptr || kernels.vector_bytes < 64) continue;
    const auto makes = [&](int64_t mebibytes, int64_t channels, int64_t stride = 1) {
      const int64_t images = mebibytes * 512 / channels / 4;
      return TilesOf("direct",
                     "depthwise_conv2d_backprop_input float32 NHWC in=" +
                         ListOf({images, 32, 32, channels}) + " filter=3,3," +
                         ListOf({channels, 1}) + " strides=" + ListOf({stride, stride}) +
                         " pads=1,1,1,1",
                     kernels)
          .ends_with("all rows together");
    };
    for (const int64_t kibibytes : {32, 48}) {
      kernels.first_cache_bytes = kibibytes << 10;
      const bool small = kibibytes == 32;
      EXPECT_EQ(makes(8, 1024), small);
      EXPECT_EQ(makes(24, 512), small);
      EXPECT_FALSE(makes(28, 512));
      EXPECT_EQ(makes(64, 1024), small) << "one set";
      EXPECT_FALSE(makes(8, 1024, 2));
    }
  }
}

// Pixels a multiple of 1 KiB apart share four sets, of tensors that the caches hold.
TEST(DepthwisePlan, TakesVectorsByPairsWherePixelsShareSmallSets) {
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.depthwise_rows_f32.forward_rows == nullptr || kernels.vector_bytes < 64) continue;
    const auto takes = [&](int64_t mebibytes, int64_t channels, int64_t stride = 2,
                           const std::string& op = "depthwise_conv2d") {
      const int64_t images = std::max<int64_t>(1, mebibytes * 256 / channels);  // of the input
      const std::string tiles = TilesOf(
          "direct",
          op + " float32 NHWC in=" + ListOf({images, 32, 32, channels}) + " filter=3,3," +
              ListOf({channels, 1}) + " strides=" + ListOf({stride, stride}) + " pads=0,1,0,1",
          kernels);
      return tiles.find("by pairs") != std::string::npos;
    };
    kernels.first_cache_bytes = int64_t{32} << 10;
    EXPECT_TRUE(takes(1, 256));
    EXPECT_TRUE(takes(8, 512));
    EXPECT_TRUE(takes(8, 1024));
    EXPECT_FALSE(takes(12, 512)) << "15 MiB";
    EXPECT_FALSE(takes(1, 384));
    EXPECT_FALSE(takes(1, 512, 1));
    EXPECT_FALSE(takes(1, 512, 2, "depthwise_conv2d_backprop_input"));
    kernels.first_cache_bytes = int64_t{48} << 10;
    EXPECT_FALSE(takes(1, 512));
  }
}

// 512 pixels at a time, and of very wide rows four.
TEST(DepthwisePlan, GoesDownFewRowsOfPixelsThatShareSets) {
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.depthwise_rows_f32.forward_rows == nullptr || kernels.vector_bytes < 64) continue;
    kernels.first_cache_bytes = int64_t{32} << 10;
    const auto parts = [&](int64_t width, int64_t channels) {
      const Problem problem = ParseProblem(
          "depthwise_conv2d float32 NHWC in=" + ListOf({1, 32, width, channels}) + " filter=3,3," +
          ListOf({channels, 1}) + " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
      return DepthwiseDataCut(problem, kernels, 1).row_parts;
    };
    EXPECT_EQ(parts(16, 1024), 1);
    EXPECT_EQ(parts(17, 1024), 2);
    EXPECT_EQ(parts(32, 512), 2);
    EXPECT_EQ(parts(32, 480), 1);
    EXPECT_EQ(parts(200, 512), 8);
  }
}

// 3x3 goes down the rows without a stride, or of few channels; seven taps go along them, unless
// columns are few.
TEST(DepthwisePlan, TakesRowsInTurnUnlessDownOrAlongThemIsFaster) {
  const std::string forward = "depthwise_conv2d", input = "depthwise_conv2d_backprop_input";
  for (const KernelTable& kernels : SupportedKernels()) {
    const auto& rows = kernels.depthwise_rows_f32;
    if (rows.forward_rows == nullptr) continue;
    const auto takes = [&](const std::string& op, int64_t kernel, int64_t vectors, int64_t stride) {
      return RowsOfDirect(op, 14, vectors * rows.group, stride, kernels, kernel) ==
             ", all rows in turn";
    };
    const bool has_kernel = rows.rows_in_turn != nullptr;
    for (const int64_t kernel : {2, 4, 5, 6}) {
      EXPECT_EQ(takes(forward, kernel, 1, 1), has_kernel) << kernel;
      EXPECT_EQ(takes(input, kernel, 1, 1), has_kernel) << kernel;
      EXPECT_EQ(takes(forward, kernel, 1, 3), has_kernel) << kernel;
      EXPECT_EQ(takes(input, kernel, 1, 2), has_kernel) << kernel;
    }
    EXPECT_EQ(takes(forward, 3, 2, 2), has_kernel);
    EXPECT_FALSE(takes(forward, 3, 1, 2));
    EXPECT_EQ(takes(input, 3, 12, 2), has_kernel);
    EXPECT_FALSE(takes(input, 3, 11, 2));
    EXPECT_FALSE(takes(forward, 3, 2, 1));
    const auto by_columns = [&](int64_t columns, int64_t channels) {  // 7x7, without a stride
      return RowsOfDirect(forward, columns + 4, channels, 1, kernels, 7) == ", all rows in turn";
    };
    EXPECT_EQ(by_columns(14, rows.group), has_kernel);
    EXPECT_FALSE(by_columns(15, rows.group));
    EXPECT_EQ(by_columns(15, 512 / 4), has_kernel);
    EXPECT_EQ(takes(forward, 7, 1, 2), has_kernel);
    EXPECT_EQ(RowsOfDirect(forward, 100, 1024, 1, kernels) == ", all rows in turn", has_kernel);
    const auto of_one_row = [&](int64_t cols, int64_t taps) {
      return TilesOf("direct",
                     forward + " float32 NHWC in=" + ListOf({1, 1, cols, 64}) +
                         " filter=" + ListOf({1, taps, 64, 1}) + " strides=1,1 pads=0,0,0,0",
                     kernels)
          .ends_with("in turn");
    };
    EXPECT_EQ(of_one_row(100, 64), has_kernel);
    EXPECT_FALSE(of_one_row(100, 65));
    EXPECT_EQ(of_one_row(16000, 5), has_kernel);
    EXPECT_FALSE(of_one_row(17000, 5)) << "of 8 MiB, fetched";
  }
}

// The fewer sets of the first cache pixels share, the fewer rows of taps it takes to copy them;
// from memory, and of numbers that are widened, it takes more.
TEST(DepthwisePlan, CopiesPixelsThatShareSets) {
  KernelTable kernels = SupportedKernels().front();
  kernels.first_cache_bytes = int64_t{48} << 10;
  const auto copies = [&](const std::string& type, int64_t channels, int64_t rows, int64_t stride,
                          int64_t images = 1) {
    const std::string line = " NHWC in=" + ListOf({images, 14, 14, channels}) +
                             " filter=" + ListOf({rows, 3, channels, 1}) +
                             " strides=" + ListOf({stride, stride}) +
                             " pads=" + ListOf({rows / 2, rows / 2, 1, 1});
    const auto is_copied = [&](const std::string& op) {
      return TilesOf("direct", op + type + line, kernels).ends_with("through strips");
    };
    const bool copied = is_copied("depthwise_conv2d ");
    EXPECT_EQ(copied, is_copied("depthwise_conv2d_backprop_input ")) << type << line;
    return copied;
  };
  for (const char* const type : {"float32", "float64"}) {
    const int64_t of_one_set = 4096 / InfoOf(*ParseDType(type)).bytes;
    EXPECT_TRUE(copies(type, of_one_set, 3, 1)) << type;
    EXPECT_TRUE(copies(type, 2 * of_one_set, 7, 2)) << type;
    EXPECT_FALSE(copies(type, of_one_set, 2, 1)) << type;
    EXPECT_FALSE(copies(type, of_one_set, 5, 2)) << type;
    EXPECT_FALSE(copies(type, of_one_set, 3, 1, 8)) << type;
    EXPECT_TRUE(copies(type, of_one_set, 4, 1, 8)) << type;
    EXPECT_FALSE(copies(type, of_one_set / 2, 3, 1)) << type;
    EXPECT_TRUE(copies(type, of_one_set / 2, 4, 1)) << type;
    EXPECT_FALSE(copies(type, of_one_set / 4, 6, 1)) << type;
    EXPECT_TRUE(copies(type, of_one_set / 4, 7, 1)) << type;
    EXPECT_FALSE(copies(type, of_one_set / 8, 9, 1)) << type;
  }
  for (const char* const type : {"float16", "bfloat16"}) {
    EXPECT_FALSE(copies(type, 2048, 3, 1)) << type;
    EXPECT_TRUE(copies(type, 2048, 4, 1)) << type;
    EXPECT_FALSE(copies(type, 1024, 9, 1)) << type;
  }
}

TEST(DepthwisePlan, RunsAgainOnOtherNumbers) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::optional<Problem> problem = DrawProblem(seed, 2);
    if (!problem) continue;
    const Operands special = RandomOperands(*problem, seed, Values::kSpecial);
    const Operands ordinary = RandomOperands(*problem, seed + 1, Values::kOrdinary);
    const Tensor expected = RunOn(*problem, ordinary, "reference", Isa::kScalar, 1);
    for (const Algorithm& algorithm : AlgorithmsOf(problem->op)) {
      const KernelTable& kernels = SupportedKernels().front();
      if (!IsDepthwise(algorithm.name) || !algorithm.can(*problem, kernels)) continue;
      Execution execution;
      execution.algorithm = algorithm.name;
      execution.num_threads = 2;
      const Computation computation(*problem, execution);
      Tensor result(problem->dtype, problem->ResultShape());
      computation.Run(special.first, special.second, result);
      computation.Run(ordinary.first, ordinary.second, result);
      ASSERT_EQ(std::memcmp(expected.raw(), result.raw(), static_cast<size_t>(result.num_bytes())),
                0)
          << problem->ToLine() << " " << algorithm.name;
    }
  }
}

}  // namespace
}  // namespace convgrad::testing
