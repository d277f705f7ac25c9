// The algorithm "channel-lanes" against the reference, bit for bit, where threads take stages of
// their own and where they share them, which of the two they do, which pixels are copied, and when
// groups are copied apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "conv/conv2d/data/channel_lanes_cut.h"
#include "conv/gemm/class_pixels.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Problem lines; not every one has an output.
std::string DrawStaged(Draw& draw) {
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const int64_t type = draw(0, 3);
  const bool nhwc = type > 1 && draw(0, 1) == 0, forward = draw(0, 1) == 0;
  const int64_t batch = draw(1, 9), h = draw(1, 40), w = draw(1, 40), groups = draw(1, 3);
  const int64_t in_c = draw(1, 40), out_c = draw(1, 40);
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") + kTypes[type] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({draw(1, 4), draw(1, 4), in_c, groups * out_c}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 4), draw(0, 4)}) + " padding=EXPLICIT";
}

// Problem lines; not every one has an output or is taken.
std::string DrawGroupedData(Draw& draw) {
  const bool nhwc = draw(0, 1) == 0, forward = draw(0, 1) == 0, large = draw(0, 5) == 0;
  const int64_t batch = draw(1, 5), h = draw(1, large ? 60 : 12), w = draw(1, large ? 60 : 12);
  const int64_t groups = draw(2, 20);
  const int64_t in_c = draw(0, 3) == 0 ? draw(1, 40) : draw(1, 9);
  const int64_t out_c = draw(0, 3) == 0 ? draw(1, 40) : draw(1, 9);
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") + kTypes[draw(0, 3)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({draw(1, 5), draw(1, 5), in_c, groups * out_c}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 4), draw(0, 4)}) + " padding=EXPLICIT";
}

class ChannelLanes : public ::testing::TestWithParam<Values> {};

TEST_P(ChannelLanes, OfRandomProblems) {
  CheckOnRandomProblems("channel-lanes", 60, 5, DrawStaged, RandomOperands, GetParam());
}

TEST_P(ChannelLanes, OfGroups) {
  CheckOnRandomProblems("channel-lanes", 100, 21, DrawGroupedData, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, ChannelLanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// `rest` is what the problem lines have in common.
void CheckEach(std::initializer_list<std::string> lines, const std::string& rest, uint64_t seed) {
  for (const std::string& line : lines) {
    const Problem problem = ParseProblem(line + rest + " padding=EXPLICIT");
    CheckAlgorithm("channel-lanes", problem, RandomOperands(problem, seed, Values::kOrdinary));
  }
}

// Several blocks of terms, panels of a group, slabs of images and of rows; both formats.
TEST(ChannelLanesOf, LargeGroups) {
  CheckEach({"conv2d float32 NCHW in=2,160,27,25 filter=2,2,80,130 strides=1,1 ",
             "conv2d_backprop_input float64 NCHW in=1,100,16,31 filter=3,3,50,240 strides=2,1 ",
             "conv2d float16 NCHW in=1,600,20,21 filter=1,2,300,40 strides=1,1 ",
             "conv2d float32 NHWC in=1,19,20,512 filter=2,2,128,160 strides=1,2 "},
            "dilations=1,1 pads=1,1,1,1", 3);
}

// Phases without taps and source pixels that no tap meets, over several stages; results that are
// written around the caches.
TEST(ChannelLanesOf, StridesBeyondTheFilter) {
  for (const char* line :
       {"conv2d_backprop_input float32 NCHW in=3,130,56,56 filter=1,1,130,40 strides=2,2 "
        "dilations=1,1 pads=0,0,0,0 ",
        "conv2d_backprop_input float32 NCHW in=2,150,57,64 filter=1,2,150,24 strides=2,3 "
        "dilations=1,1 pads=1,0,0,2 ",
        "conv2d_backprop_input float64 NCHW in=2,70,64,64 filter=2,1,70,9 strides=3,2 "
        "dilations=1,1 pads=0,1,0,0 ",
        "conv2d_backprop_input float32 NCHW in=2,260,48,48 filter=1,3,260,9 strides=2,1 "
        "dilations=1,1 pads=0,0,1,1 ",
        "conv2d_backprop_input bfloat16 NCHW in=2,30,41,43 filter=3,3,30,31 strides=2,2 "
        "dilations=2,2 pads=1,2,1,2 ",
        "conv2d_backprop_input float16 NHWC in=2,41,43,30 filter=1,1,30,31 strides=2,2 "
        "dilations=1,1 pads=0,0,0,0 ",
        "conv2d_backprop_input float32 NCHW in=2,20,1,9 filter=1,1,20,9 strides=3,2 "
        "dilations=1,1 pads=1,1,1,1 ",
        "conv2d_backprop_input float32 NHWC in=2,58,75,131 filter=1,1,131,24 strides=2,2 "
        "dilations=1,1 pads=0,0,0,0 ",
        "conv2d_backprop_input float64 NHWC in=3,37,40,34 filter=1,2,34,20 strides=3,3 "
        "dilations=1,1 pads=0,2,1,0 ",
        "conv2d_backprop_input bfloat16 NHWC in=2,31,18,64 filter=2,1,64,30 strides=3,2 "
        "dilations=1,1 pads=1,0,0,0 ",
        "conv2d_backprop_input float32 NHWC in=2,1,1,8 filter=1,1,8,8 strides=3,3 "
        "dilations=1,1 pads=1,1,1,1 ",
        "conv2d float32 NCHW in=3,130,56,56 filter=1,1,130,40 strides=2,2 dilations=1,1 "
        "pads=0,0,0,0 ",
        "conv2d float16 NCHW in=2,35,41,62 filter=2,2,35,20 strides=4,3 dilations=3,1 "
        "pads=2,1,1,2 ",
        "conv2d bfloat16 NHWC in=2,41,62,35 filter=1,2,35,20 strides=2,3 dilations=1,1 "
        "pads=1,1,0,0 ",
        "conv2d float64 NCHW in=2,35,40,40 filter=3,3,35,20 strides=2,2 dilations=2,2 "
        "pads=2,2,2,2 "}) {
    const Problem problem = ParseProblem(std::string(line) + "padding=EXPLICIT");
    CheckAlgorithm("channel-lanes", problem, RandomOperands(problem, 3, Values::kOrdinary));
    CheckAlgorithm("channel-lanes", problem, RandomOperands(problem, 4, Values::kSpecial));
  }
}

// Tiles of one vector read pixels of 9 MB where they lie, without padding and with it.
TEST(ChannelLanesOf, FewChannelsOfLargeTensors) {
  CheckEach({"conv2d float32 NHWC in=7,56,56,100 filter=1,1,100,3 pads=0,0,0,0 ",
             "conv2d_backprop_input float32 NHWC in=3,80,80,5 filter=3,3,5,120 pads=1,1,1,1 "},
            "strides=1,1 dilations=1,1", 5);
}

// The last of three panels and of four is narrower; of one chunk of pixels and of several.
TEST(ChannelLanesOf, PanelsThatArePackedTogether) {
  CheckEach({"conv2d float32 NHWC in=2,5,6,70 filter=3,3,70,50 ",
             "conv2d float64 NHWC in=1,7,7,90 filter=1,1,90,45 ",
             "conv2d bfloat16 NCHW in=3,40,9,8 filter=2,3,40,90 ",
             "conv2d float32 NHWC in=1,40,40,300 filter=1,1,300,50 "},
            "strides=1,1 dilations=1,1 pads=0,1,1,0", 6);
}

TEST(ChannelLanesCut, PanelsThatShareLinesArePackedTogether) {
  for (const KernelTable& table : SupportedKernels()) {
    const auto together = [&](const std::string& op, int64_t out_c) {
      const Problem problem =
          ParseProblem(op + " float32 NHWC in=1,7,7,200 filter=1,1,200," + std::to_string(out_c) +
                       " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
      const ChannelLanesCut<float, float> cut(problem, table, 1);
      EXPECT_EQ(cut.panels_per_pass, cut.panels_together);
      return cut.panels_together;
    };
    // Vectors of half a line come three to a panel; those of a line end with it.
    if (table.vector_bytes == 32) {
      EXPECT_EQ(together("conv2d", 96), 2);
    }
    if (table.vector_bytes == 64) {
      EXPECT_EQ(together("conv2d", 96), 1);
    }
    EXPECT_EQ(together("conv2d", table.gemm_f32.lanes), 1);
    EXPECT_EQ(together("conv2d_backprop_input", 96), 1);
  }
}

TEST(ChannelLanesCut, TensorsThatLeaveTheCachesAreFar) {
  const auto is_far = [](const std::string& sizes) {
    const Problem problem = ParseProblem(
        "conv2d float32 " + sizes + " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return ChannelLanesCut<float, float>(problem, SupportedKernels().front(), 1).source_is_far;
  };
  EXPECT_TRUE(is_far("NHWC in=7,56,56,100 filter=1,1,100,8"));
  EXPECT_FALSE(is_far("NHWC in=6,56,56,100 filter=1,1,100,8"));
  EXPECT_TRUE(is_far("NHWC in=4,56,56,100 filter=1,1,100,100"));  // of several panels
  EXPECT_FALSE(is_far("NHWC in=3,56,56,100 filter=1,1,100,100"));
  EXPECT_FALSE(is_far("NCHW in=7,100,56,56 filter=1,1,100,8"));  // copied
}

TEST(ChannelLanesCut, ZerosOfLargeResultsGoAroundTheCaches) {
  const auto streams = [](int images, int num_threads) {
    const Problem problem = ParseProblem(
        "conv2d_backprop_input float32 NHWC in=" + std::to_string(images) +
        ",64,64,64 filter=1,1,64,8 strides=2,2 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return ChannelLanesCut<float, float>(problem, SupportedKernels().front(), num_threads)
        .streams_zeros;
  };
  EXPECT_FALSE(streams(7, 1));
  EXPECT_TRUE(streams(8, 1));  // 8 MiB
  EXPECT_FALSE(streams(11, 2));
  EXPECT_TRUE(streams(12, 2));
}

// Pixels and rows begin in the middle of lines.
TEST(ChannelLanesOf, ZerosAroundTheCaches) {
  CheckEach({"conv2d_backprop_input float32 NHWC in=13,59,59,71 filter=1,1,71,5 strides=2,2 ",
             "conv2d_backprop_input float32 NHWC in=13,59,61,67 filter=1,2,67,5 strides=3,3 ",
             "conv2d_backprop_input bfloat16 NHWC in=30,59,57,63 filter=1,1,63,4 strides=2,2 "},
            "dilations=1,1 pads=0,0,0,0", 8);
}

TEST(ChannelLanesCut, CachesResultsOfOnePhase) {
  const auto caches = [](const std::string& line) {
    const Problem problem = ParseProblem(line + " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return ChannelLanesCut<float, float>(problem, SupportedKernels().front(), 1).caches_result;
  };
  EXPECT_TRUE(caches("conv2d float32 NHWC in=7,112,112,4 filter=1,1,4,16 strides=1,1"));
  EXPECT_TRUE(caches("conv2d float32 NHWC in=7,112,112,1 filter=2,2,1,64 strides=2,2"));
  EXPECT_FALSE(
      caches("conv2d_backprop_input float32 NHWC in=7,112,112,16 filter=2,2,16,4 strides=2,2"));
}

ChannelLanesCut<float, float> StridedCut(const std::string& line) {
  const Problem problem = ParseProblem(line + " pads=0,0,0,0 padding=EXPLICIT");
  return {problem, SupportedKernels().front(), 1};
}

TEST(ChannelLanesStages, HoldTheSourcePixelsThatTapsMeet) {
  const auto cut =
      StridedCut("conv2d float32 NCHW in=1,8,41,40 filter=2,1,8,8 strides=3,2 dilations=1,1");
  EXPECT_EQ(cut.source_kept.rows.residues, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(cut.source_kept.cols.residues, (std::vector<int64_t>{0}));
  EXPECT_EQ(cut.source.h, 28);
  EXPECT_EQ(cut.source.w, 20);
  EXPECT_TRUE(cut.result_kept.all());
  EXPECT_TRUE(
      StridedCut("conv2d float32 NCHW in=1,8,41,40 filter=3,3,8,8 strides=2,2 dilations=1,1")
          .source_kept.all());
}

TEST(ChannelLanesStages, HoldTheResultsThatTapsAddTo) {
  const auto cut = StridedCut(
      "conv2d_backprop_input float32 NCHW in=1,8,41,40 filter=2,1,8,8 strides=3,2 dilations=1,1");
  EXPECT_EQ(cut.result_kept.rows.residues, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(cut.result_kept.cols.residues, (std::vector<int64_t>{0}));
  EXPECT_EQ(cut.result.h, 28);
  EXPECT_EQ(cut.result.w, 20);
  EXPECT_EQ(cut.phases.size(), 2u);
  EXPECT_TRUE(cut.source_kept.all());
}

TEST(ChannelLanesStages, LeaveZerosToBeWrittenWhereTheResultLies) {
  const std::string image = "conv2d_backprop_input float32 NHWC in=1,41,40,8 filter=2,1,8,8 ";
  const auto cut = StridedCut(image + "strides=3,2 dilations=1,1");
  EXPECT_TRUE(cut.result_kept.all());
  EXPECT_EQ(cut.summed.rows.residues, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(cut.summed.cols.residues, (std::vector<int64_t>{0}));
  EXPECT_EQ(cut.phases.size(), 2u);
  EXPECT_TRUE(StridedCut(image + "strides=2,1 dilations=1,1").summed.all());
}

// A pixel of the result meets 256 numbers of the source, or with overlapping taps 3 more.
TEST(ChannelLanesStages, HoldChunksOfTheSourceThatCachesHold) {
  const auto pixels = [](const std::string& filter) {
    return StridedCut("conv2d float32 NHWC in=16,256,256,4 dilations=1,1 " + filter)
        .stages.chunk_pixels;
  };
  EXPECT_EQ(pixels("filter=8,8,4,64 strides=8,8"), (1 << 18) / 256);
  EXPECT_EQ(pixels("filter=8,8,4,64 strides=1,1"), 16384);
  EXPECT_EQ(pixels("filter=1,1,4,64 strides=8,8"), 16384);
  EXPECT_EQ(pixels("filter=32,32,4,64 strides=32,32"), 512);
}

// The rows that a thread puts together of long ones are counted, and have a limit.
TEST(ChannelLanesStages, PutLongRowsTogetherWithinALimit) {
  const std::string rest = " filter=1,1,8,8 strides=2,2 dilations=1,1";
  const auto kept = StridedCut("conv2d_backprop_input float32 NCHW in=1,8,9,4095" + rest);
  EXPECT_FALSE(kept.result_kept.all());
  EXPECT_GE(PlanesTogetherBytes<float>(kept.result_kept), 16 * 16 * 4095 * 4);
  EXPECT_LE(PlanesTogetherBytes<float>(kept.result_kept), 5 << 20);
  EXPECT_GT(kept.ScratchBytes(), PlanesTogetherBytes<float>(kept.result_kept));
  EXPECT_TRUE(
      StridedCut("conv2d_backprop_input float32 NCHW in=1,8,9,4097" + rest).result_kept.all());
}

TEST(ChannelLanesStages, HoldGroupsApart) {
  const std::string rest = " filter=3,3,32,1024 strides=1,1 dilations=1,1";
  // Pixels 4 KiB apart meet in few sets of a cache; those of 992 channels don't.
  EXPECT_TRUE(StridedCut("conv2d float32 NHWC in=1,7,7,1024" + rest).groups_apart);
  EXPECT_FALSE(StridedCut("conv2d float32 NHWC in=1,7,7,992 filter=3,3,32,992 strides=1,1 "
                          "dilations=1,1")
                   .source_staged);
  const auto planes = StridedCut("conv2d float32 NCHW in=1,1024,7,7" + rest);
  EXPECT_TRUE(planes.groups_apart);
  EXPECT_EQ(planes.SourceElements(planes.stages[0]), 7 * 7 * 32);
  EXPECT_EQ(planes.NumTasks(), 32);
  EXPECT_FALSE(
      StridedCut("conv2d float32 NCHW in=1,64,7,7 filter=3,3,64,64 strides=1,1 dilations=1,1")
          .groups_apart);
}

TEST(ChannelLanesStages, KeepCopiedPixelsFromCrowding) {
  const std::string rest = " strides=1,1 dilations=1,1";
  // Pixels of 1 KiB and of 640 bytes.
  const auto planes = StridedCut("conv2d float32 NCHW in=1,256,7,7 filter=1,1,256,160" + rest);
  EXPECT_EQ(planes.SourcePixel(), 256 + 16);
  EXPECT_EQ(planes.ResultPixel(), 160);
  EXPECT_EQ(planes.SourceElements(planes.stages[0]), 7 * 7 * (256 + 16));
  const auto back =
      StridedCut("conv2d_backprop_input float32 NCHW in=1,256,7,7 filter=1,1,256,160" + rest);
  EXPECT_EQ(back.SourcePixel(), 160);
  EXPECT_EQ(back.ResultPixel(), 256 + 16);
  // Pixels that are not copied lie where they lie.
  EXPECT_EQ(StridedCut("conv2d float32 NHWC in=1,7,7,256 filter=1,1,256,256" + rest).SourcePixel(),
            256);
}

ChannelLanesCut<float, float> CutOf(const std::string& sizes, int num_threads) {
  const Problem problem = ParseProblem("conv2d float32 " + sizes +
                                       " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  return {problem, SupportedKernels().front(), num_threads};
}

TEST(ChannelLanesStages, AreAThreadsOwnWhereThereAreEnough) {
  const std::string image = "NCHW in=1,64,64,64 filter=3,3,64,64";
  EXPECT_FALSE(CutOf(image, 1).stages.own);
  const auto cut = CutOf(image, 2);
  EXPECT_TRUE(cut.stages.own);
  EXPECT_GE(cut.stages.size(), 8);
}

TEST(ChannelLanesStages, AreSharedOtherwise) {
  for (const char* sizes : {
           "NHWC in=1,64,64,64 filter=3,3,64,64",    // one stage, nothing is copied
           "NCHW in=1,64,1,9000 filter=3,3,64,64",   // one row
           "NCHW in=8,512,7,7 filter=3,3,512,512",   // a filter that outweighs the rest
           "NCHW in=1,64,16,300 filter=11,1,64,64",  // stages would read rows several times
           "NCHW in=1,8,9,9 filter=3,3,8,8",         // little to do
       }) {
    EXPECT_FALSE(CutOf(sizes, 2).stages.own) << sizes;
  }
}

// Tasks are shares of chunks, each with one panel.
TEST(ChannelLanesStages, GiveThreadsEquallyManyTasks) {
  for (const char* sizes : {
           "NHWC in=1,147,147,32 filter=3,3,32,64",  // three chunks, one panel
           "NHWC in=1,17,17,192 filter=1,7,192,192",
           "NHWC in=3,28,28,64 filter=3,3,64,192",
           "NHWC in=1,7,7,512 filter=3,3,512,64",
       }) {
    for (const int threads : {2, 3, 4}) {
      const auto cut = CutOf(sizes, threads);
      ASSERT_FALSE(cut.stages.own) << sizes;
      const int64_t chunks = cut.stages[0].chunks.size();
      const int64_t tasks = chunks * cut.stages.shares * cut.panels_per_pass;
      EXPECT_LE(RoundUp(tasks, threads), 1.1 * tasks) << sizes << ", " << threads;
    }
  }
  EXPECT_EQ(CutOf("NHWC in=1,147,147,32 filter=3,3,32,64", 1).stages.shares, 1);
}

TEST(ChannelLanesStages, OfThreadsOwnAreAMultipleOfThem) {
  EXPECT_EQ(CutOf("NCHW in=3,64,28,28 filter=3,3,64,64", 2).stages.size() % 2, 0);
  EXPECT_EQ(CutOf("NCHW in=25,64,28,28 filter=3,3,64,64", 4).stages.size() % 4, 0);
}

// Every pixel of every class is in one share; shares differ by a tile at most.
TEST(CutShare, GivesEachPixelToOneShare) {
  constexpr int64_t kTileRows = 6;
  for (const char* line :
       {"conv2d float32 NHWC in=2,9,11,8 filter=3,5,8,8 strides=1,1 dilations=1,1 pads=1,1,2,2 ",
        "conv2d_backprop_input float32 NHWC in=1,13,9,8 filter=3,3,8,8 strides=2,2 dilations=1,1 "
        "pads=1,1,1,1 ",
        "conv2d_backprop_input float32 NHWC in=1,6,7,8 filter=1,1,8,8 strides=2,3 dilations=1,1 "
        "pads=0,0,0,0 "}) {
    const TapSum sum(ParseProblem(std::string(line) + "padding=EXPLICIT"));
    const std::vector<TapPhase> phases = PhasesOf(sum);
    const Slab slab{0, sum.batch, 1, sum.result_h};
    std::vector<int64_t> pixels, taps;
    ForEachClassOf(phases, slab, [&](int64_t of_class, int64_t met) {
      pixels.push_back(of_class);
      taps.push_back(std::max<int64_t>(1, met));
    });
    int64_t all = 0;
    for (size_t i = 0; i < taps.size(); ++i) all += CeilDiv(pixels[i], kTileRows) * taps[i];
    for (const int64_t count : {1, 2, 3, 7}) {
      std::vector<int64_t> reached(pixels.size());
      for (int64_t index = 0; index < count; ++index) {
        std::vector<Range> share;
        CutShare(phases, slab, kTileRows, {index, count}, share);
        ASSERT_EQ(share.size(), pixels.size());
        int64_t of_share = 0;
        for (size_t i = 0; i < share.size(); ++i) {
          EXPECT_EQ(share[i].begin, reached[i]);
          EXPECT_LE(share[i].begin, share[i].end);
          reached[i] = share[i].end;
          of_share += CeilDiv(share[i].end - share[i].begin, kTileRows) * taps[i];
        }
        EXPECT_NEAR(static_cast<double>(of_share), static_cast<double>(all) / count,
                    static_cast<double>(*std::max_element(taps.begin(), taps.end())));
      }
      EXPECT_EQ(reached, pixels);
    }
  }
}

}  // namespace
}  // namespace convgrad::testing
