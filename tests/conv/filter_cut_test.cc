// How a filter gradient by tiles is cut: how runs and blocks are dealt, what is packed, and what
// one call of the micro-kernel takes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "conv/conv2d/filter/ahead.h"
#include "conv/conv2d/filter/cut.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

FilterCut PlanOf(const std::string& sizes, int num_threads,
                 const Panels& panels = {.count = 1, .cols = 32},
                 FilterForm form = FilterForm::kApart, const std::string& strides = "1,1",
                 bool vectors_are_lines = true, bool masks_columns = false,
                 int64_t near_bytes = int64_t{16} << 20) {
  const Problem problem =
      ParseProblem("conv2d_backprop_filter float32 " + sizes + " strides=" + strides +
                   " dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  return FilterCut(problem,
                   {.tile_rows = 4,
                    .tile_sums = 4 * panels.cols,
                    .panels = panels,
                    .lanes = vectors_are_lines ? 16 : 8,
                    .element_bytes = 4,
                    .stores_compute_type = true,
                    .pairs = false,
                    .masks_columns = masks_columns,
                    .vectors_are_lines = vectors_are_lines,
                    .near_bytes = near_bytes},
                   num_threads, form);
}

// Blocks of a portion that threads take, 0 where they share stages.
int64_t DealtBlocks(const std::string& sizes, int num_threads) {
  const FilterCut plan = PlanOf(sizes, num_threads);
  return plan.deals_portions ? plan.portion_blocks : 0;
}

// 28 rows of 28: four blocks an image.
TEST(FilterCut, DealsRunsWhereEveryThreadHasOne) {
  EXPECT_EQ(DealtBlocks("NHWC in=64,28,28,8 filter=3,3,8,32", 1), 0);
  EXPECT_EQ(DealtBlocks("NHWC in=64,28,28,8 filter=3,3,8,32", 2), kRunBlocks);
  EXPECT_EQ(DealtBlocks("NHWC in=4,28,28,8 filter=3,3,8,32", 2), 0);
  EXPECT_EQ(DealtBlocks("NHWC in=8,28,28,8 filter=3,3,8,32", 2), kRunBlocks);
  // More sums than a thread's cache holds beside its operands.
  EXPECT_EQ(DealtBlocks("NHWC in=64,28,28,512 filter=3,3,512,32", 2), 0);
}

// All pixels of few groups are packed together; in NHWC of as many as share a line, or of all
// groups where these are more than a stage, or come from beyond the caches.
TEST(FilterCut, TakesFewGroupsAtATime) {
  const auto passes = [](const std::string& sizes, int num_threads = 1) {
    return PlanOf(sizes, num_threads, {.count = 3, .cols = 48}, FilterForm::kInputsJoined)
        .passes.size();
  };
  EXPECT_EQ(passes("NCHW in=4,128,14,14 filter=3,3,16,128"), 8);
  EXPECT_EQ(passes("NCHW in=1,128,14,14 filter=3,3,16,128"), 2);
  EXPECT_EQ(passes("NCHW in=4,128,14,14 filter=3,3,16,128", 2), 1);
  EXPECT_EQ(passes("NHWC in=4,14,14,128 filter=3,3,16,128"), 8);
  EXPECT_EQ(passes("NHWC in=4,14,14,64 filter=3,3,8,64"), 4);
  EXPECT_EQ(passes("NHWC in=8,14,14,64 filter=3,3,8,64"), 1);
  EXPECT_EQ(passes("NHWC in=8,28,28,128 filter=3,3,16,128"), 1);
}

TEST(FilterCut, DealsBlocksWhereThreadsHaveNoRunsAndSumsAreFew) {
  EXPECT_EQ(DealtBlocks("NHWC in=16,28,28,32 filter=1,1,32,32", 4), kRunBlocks);
  EXPECT_EQ(DealtBlocks("NHWC in=16,28,28,32 filter=1,1,32,32", 5), 1);
  EXPECT_EQ(DealtBlocks("NHWC in=16,28,28,32 filter=1,1,32,32", 32), 1);
  // Less than two blocks a thread.
  EXPECT_EQ(DealtBlocks("NHWC in=16,28,28,32 filter=1,1,32,32", 33), 0);
  // Two threads wait little for each other.
  EXPECT_EQ(DealtBlocks("NHWC in=4,28,28,32 filter=1,1,32,32", 2), 0);
  // More sums of a block than operands.
  EXPECT_EQ(DealtBlocks("NHWC in=16,28,28,32 filter=3,3,32,32", 8), 0);
}

TEST(FilterCut, HoldsAllDealtBlocksSums) {
  const FilterCut plan = PlanOf("NHWC in=16,28,28,32 filter=1,1,32,32", 8);
  EXPECT_EQ(plan.NumPortions(), 64);
  EXPECT_EQ(plan.portions_at_once, 64);
  EXPECT_EQ(plan.NumRuns(), 4);
}

// Of 2,500 pixels of a call those that share 512 bytes with a page crowd, 64 bytes not; of 256 not
// those either. A stride of two doubles the distance.
TEST(FilterCut, TellsPixelsThatCrowdByTheirDistance) {
  const FilterCut many = PlanOf("NHWC in=1,48,48,320 filter=1,1,320,32", 2);
  EXPECT_TRUE(many.PixelsCrowd(640));
  EXPECT_TRUE(many.PixelsCrowd(640 + 1024));
  EXPECT_FALSE(many.PixelsCrowd(640 + 16));
  const FilterCut few = PlanOf("NHWC in=1,14,14,320 filter=1,1,320,32", 1);
  EXPECT_FALSE(few.PixelsCrowd(640));
  EXPECT_TRUE(few.PixelsCrowd(1024));
  const FilterCut strided = PlanOf("NHWC in=1,47,47,320 filter=1,1,320,32", 1,
                                   {.count = 1, .cols = 32}, FilterForm::kApart, "2,2");
  EXPECT_EQ(strided.InputDistance(), 640);
}

// A tile of one call reads its part of every pixel, which from beyond the caches stages read in
// order; planes lie in order for it.
TEST(FilterCut, TakesLargePixelsStageByStage) {
  const auto plan = [](const std::string& sizes, int64_t panels, FilterForm form) {
    return PlanOf(sizes, 1, {.count = panels, .cols = 32}, form);
  };
  const FilterCut cached =
      plan("NHWC in=1,30,30,1056 filter=1,1,1056,16", 33, FilterForm::kInputsApart);
  EXPECT_TRUE(cached.one_call);
  EXPECT_EQ(std::ssize(cached.stages), 1);
  const FilterCut large =
      plan("NHWC in=1,30,30,5152 filter=1,1,5152,16", 161, FilterForm::kInputsApart);
  EXPECT_FALSE(large.one_call);
  EXPECT_GT(std::ssize(large.stages), 1);
  EXPECT_TRUE(plan("NCHW in=1,5152,30,30 filter=1,1,5152,32", 1, FilterForm::kApart).one_call);
}

// One thread takes 1,280 pixels of NHWC in one call, for more of which a panel would leave the
// second-level cache before its last tile; two, which wait for each other in every stage, and
// planes up to 2,560.
TEST(FilterCut, TakesFewPixelsInOneCall) {
  const auto one_call = [](const std::string& sizes, int num_threads) {
    return PlanOf(sizes, num_threads).one_call;
  };
  EXPECT_TRUE(one_call("NHWC in=1,38,30,40 filter=1,1,40,32", 1));
  EXPECT_FALSE(one_call("NHWC in=1,38,31,40 filter=1,1,40,32", 1));
  EXPECT_TRUE(one_call("NHWC in=1,38,31,40 filter=1,1,40,32", 2));
  EXPECT_TRUE(one_call("NHWC in=1,62,38,40 filter=1,1,40,32", 2));
  EXPECT_FALSE(one_call("NHWC in=1,62,39,40 filter=1,1,40,32", 2));
  EXPECT_TRUE(one_call("NCHW in=1,40,62,38 filter=1,1,40,32", 1));
  EXPECT_FALSE(one_call("NCHW in=1,40,62,39 filter=1,1,40,32", 1));
  // A call takes 128 KiB of a panel of more pixels, 1,024 times 32 numbers.
  EXPECT_EQ(PlanOf("NHWC in=1,62,62,40 filter=1,1,40,32", 1).chunk_blocks, 4);
}

// Pixels a multiple of 2 KiB apart, 1,024 of them, crowd. Panels that twelve tiles read stay where
// they lie, and a call takes a chunk of them; those that 13 read are packed, and are one call.
TEST(FilterCut, TakesFewOfThePixelsThatCrowdInPlace) {
  const auto plan = [](int64_t in_c, int64_t out_c, FilterForm form, int64_t panels) {
    return PlanOf(fmt::format("NHWC in=1,30,30,{} filter=1,1,{},{}", in_c, in_c, out_c), 1,
                  {.count = panels, .cols = 32}, form);
  };
  const auto check = [&](int64_t rows, bool in_place, bool one_call) {
    const FilterCut apart = plan(rows, 512, FilterForm::kApart, 16);
    EXPECT_EQ(apart.UsesOutputInPlace(), in_place);
    EXPECT_EQ(apart.one_call, one_call);
    const FilterCut inputs = plan(512, rows, FilterForm::kInputsApart, 16);
    EXPECT_EQ(inputs.UsesInputInPlace(), in_place);
    EXPECT_EQ(inputs.one_call, one_call);
  };
  check(48, true, false);
  check(52, false, true);
  EXPECT_TRUE(plan(48, 544, FilterForm::kApart, 17).one_call);  // 128 bytes shared with a page
}

// Vectors that are lines take 1,024 pixels of a panel from the second-level cache, shorter ones
// blocks of 256 from the first.
TEST(FilterCut, TakesBlocksFromTheFirstCacheWithShortVectors) {
  const auto plan = [](bool vectors_are_lines) {
    return PlanOf("NHWC in=1,30,30,256 filter=1,1,256,96", 1, {.count = 4, .cols = 24},
                  FilterForm::kApart, "1,1", vectors_are_lines);
  };
  EXPECT_TRUE(plan(true).one_call);
  EXPECT_FALSE(plan(false).one_call);
  EXPECT_EQ(plan(false).chunk_blocks, 2);
}

// A stage of pixels, packed, is half as large with short vectors. A stage of planes is not.
TEST(FilterCut, TakesSmallStagesOfPixelsWithShortVectors) {
  const auto stages = [](const std::string& sizes, bool vectors_are_lines) {
    const FilterCut cut =
        PlanOf(sizes, 1, {.count = 3, .cols = 24}, FilterForm::kApart, "1,1", vectors_are_lines);
    return static_cast<double>(std::ssize(cut.stages));
  };
  const std::string pixels = "NHWC in=1,160,160,120 filter=1,1,120,72";
  EXPECT_NEAR(stages(pixels, false) / stages(pixels, true), 2, 0.1);
  const std::string planes = "NCHW in=1,120,160,160 filter=1,1,120,72";
  EXPECT_EQ(stages(planes, false), stages(planes, true));
}

// Pixels that stay where they are, within the caches: a run is a stage, and nothing is fetched for
// the next one. Memory, or packing, cuts runs, and what comes next is fetched; and the third-level
// cache does for short vectors, or where it is far. Pixels of up to 64 multiply-adds of vectors
// that are lines are never fetched, of up to 16 of others.
TEST(FilterCut, TakesWholeRunsFromTheCaches) {
  const auto check = [](const std::string& sizes, int64_t panels, bool cached,
                        bool vectors_are_lines = true, int64_t near_mib = 16, bool few = false) {
    const FilterCut cut = PlanOf(sizes, 1, {.count = panels, .cols = 32}, FilterForm::kApart, "1,1",
                                 vectors_are_lines, /*masks_columns=*/false, near_mib << 20);
    EXPECT_EQ(std::ssize(cut.stages) == cut.NumRuns(), cached);
    const Problem any = ParseProblem(
        "conv2d float32 NHWC in=1,1,1,1 filter=1,1,1,1 strides=1,1 dilations=1,1 pads=0,0,0,0 "
        "padding=EXPLICIT");
    const Parallel one_thread(1);
    const ConvArgs args{any,       nullptr, nullptr, nullptr, nullptr, SupportedKernels().front(),
                        one_thread};
    FilterGradientAhead ahead(args, cut, 4);
    ahead.Aim(cut.passes.front(), cut.stages.front());
    EXPECT_EQ(ahead.step() == 0, cached || few) << sizes;
  };
  check("NHWC in=1,160,160,8 filter=1,1,8,64", 2, true);
  check("NHWC in=1,160,160,8 filter=1,1,8,72", 3, false);
  check("NHWC in=1,320,320,20 filter=1,1,20,64", 2, false);
  check("NHWC in=1,320,320,16 filter=1,1,16,64", 2, false, /*vectors_are_lines=*/true, 16,
        /*few=*/true);
  check("NHWC in=1,160,160,4 filter=1,1,4,32", 1, false, /*vectors_are_lines=*/false, 16,
        /*few=*/true);
  check("NHWC in=1,160,160,8 filter=1,1,8,64", 2, false, /*vectors_are_lines=*/false);
  check("NHWC in=1,58,58,8 filter=1,1,8,64", 2, true, /*vectors_are_lines=*/false);
  check("NHWC in=1,160,160,20 filter=1,1,20,64", 2, false, /*vectors_are_lines=*/true, 7);
  check("NHWC in=1,100,100,8 filter=1,1,8,64", 2, true, /*vectors_are_lines=*/true, 3);
}

// 80 row blocks meet a panel. Six panels read rows where they lie, seven pack them.
TEST(FilterCut, PacksWhatCrowdsOrManyTilesMeet) {
  const auto plan = [](int64_t in_c, int64_t out_c) {
    return PlanOf(fmt::format("NHWC in=1,48,48,{} filter=1,1,{},{}", in_c, in_c, out_c), 2,
                  {.count = out_c / 32, .cols = 32});
  };
  EXPECT_FALSE(plan(320, 640).UsesOutputInPlace());
  EXPECT_TRUE(plan(320, 672).UsesOutputInPlace());
  EXPECT_TRUE(plan(320, 192).UsesInputInPlace());
  EXPECT_FALSE(plan(320, 224).UsesInputInPlace());
  EXPECT_FALSE(plan(384, 192).UsesInputInPlace());
}

// 16 rows of a vector are alike where tiles have 14 and 8, of half a vector they are not. With few
// registers tiles have no more than ten.
TEST(FilterCut, CutsRowsEvenly) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kAvx2) {
      EXPECT_EQ(TileRowsFor(kernels.gemm_f32, 40, 8), 10);
    }
    if (kernels.vector_bytes != 64) continue;
    EXPECT_EQ(TileRowsFor(kernels.gemm_f32, 16, 16), 8);
    EXPECT_EQ(TileRowsFor(kernels.gemm_f32, 144, 16), 14);
    EXPECT_EQ(TileRowsFor(kernels.gemm_f32, 16, 8), 14);
    EXPECT_EQ(TileRowsFor(kernels.gemm_f32, 32, 32), 12);
  }
}

// The last pass has pixels of 32 groups, 512 bytes and a line; the first one's, of 34, need none.
TEST(FilterCut, HasRoomForPixelsOfFewerGroupsThatAreFurtherApart) {
  const FilterCut plan = PlanOf("NHWC in=300,22,32,264 filter=22,32,4,2112", 1,
                                {.count = 1, .cols = 32}, FilterForm::kJoined);
  ASSERT_EQ(plan.passes.size(), 2);
  EXPECT_GT(plan.InputWidth(plan.passes.back()), plan.InputWidth(plan.passes.front()));
  for (const FilterCut::Pass& pass : plan.passes) {
    for (const PixelStage& stage : plan.stages) {
      const Slab grid = plan.GridSlab(stage);
      EXPECT_LE(grid.num_images() * grid.num_rows() * plan.cols.count * plan.InputWidth(pass),
                plan.most_elements.input);
    }
  }
}

// Two panels have 24 columns, whose 96 bytes of a pixel are no whole lines, or 32. Either operand's
// rows are 12 blocks of channels, or 13.
TEST(FilterCut, ReadsPanelsThatTearLinesInPlaceForFewTiles) {
  const auto in_place = [](const std::string& sizes, int64_t cols) {
    return PlanOf(sizes, 1, {.count = 2, .cols = cols}).UsesOutputInPlace();
  };
  EXPECT_TRUE(in_place("NHWC in=1,30,30,48 filter=1,1,48,48", 24));
  EXPECT_FALSE(in_place("NHWC in=1,30,30,52 filter=1,1,52,48", 24));
  EXPECT_TRUE(in_place("NHWC in=1,30,30,52 filter=1,1,52,64", 32));
  const auto input_in_place = [](const std::string& sizes, int64_t cols) {
    return PlanOf(sizes, 1, {.count = 2, .cols = cols}, FilterForm::kInputsApart)
        .UsesInputInPlace();
  };
  EXPECT_TRUE(input_in_place("NHWC in=1,30,30,48 filter=1,1,48,48", 24));
  EXPECT_FALSE(input_in_place("NHWC in=1,30,30,48 filter=1,1,48,52", 24));
  EXPECT_TRUE(input_in_place("NHWC in=1,30,30,64 filter=1,1,64,52", 32));
}

// Three panels of 24 columns: the last one has 16, or 20, which are no whole short vectors. With
// vectors that are lines it has to be as wide as the others.
TEST(FilterCut, ReadsALastPanelOfWholeVectorsInPlace) {
  const auto in_place = [](int64_t channels, FilterForm form, bool vectors_are_lines) {
    const bool inputs = FilterCut::PutsInputsInLanes(form);
    const FilterCut cut =
        PlanOf(fmt::format("NHWC in=1,30,30,{} filter=1,1,{},{}", inputs ? channels : 4,
                           inputs ? channels : 4, inputs ? 4 : channels),
               1, {.count = 3, .cols = 24}, form, "1,1", vectors_are_lines);
    return inputs ? cut.UsesInputInPlace() : cut.UsesOutputInPlace();
  };
  for (const FilterForm form : {FilterForm::kApart, FilterForm::kInputsApart}) {
    EXPECT_TRUE(in_place(64, form, false));
    EXPECT_FALSE(in_place(68, form, false));
    EXPECT_FALSE(in_place(64, form, true));
    EXPECT_TRUE(in_place(72, form, true));
  }
}

// Four groups of 24 and of 20 channels, panels of 32: read as far as they go where the kernel masks
// columns, else packed.
TEST(FilterCut, ReadsPanelsOfGroupsInPlaceByAMask) {
  const auto in_place = [](int64_t channels, FilterForm form, bool masks_columns) {
    const FilterCut cut =
        PlanOf(fmt::format("NHWC in=1,30,30,{0} filter=1,1,{1},{0}", 4 * channels, channels), 1,
               {.count = 1, .cols = 32}, form, "1,1", /*vectors_are_lines=*/true, masks_columns);
    return FilterCut::PutsInputsInLanes(form) ? cut.UsesInputInPlace() : cut.UsesOutputInPlace();
  };
  for (const FilterForm form : {FilterForm::kApart, FilterForm::kInputsApart}) {
    for (const int64_t channels : {int64_t{20}, int64_t{24}}) {
      EXPECT_TRUE(in_place(channels, form, true));
      EXPECT_FALSE(in_place(channels, form, false));
    }
  }
}

// AVX2 has no register for a mask.
TEST(FilterCut, MasksColumnsOfNumbersWithAvx512) {
  for (const KernelTable& kernels : SupportedKernels()) {
    const bool masks = kernels.isa == Isa::kAvx512;
    EXPECT_EQ(kernels.Gemm<float>().masks_columns, masks);
    EXPECT_EQ(kernels.Gemm<double>().masks_columns, masks);
  }
}

TEST(FilterCut, SharesCoverEveryRunAndEndWhereThreadsDo) {
  for (const int threads : {2, 3, 5}) {
    const FilterCut plan = PlanOf("NCHW in=23,3,28,28 filter=3,3,3,32", threads);
    ASSERT_TRUE(plan.deals_portions);
    const auto pass = plan.passes.front();
    const int64_t tiles = plan.TilesOf(pass);
    int64_t run = 0, tile = 0;
    const auto shares = plan.Shares(pass, 0, plan.NumRuns());
    for (const auto& share : shares) {
      EXPECT_EQ(share.portion, run);
      EXPECT_EQ(share.tile_begin, tile);
      EXPECT_GT(share.tile_end, tile);
      tile = share.tile_end % tiles;
      if (tile == 0) ++run;
    }
    EXPECT_EQ(run, plan.NumRuns());
    EXPECT_EQ(tile, 0);
    // 92 blocks: no thread's part ends with a run.
    EXPECT_EQ(static_cast<int64_t>(shares.size()), plan.NumRuns() + threads - 1);
  }
}

TEST(FilterCut, StagesOfDealtRunsAreTheirOwn) {
  const FilterCut plan = PlanOf("NHWC in=8,56,56,8 filter=3,3,8,32", 2);
  int64_t block = 0;
  for (int64_t run = 0; run < plan.NumRuns(); ++run) {
    for (const PixelStage& stage : plan.StagesOfPortion(run)) {
      EXPECT_EQ(stage.block_begin, block);
      EXPECT_EQ(stage.block_begin / kRunBlocks, run);
      EXPECT_EQ((stage.block_end - 1) / kRunBlocks, run);
      block = stage.block_end;
    }
  }
  EXPECT_EQ(block, static_cast<int64_t>(plan.blocks.size()));
}

// Stages of whole images repeat what their tiles meet, those of rows only with their image's rows.
TEST(FilterCut, StagesAreAlikeWhereTheirPixelsLieAlike) {
  const FilterCut images = PlanOf("NHWC in=64,28,28,8 filter=3,3,8,32", 2);
  ASSERT_GT(images.stages.size(), 2u);
  EXPECT_TRUE(images.Alike(images.stages[0], images.stages[1]));
  const FilterCut rows = PlanOf("NHWC in=16,56,56,64 filter=3,3,64,32", 2);
  const auto& stages = rows.stages;
  EXPECT_FALSE(rows.Alike(stages[0], stages[1]));
  // Seven runs are eight images.
  const size_t period = static_cast<size_t>(rows.StagesOfPortion(7).data() - stages.data());
  EXPECT_TRUE(rows.Alike(stages[0], stages[period]));
  EXPECT_TRUE(rows.Alike(stages[1], stages[period + 1]));
}

}  // namespace
}  // namespace convgrad::testing
