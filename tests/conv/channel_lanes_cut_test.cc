// How "channel-lanes" is cut: where the filter is packed, which pixels are copied, stages that
// threads take as their own or share, and groups that are copied apart.
#include "conv/conv2d/data/channel_lanes_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "conv/gemm/class_pixels.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

TEST(ChannelLanesCut, PanelsThatShareLinesArePackedTogether) {
  for (const KernelTable& table : SupportedKernels()) {
    const auto together = [&](const std::string& op, int64_t out_c) {
      const Problem problem =
          ParseProblem(op + " float32 NHWC in=1,7,7,200 filter=1,1,200," + std::to_string(out_c) +
                       " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
      const ChannelLanesCut<float, float> cut(problem, table, 1);
      EXPECT_EQ(cut.PackedElements(), cut.panels_together * cut.PanelElements());
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

// More pixels of each thread read rows of whole lines where they lie than others; few read rows
// that meet in few sets of the caches.
TEST(ChannelLanesCut, TheFilterServesInPlace) {
  for (const KernelTable& table : SupportedKernels()) {
    if (table.vector_bytes < 32) continue;
    const auto in_place = [&](int64_t pixels, int64_t out_c, int num_threads) {
      const Problem problem = ParseProblem(
          "conv2d float32 NHWC in=1,1," + std::to_string(pixels) + ",40 filter=1,1,40," +
          std::to_string(out_c) + " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
      return ChannelLanesCut<float, float>(problem, table, num_threads).in_place.has_value();
    };
    const int64_t panel = table.vector_bytes / 2;  // two vectors of numbers
    EXPECT_TRUE(in_place(1024, 2 * panel, 1)) << NameOf(table.isa);
    EXPECT_FALSE(in_place(1025, 2 * panel, 1)) << NameOf(table.isa);
    EXPECT_TRUE(in_place(2048, 2 * panel, 2)) << NameOf(table.isa);
    EXPECT_TRUE(in_place(128, panel - 1, 2)) << NameOf(table.isa);
    EXPECT_FALSE(in_place(129, panel - 1, 2)) << NameOf(table.isa);
    EXPECT_TRUE(in_place(16, 256, 2)) << NameOf(table.isa);
    EXPECT_FALSE(in_place(17, 256, 2)) << NameOf(table.isa);
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

TEST(ChannelLanesCut, ResultsWrittenWhereTheyLieAreFarBeyondTheCaches) {
  const auto is_far = [](const std::string& sizes, int num_threads) {
    const Problem problem = ParseProblem(
        "conv2d float32 " + sizes + " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return ChannelLanesCut<float, float>(problem, SupportedKernels().front(), num_threads)
        .result_is_far;
  };
  EXPECT_FALSE(is_far("NHWC in=5,56,56,100 filter=1,1,100,128", 1));  // 14.3 million bytes
  EXPECT_TRUE(is_far("NHWC in=6,56,56,100 filter=1,1,100,128", 1));
  EXPECT_FALSE(is_far("NHWC in=7,56,56,100 filter=1,1,100,128", 2));
  EXPECT_TRUE(is_far("NHWC in=8,56,56,100 filter=1,1,100,128", 2));
  EXPECT_FALSE(is_far("NCHW in=8,100,56,56 filter=1,1,100,128", 1));  // made in a slab
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

TEST(ChannelLanesCut, CachesResultsOfOnePhase) {
  const auto streams = [](const std::string& line) {
    const Problem problem = ParseProblem(line + " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return ChannelLanesCut<float, float>(problem, SupportedKernels().front(), 1).streams_result;
  };
  EXPECT_FALSE(streams("conv2d float32 NHWC in=7,112,112,4 filter=1,1,4,16 strides=1,1"));
  EXPECT_FALSE(streams("conv2d float32 NHWC in=7,112,112,1 filter=2,2,1,64 strides=2,2"));
  EXPECT_TRUE(
      streams("conv2d_backprop_input float32 NHWC in=7,112,112,16 filter=2,2,16,4 strides=2,2"));
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

// Lines on their way around the caches hold up what comes from the second one.
TEST(ChannelLanesStages, HoldSmallChunksWherePanelsGoAroundTheCaches) {
  if (SupportedKernels().front().vector_bytes < 64) GTEST_SKIP() << "panels of torn lines";
  const auto pixels = [](const std::string& rest) {
    return StridedCut("conv2d float32 NHWC in=64,64," + rest + " strides=1,1 dilations=1,1")
        .stages.chunk_pixels;
  };
  EXPECT_EQ(pixels("64,24 filter=1,1,24,512"), (1 << 15) / 24);
  EXPECT_EQ(pixels("64,64 filter=1,1,64,512"), 1024);
  EXPECT_EQ(pixels("64,24 filter=1,1,24,500"), (1 << 18) / 24) << "torn lines";
  EXPECT_EQ(pixels("64,24 filter=1,1,24,16"), (1 << 18) / 24) << "one panel";
  EXPECT_EQ(pixels("7,24 filter=1,1,24,32"), (1 << 18) / 24) << "below 4 MiB";
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

// Panels of one chunk are computed by those who pack them; what is left, and the panels of many
// pixels, threads share.
TEST(ChannelLanesStages, GiveThreadsEquallyManyPanelsToPack) {
  const auto own = [](const std::string& sizes, int threads, int64_t* all = nullptr) {
    const auto cut = CutOf(sizes, threads);
    if (all != nullptr) *all = cut.NumPanels();
    return cut.stages.own_panels;
  };
  for (const int64_t channels : {256, 512, 1280}) {
    const std::string filter = " filter=3,3,64," + std::to_string(channels);
    int64_t all = 0;
    EXPECT_EQ(own("NHWC in=1,14,14,64" + filter, 1, &all), all);
    for (const int threads : {2, 3}) {
      EXPECT_EQ(own("NHWC in=1,4,4,8 filter=3,3,8," + std::to_string(channels), threads), 0)
          << "the filter serves in place";
      const int64_t owned = own("NHWC in=1,14,14,64" + filter, threads);
      EXPECT_LE(owned, all);
      EXPECT_GT(owned, all - 2 * threads) << channels;  // two that share lines are packed at once
      EXPECT_EQ(own("NHWC in=1,33,32,64" + filter, threads), 0) << "many pixels";
    }
  }
  if (SupportedKernels().front().vector_bytes == 64) {
    EXPECT_EQ(own("NHWC in=1,14,14,64 filter=3,3,64,88", 2), 2);
    EXPECT_EQ(own("NHWC in=1,14,14,64 filter=3,3,64,72", 2), 0) << "the second half as wide";
  }
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
