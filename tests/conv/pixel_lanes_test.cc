// The algorithm "pixel-lanes" against the reference, bit for bit, where planes are taken as columns
// of pixels, and how rows are dealt to threads.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/data/block_rows_runner.h"
#include "conv/conv2d/data/pixel_lanes_cut.h"
#include "conv/move/stream_result.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Problem lines of 1x1 filters on planes.
std::string DrawPointwise(Draw& draw) {
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const int64_t batch = draw(1, 4), h = draw(1, 30), w = draw(1, 30), groups = draw(1, 3);
  const int64_t in_c = draw(1, 40), out_c = draw(0, 3) == 0 ? draw(100, 250) : draw(1, 70);
  return std::string(draw(0, 1) == 0 ? "conv2d " : "conv2d_backprop_input ") + kTypes[draw(0, 3)] +
         " NCHW in=" + ListOf({batch, groups * in_c, h, w}) +
         " filter=" + ListOf({1, 1, in_c, groups * out_c}) +
         " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT";
}

class PixelLanes : public ::testing::TestWithParam<Values> {};

TEST_P(PixelLanes, OfPointwiseFilters) {
  CheckOnRandomProblems("pixel-lanes", 40, 8, DrawPointwise, RandomOperands, GetParam());
}

// Problem lines of few channels of the result, most of whose blocks are rows of tiles.
std::string DrawFewChannels(Draw& draw) {
  constexpr const char* kTypes[] = {"float32", "float32", "float64", "float16", "bfloat16"};
  const bool forward = draw(0, 1) == 0, nhwc = draw(0, 1) == 0;
  const int64_t groups = draw(0, 3) == 0 ? 2 : 1, few = draw(1, 4);
  const int64_t many = draw(0, 2) == 0 ? draw(129, 530) : draw(12, 130);
  const int64_t in_c = forward ? many : few, out_c = forward ? few : many;
  const int64_t batch = draw(1, 2), h = draw(3, 20), w = draw(3, 20), stride = draw(1, 3);
  const std::string in =
      nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w});
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") + kTypes[draw(0, 4)] +
         (nhwc ? " NHWC in=" : " NCHW in=") + in +
         " filter=" + ListOf({draw(1, 3), draw(1, 3), in_c, groups * out_c}) +
         " strides=" + (forward ? "1,1" : ListOf({stride, draw(1, 2)})) +
         " dilations=" + ListOf({stride == 1 ? draw(1, 2) : 1, 1}) +
         " pads=" + ListOf({draw(0, 2), draw(0, 2), draw(0, 2), draw(0, 2)}) + " padding=EXPLICIT";
}

TEST_P(PixelLanes, OfFewChannels) {
  CheckOnRandomProblems("pixel-lanes", 60, 21, DrawFewChannels, RandomOperands, GetParam());
}

// Planes of an odd size, which cannot be written around the caches.
TEST(PixelLanes, ResultsInPlaceAreFarBeyondTheCaches) {
  const auto is_far = [](const std::string& sizes, int num_threads) {
    const Problem problem = ParseProblem(
        "conv2d float32 " + sizes + " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    const PixelLanesCut<float, float> cut(problem, SupportedKernels().front(), num_threads);
    EXPECT_FALSE(cut.streams_result);
    return cut.result_is_far;
  };
  EXPECT_FALSE(is_far("NCHW in=2,64,95,95 filter=1,1,64,128", 1));  // 13.9 million bytes
  EXPECT_TRUE(is_far("NCHW in=3,64,95,95 filter=1,1,64,128", 1));
  EXPECT_FALSE(is_far("NCHW in=3,64,95,95 filter=1,1,64,128", 2));
  EXPECT_TRUE(is_far("NCHW in=4,64,95,95 filter=1,1,64,128", 2));
  EXPECT_FALSE(is_far("NHWC in=4,95,95,64 filter=1,1,64,128", 1));  // put together elsewhere
}

// Problem lines of few pixels, in groups, with phases of a stride, padding.
std::string DrawFewPixels(Draw& draw) {
  const bool forward = draw(0, 1) == 0, nhwc = draw(0, 3) == 0;
  const int64_t batch = draw(1, 2), h = draw(2, 12), w = draw(2, 12), groups = draw(1, 3);
  const int64_t in_c = draw(5, 40), out_c = draw(5, 40), stride = forward ? 1 : draw(1, 2);
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") +
         (draw(0, 2) == 0 ? "float64" : "float32") + (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({draw(1, 3), draw(1, 3), in_c, groups * out_c}) +
         " strides=" + ListOf({stride, stride}) + " dilations=1,1" +
         " pads=" + ListOf({draw(0, 1), draw(0, 1), draw(0, 1), draw(0, 1)}) + " padding=EXPLICIT";
}

TEST_P(PixelLanes, OfFewPixels) {
  CheckOnRandomProblems("pixel-lanes", 60, 31, DrawFewPixels, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, PixelLanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

TEST(PixelLanesCut, TakesPlanesAsColumnsWhereEveryPixelIsAlone) {
  const auto width = [](const std::string& rest) {
    return WithPlanesAsColumns(ParseProblem("conv2d float32 " + rest +
                                            " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT"))
        .geometry.in_w;
  };
  EXPECT_EQ(width("NCHW in=2,8,7,5 filter=1,1,8,8 strides=1,1"), 1);
  EXPECT_EQ(width("NHWC in=2,7,5,8 filter=1,1,8,8 strides=1,1"), 5);
  EXPECT_EQ(width("NCHW in=2,8,7,5 filter=1,2,8,8 strides=1,1"), 5);
  EXPECT_EQ(width("NCHW in=2,8,7,5 filter=1,1,8,8 strides=1,2"), 5);
}

// The stride of one row leads to no other, but would among planes of one column.
TEST(PixelLanesCut, TakesNoStrideAlongWithPlanes) {
  const std::string line =
      "conv2d_backprop_input float32 NCHW in=2,8,1,40 filter=1,1,8,8 strides=2,1 dilations=1,1 "
      "pads=0,0,0,0 padding=EXPLICIT";
  const ConvGeometry g = WithPlanesAsColumns(ParseProblem(line)).geometry;
  EXPECT_EQ(g.in_h, 40);
  EXPECT_EQ(g.stride_h, 1);
  CheckAlgorithm("pixel-lanes", ParseProblem(line),
                 RandomOperands(ParseProblem(line), 3, Values::kOrdinary));
}

// One block of rows takes all panels at once, several take a few, which stay cached.
TEST(PixelLanesCut, TakesPanelsTogether) {
  const KernelTable& kernels = SupportedKernels().front();
  const auto cut = [&](const std::string& layout, int in_c, int out_c) {
    const std::string in = layout == "NCHW" ? ListOf({1, in_c, 64, 64}) : ListOf({1, 64, 64, in_c});
    return std::make_unique<PixelLanesCut<float, float>>(
        ParseProblem("conv2d float32 " + layout + " in=" + in +
                     " filter=" + ListOf({1, 1, in_c, out_c}) +
                     " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT"),
        kernels, 1);
  };
  const auto few = cut("NCHW", 16, 128), many = cut("NCHW", 2048, 128);
  EXPECT_GT(few->PanelsAtOnce(1000), many->PanelsAtOnce(1000));
  EXPECT_EQ(few->NumCalls(1), 1);
  EXPECT_EQ(few->NumCalls(1000), 1 + CeilDiv(999, few->PanelsAtOnce(999)));
  EXPECT_GE(few->SourceElements(), 16 * few->PanelsAtOnce(1000) * few->panel_cols);
  EXPECT_EQ(cut("NCHW", 4, 1)->NumCalls(1000), 2);
  EXPECT_EQ(cut("NCHW", 4, 1)->few_panels, 1);
  EXPECT_EQ(cut("NHWC", 16, 128)->NumCalls(1000), 1000);
}

PixelLanesCut<float, float> CutOfPointwise(const KernelTable& kernels, int64_t in_c, int64_t out_c,
                                           int64_t side, bool forward = true) {
  return {ParseProblem((forward ? "conv2d" : "conv2d_backprop_input") +
                       std::string(" float32 NCHW") + " in=" + ListOf({1, in_c, side, side}) +
                       " filter=" + ListOf({1, 1, in_c, out_c}) +
                       " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT"),
          kernels, 1};
}

// Planes of 32x32 numbers begin a page apart, those of 30x32 do not.
TEST(PixelLanesCut, CopiesPlanesThatCrowdTheSecondCache) {
  KernelTable kernels = SupportedKernels().front();
  kernels.second_cache_bytes = int64_t{1} << 20;
  const int64_t one_block = CutOfPointwise(kernels, 8, 64, 32).tile_rows;
  EXPECT_TRUE(CutOfPointwise(kernels, 127, 48, 32).source_in_place);
  EXPECT_FALSE(CutOfPointwise(kernels, 128, 48, 32).source_in_place);
  EXPECT_TRUE(CutOfPointwise(kernels, 511, 48, 16).source_in_place);
  EXPECT_FALSE(CutOfPointwise(kernels, 512, 48, 16).source_in_place);
  EXPECT_TRUE(CutOfPointwise(kernels, 1000, 48, 33).source_in_place);
  EXPECT_EQ(CutOfPointwise(kernels, 1000, one_block, 32).row_blocks, 1);
  EXPECT_TRUE(CutOfPointwise(kernels, 1000, one_block, 32).source_in_place);
  kernels.second_cache_bytes *= 2;
  EXPECT_TRUE(CutOfPointwise(kernels, 128, 48, 32).source_in_place);
  EXPECT_FALSE(CutOfPointwise(kernels, 1000, 48, 32).source_in_place);
}

TEST(PixelLanesCut, KeepsPanelsOfWholeLinesInTheFirstCache) {
  const KernelTable& kernels = SupportedKernels().front();
  const auto bytes = [&](int64_t out_c) {
    const PixelLanesCut<float, float> cut = CutOfPointwise(kernels, 16, out_c, 100);
    return cut.few_panels * cut.TileCols() * 16 * int64_t{sizeof(float)};
  };
  for (const int64_t out_c : {32, 512}) {
    if (kernels.vector_bytes < kLineBytes) {
      EXPECT_GT(bytes(out_c), 48 << 10);
    } else {
      EXPECT_LE(bytes(out_c), 32 << 10);
      EXPECT_GT(bytes(out_c), 24 << 10);
    }
  }
}

// Filters are packed for many pixels, and forward where terms lie whole pages apart.
TEST(PixelLanesCut, ReadsFiltersOfFewPixelsInPlace) {
  const KernelTable& kernels = SupportedKernels().front();
  for (const bool forward : {true, false}) {
    EXPECT_TRUE(CutOfPointwise(kernels, 40, 96, 32, forward).filter_steps) << forward;
    EXPECT_EQ(CutOfPointwise(kernels, 40, 96, 32, forward).FilterElements(), 0) << forward;
    EXPECT_FALSE(CutOfPointwise(kernels, 40, 96, 33, forward).filter_steps) << forward;
    EXPECT_GE(CutOfPointwise(kernels, 40, 96, 33, forward).FilterElements(), 40 * 96) << forward;
  }
  EXPECT_FALSE(CutOfPointwise(kernels, 40, 1024, 32).filter_steps);
  EXPECT_TRUE(CutOfPointwise(kernels, 40, 1024, 32, false).filter_steps);
}

TEST(CrowdedBytes, AreOfStepsNearWholePages) {
  EXPECT_EQ(CrowdedBytes(8192), 4096);
  EXPECT_EQ(CrowdedBytes(4096 - 60), 4096);
  EXPECT_EQ(CrowdedBytes(4096 + 64), 0);
  EXPECT_EQ(CrowdedBytes(6144), 2048);
  EXPECT_EQ(CrowdedBytes(3 * 1024), 1024);
  EXPECT_EQ(CrowdedBytes(512), 0);
  EXPECT_EQ(CrowdedBytes(48), 0);
}

// Blocks are rows where tiles of channels would have one row, or few whose columns of the source
// leave the first cache from tap to tap; taps lie a step of one apart.
TEST(PixelLanesCut, TakesBlocksAsRowsOfFewChannels) {
  const auto takes = [](const std::string& line) {
    const Problem problem = ParseProblem(line + " dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    const PixelLanesCut<float, float> cut(problem, SupportedKernels().front(), 1);
    return cut.block_rows.has_value();
  };
  const std::string forward = "conv2d float32 NCHW ", input = "conv2d_backprop_input float32 NCHW ";
  EXPECT_TRUE(takes(forward + "in=1,64,9,9 filter=3,3,64,1 strides=1,1"));
  EXPECT_TRUE(takes(input + "in=1,1,9,9 filter=3,3,1,64 strides=2,2"));
  EXPECT_FALSE(takes(forward + "in=1,64,9,9 filter=3,3,64,1 strides=2,2"));
  EXPECT_FALSE(takes(forward + "in=1,12,9,9 filter=5,5,12,1 strides=1,1"));
  EXPECT_FALSE(takes(input + "in=1,3,9,9 filter=3,3,3,128 strides=1,1"));
  EXPECT_TRUE(takes(input + "in=1,3,9,9 filter=3,3,3,129 strides=1,1"));
  EXPECT_FALSE(takes(input + "in=1,5,9,9 filter=3,3,5,129 strides=1,1"));
  EXPECT_TRUE(takes(forward + "in=1,64,60,60 filter=9,9,64,1 strides=1,1"));
  EXPECT_FALSE(takes(forward + "in=1,64,80,80 filter=60,60,64,1 strides=1,1"));  // wide margins
}

// 18 blocks, nine taps of two channels, are three tiles of six rows: panels are as wide as these,
// and one is all that is copied of a group's source.
TEST(PixelLanesCut, CopiesOnePanelWhereBlocksAreRows) {
  const KernelTable* kernels = FindKernels(Isa::kAvx2);
  if (kernels == nullptr) GTEST_SKIP() << "the tiles are those of AVX2";
  const auto cut = [&](int64_t channels) {
    const Problem problem =
        ParseProblem("conv2d_backprop_input float32 NCHW in=1," + std::to_string(2 * channels) +
                     ",62,61 filter=3,3," + std::to_string(channels) +
                     ",416 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    return std::make_unique<PixelLanesCut<float, float>>(problem, *kernels, 1);
  };
  const auto two = cut(2);
  ASSERT_TRUE(two->block_rows.has_value());
  EXPECT_EQ(two->block_rows->MostRows(), 18);
  EXPECT_EQ(two->panel_cols, 16);
  EXPECT_EQ(two->SourceElements(), 208 * 16);
  EXPECT_EQ(cut(3)->panel_cols, 24);
}

// The first tiles fetch a line of each plane, one behind the other; the others nothing.
TEST(NextLines, AreTakenOneByOne) {
  constexpr int64_t kPlane = 1000;
  const std::vector<float> planes(4 * kPlane);
  GemmTileArgs<float> args{};
  args.b = planes.data() + 17;
  NextLines<float> next = {planes.data() + 40, kPlane, 2};
  for (const int64_t line : {0, 1}) {
    next.Take(3, args);
    EXPECT_EQ(args.ahead, planes.data() + 3 * kPlane + 40 + 15 + 16 * line);
    EXPECT_EQ(args.ahead_step, 4 * kPlane);
    EXPECT_EQ(args.ahead_bytes, 64);
  }
  next.Take(3, args);
  EXPECT_EQ(args.ahead, args.b);
  EXPECT_EQ(args.ahead_step, 0);
  EXPECT_EQ(args.ahead_bytes, 0);
}

// A rest of two rows waits for four vectors of columns: eight rows by three leave none.
TEST(PixelLanesCut, LeavesFewRowsNoWidePanels) {
  const KernelTable& kernels = SupportedKernels().front();
  if (kernels.gemm_f32.lanes != 16) GTEST_SKIP() << "tiles of other targets";
  const auto panel_cols = [&](int64_t channels) {
    const Problem problem =
        ParseProblem("conv2d float32 NCHW in=4,64,28,28 filter=" + ListOf({1, 1, 64, channels}) +
                     " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return PixelLanesCut<float, float>(problem, kernels, 1).panel_cols;
  };
  EXPECT_EQ(panel_cols(32), 48);
  EXPECT_EQ(panel_cols(96), 64);
}

TEST(PixelLanesCut, CachesResultsOfFewTerms) {
  const auto streams = [](const std::string& line) {
    const Problem problem = ParseProblem(line + " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return PixelLanesCut<float, float>(problem, SupportedKernels().front(), 1).streams_result;
  };
  EXPECT_FALSE(streams("conv2d float32 NCHW in=7,4,116,116 filter=1,1,4,16 strides=1,1"));
  EXPECT_TRUE(streams("conv2d float32 NCHW in=7,5,116,116 filter=1,1,5,16 strides=1,1"));
  EXPECT_FALSE(streams("conv2d float32 NCHW in=7,5,115,115 filter=1,1,5,16 strides=1,1"));
}

// A part's halo is copied again for the next one: of blocks as rows, whose parts may exceed the
// second cache, that is an eighth at most.
TEST(PixelLanesCut, GivesBlocksAsRowsFewHalos) {
  const Problem problem = ParseProblem(
      "conv2d_backprop_input float32 NCHW in=1,2,60,128 filter=3,1,2,1024 strides=1,1 "
      "dilations=1,1 pads=1,1,0,0 padding=EXPLICIT");
  const PixelLanesCut<float, float> cut(problem, SupportedKernels().front(), 1);
  EXPECT_GE(cut.parts.positions, 12);
}

// Results that are stored behind a part stay in the second cache until then, however many channels
// they have; else the source sets the part's rows.
TEST(PixelLanesCut, CutsPartsByResultsThatAreCopied) {
  const auto cut = [](const std::string& sizes) {
    const Problem problem =
        ParseProblem("conv2d float32 NCHW " + sizes +
                     " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    return std::make_unique<PixelLanesCut<float, float>>(problem, SupportedKernels().front(), 1);
  };
  const auto many = cut("in=1,4,96,96 filter=3,3,4,512"), few = cut("in=1,4,96,96 filter=3,3,4,4");
  EXPECT_LE(many->ResultElements() * int64_t{sizeof(float)}, 1 << 20);
  EXPECT_GT(many->parts.positions, 1);
  EXPECT_EQ(few->parts.count, 1);
}

// Large results go around the caches if their planes are whole lines, and, by vectors of less than
// a line, do not begin at the same place of a page.
TEST(PaysToStreamPlanes, WhereTheyDoNotCrowd) {
  constexpr int64_t kMany = int64_t{8} << 20, kFew = int64_t{1} << 20;
  const AlignedArray<float> result(32);
  EXPECT_TRUE(PaysToStreamPlanes(result.data(), kMany, 56 * 56 * 4, 32));
  EXPECT_TRUE(PaysToStreamPlanes(result.data(), kMany, 64 * 64 * 4, 64));
  EXPECT_FALSE(PaysToStreamPlanes(result.data(), kMany, 64 * 64 * 4, 32));
  EXPECT_FALSE(PaysToStreamPlanes(result.data(), kMany, 57 * 57 * 4, 32));
  EXPECT_FALSE(PaysToStreamPlanes(result.data(), kFew, 56 * 56 * 4, 32));
  EXPECT_FALSE(PaysToStreamPlanes(result.data() + 8, kMany, 56 * 56 * 4, 32));
}

// Results of few terms, of some more with threads, whose operands and they fit the third cache.
TEST(PaysToCache, ResultsOfFewTermsThatFit) {
  const auto pays = [](const std::string& sizes, int num_threads) {
    return PaysToCache(ParseProblem("conv2d float32 " + sizes +
                                    " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT"),
                       num_threads);
  };
  EXPECT_TRUE(pays("NCHW in=4,4,112,112 filter=1,1,4,32", 1));
  EXPECT_FALSE(pays("NCHW in=4,5,112,112 filter=1,1,5,32", 1));
  EXPECT_TRUE(pays("NCHW in=4,12,112,112 filter=1,1,12,32", 2));
  EXPECT_FALSE(pays("NCHW in=4,13,112,112 filter=1,1,13,32", 2));
  EXPECT_FALSE(pays("NHWC in=8,112,112,4 filter=1,1,4,34", 1));  // 15.3 MB
  EXPECT_TRUE(pays("NHWC in=8,112,112,4 filter=1,1,4,34", 2));
  EXPECT_FALSE(pays("NHWC in=8,112,112,4 filter=1,1,4,50", 2));  // 21.7 MB
}

TEST(CutRows, GivesThreadsEquallyMuch) {
  // 7050 pixels in panels of 64, the last one of which is not full.
  const RowParts panels = CutRows(1, 7050, {64, 64, 7104}, 2);
  EXPECT_EQ(panels.count % 2, 0);
  EXPECT_EQ(panels.positions % 64, 0);
  EXPECT_GE(panels.count * panels.positions, 7050);
  EXPECT_LT((panels.count - 1) * panels.positions, 7050);
  // Three images among four threads.
  EXPECT_EQ(3 * CutRows(3, 56, {1, 0, 56}, 4).count % 4, 0);
  // As few as memory allows for one thread.
  EXPECT_EQ(CutRows(5, 100, {1, 0, 40}, 1).count, 3);
  EXPECT_EQ(CutRows(1, 160, {64, 64, 192}, 1).count, 1);
  // No more than there are, and none of few rows that need many more beside them.
  EXPECT_EQ(CutRows(1, 3, {1, 0, 3}, 16).count, 3);
  EXPECT_GE(CutRows(1, 56, {1, 30, 56}, 4).positions, 30);
}

TEST(EvenShares, AreAsFewAsGiveThreadsEquallyMany) {
  EXPECT_EQ(EvenShares(6, 10, 2), 1);
  EXPECT_EQ(EvenShares(5, 10, 2), 2);
  EXPECT_EQ(EvenShares(1, 10, 8), 8);
  EXPECT_EQ(EvenShares(3, 10, 8), 8);
  EXPECT_EQ(EvenShares(3, 5, 8), 5);  // 15 tasks, two for each thread but one
  EXPECT_EQ(EvenShares(3, 1, 8), 1);
  EXPECT_EQ(EvenShares(101, 10, 2), 1);
}

// Images that are one panel each, among two threads.
TEST(PixelLanesCut, SharesTheChannelsOfFewParts) {
  const auto shares = [](const std::string& images, const std::string& filter, int num_threads) {
    const Problem problem =
        ParseProblem("conv2d float32 NCHW in=" + images + ",64,4,4 filter=" + filter +
                     " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    const PixelLanesCut<float, float> cut(problem, *SupportedKernels().begin(), num_threads);
    EXPECT_EQ(cut.RowsOf(0).begin, 0);
    for (int64_t i = 1; i < cut.shares; ++i) {
      EXPECT_EQ(cut.RowsOf(i).begin, cut.RowsOf(i - 1).end);
    }
    EXPECT_EQ(cut.RowsOf(cut.shares - 1).end, cut.sum.result_c);
    return cut.shares;
  };
  EXPECT_EQ(shares("3", "1,1,64,512", 2), 2);
  EXPECT_EQ(shares("4", "1,1,64,512", 2), 1);
  EXPECT_EQ(shares("3", "1,1,64,512", 1), 1);
  EXPECT_EQ(shares("3", "1,1,64,16", 2), 1);
}

}  // namespace
}  // namespace convgrad::testing
