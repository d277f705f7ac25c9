// The algorithm "direct", above all in NHWC, against the reference, bit for bit, with about as many
// channels as the kernels take at a time: tensors of every type that are read and written where
// they lie, whose last channels and columns end in the middle of a group or a tile, on every
// target.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conv/depthwise/data/direct_calls.h"
#include "conv/depthwise/data/direct_cut.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// A problem line; one in a few has no output.
std::string DrawInPlace(Draw& draw) {
  constexpr const char* kOps[] = {"depthwise_conv2d", "depthwise_conv2d_backprop_input",
                                  "depthwise_conv2d_backprop_filter"};
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  // Groups of 4 to 32 channels; a few are whole.
  const int64_t channels = draw(0, 3) == 0 ? 8 * draw(1, 9) : draw(4, 75);
  // Most filters have one block.
  const int64_t kernel_h = draw(0, 9) == 0 ? 30 : draw(1, 5), kernel_w = draw(1, 10);
  const std::string op = kOps[draw(0, 2)];
  return op + " " + kTypes[draw(0, 3)] +
         " NHWC in=" + ListOf({draw(1, 3), draw(1, 12), draw(1, 25), channels}) +
         " filter=" + ListOf({kernel_h, kernel_w, channels, 1}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 2), draw(1, 3)}) +
         " pads=" + ListOf({draw(0, 5), draw(0, 5), draw(0, 9), draw(0, 9)}) + " padding=EXPLICIT";
}

class DepthwiseInPlaceOf : public ::testing::TestWithParam<Values> {};

TEST_P(DepthwiseInPlaceOf, RandomProblems) {
  CheckOnRandomProblems("direct", 250, 6, DrawInPlace, RandomOperands, GetParam());
}

// Sources and results of 18 MiB and more; results in whole lines are written around the caches.
TEST(DepthwiseInPlace, OfResultsThatLeaveTheCaches) {
  for (const char* const type : {"float32", "float64", "float16", "bfloat16"}) {
    for (const bool forward : {true, false}) {
      const int64_t images = (InfoOf(*ParseDType(type)).bytes < 4 ? 2 : 1) * (forward ? 1 : 2);
      const std::string op = forward ? "depthwise_conv2d " : "depthwise_conv2d_backprop_input ";
      const Problem problem =
          ParseProblem(op + type + " NHWC in=" + ListOf({images, 161, 159, 96}) +
                       " filter=3,3,96,1 strides=" + (forward ? "1,1" : "2,2") +
                       " dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
      CheckAlgorithm("direct", problem, RandomOperands(problem, 1, Values::kSpecial));
    }
  }
}

// Results in pixels that are no whole lines are written around the caches row by row, by several
// threads, too, from as many bytes on as this machine's last cache keeps, and some more.
TEST(DepthwiseInPlace, OfRowsThatLeaveTheCaches) {
  const int64_t bytes = SupportedKernels().front().last_cache_bytes + (int64_t{4} << 20);
  for (const char* const type : {"float32", "float64", "float16", "bfloat16"}) {
    for (const bool forward : {true, false}) {
      const int64_t images = forward ? 1 : 2, of_number = InfoOf(*ParseDType(type)).bytes;
      const int64_t channels = 208 / of_number | 1;
      const int64_t rows = bytes / (2 * 159 * channels * of_number) + 1;
      const std::string op = forward ? "depthwise_conv2d " : "depthwise_conv2d_backprop_input ";
      const Problem problem = ParseProblem(
          op + type + " NHWC in=" + ListOf({images, rows, 159, channels}) + " filter=1,3," +
          ListOf({channels, 1}) + " strides=" + (forward ? "1,1" : "2,3") +
          " dilations=1,1 pads=0,0,1,1 padding=EXPLICIT");
      CheckAlgorithm("direct", problem, RandomOperands(problem, 1, Values::kSpecial));
    }
  }
}

// Rows of 256 KiB and less, of two tensors that together leave the caches.
TEST(DepthwiseInPlace, StreamsRowsOfPixelsThatAreNoWholeLines) {
  for (KernelTable kernels : SupportedKernels()) {
    kernels.last_cache_bytes = int64_t{12} << 20;
    const bool has_vectors = kernels.vector_bytes >= 16;
    const auto streams = [&](int64_t rows, int64_t cols, int64_t channels, int num_threads = 1) {
      const Problem problem = ParseProblem(
          "depthwise_conv2d float32 NHWC in=" + ListOf({1, rows, cols, channels}) + " filter=1,5," +
          ListOf({channels, 1}) + " strides=1,1 dilations=1,1 pads=0,0,2,2 padding=EXPLICIT");
      return DepthwiseDataCut(problem, kernels, num_threads).streams_rows;
    };
    EXPECT_EQ(streams(86, 640, 24), has_vectors);
    EXPECT_FALSE(streams(84, 640, 24)) << "below 10 MiB";
    EXPECT_FALSE(streams(86, 640, 24, 2));
    kernels.last_cache_bytes *= 2;
    EXPECT_FALSE(streams(120, 640, 24)) << "a larger cache";
    kernels.last_cache_bytes /= 2;
    EXPECT_EQ(streams(120, 640, 24, 2), has_vectors);
    EXPECT_FALSE(streams(86, 640, 32)) << "whole lines";
    EXPECT_EQ(streams(32, 1638, 40), has_vectors);
    EXPECT_FALSE(streams(32, 1639, 40)) << "above 256 KiB";
  }
}

// Pixels a multiple of 1 to 4 KiB apart, which are copied if filters have rows enough.
std::string DrawCrowdedPixels(Draw& draw) {
  constexpr const char* kOps[] = {"depthwise_conv2d ", "depthwise_conv2d_backprop_input "};
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const char* const type = kTypes[draw(0, 3)];
  const int64_t channels = (1024 << draw(0, 2)) / InfoOf(*ParseDType(type)).bytes;
  return kOps[draw(0, 1)] + std::string(type) +
         " NHWC in=" + ListOf({draw(1, 2), draw(1, 9), draw(1, 12), channels}) +
         " filter=" + ListOf({draw(3, 8), draw(1, 9), channels, 1}) +
         " strides=" + ListOf({draw(1, 2), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 2), draw(1, 2)}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 4), draw(0, 4)}) + " padding=EXPLICIT";
}

TEST(DepthwiseInPlace, CopiesCrowdedPixelsOfEnoughRows) {
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kScalar) continue;
    kernels.first_cache_bytes = int64_t{48} << 10;
    const auto copies = [&](int64_t kernel, int64_t channels, int64_t stride = 1) {
      const Problem problem =
          ParseProblem("depthwise_conv2d float32 NHWC in=" + ListOf({1, 20, 20, channels}) +
                       " filter=" + ListOf({kernel, kernel, channels, 1}) + " strides=" +
                       ListOf({stride, stride}) + " dilations=1,1 pads=3,3,3,3 padding=EXPLICIT");
      return !DepthwiseDataCut(problem, kernels, 1).source_in_place;
    };
    EXPECT_FALSE(copies(6, 256));
    EXPECT_TRUE(copies(7, 256));
    EXPECT_FALSE(copies(4, 768)) << "too far apart to be fetched";
    EXPECT_TRUE(copies(5, 768));
    EXPECT_FALSE(copies(5, 768, 2));
    EXPECT_TRUE(copies(4, 512));
    EXPECT_FALSE(copies(7, 272));
    EXPECT_TRUE(copies(3, 1024));
    EXPECT_FALSE(copies(5, 1024, 2));
    kernels.first_cache_bytes = int64_t{32} << 10;  // sets of eight lines
    EXPECT_TRUE(copies(5, 1024, 2));
    EXPECT_FALSE(copies(4, 1024, 2));
    EXPECT_FALSE(copies(5, 512, 2));
  }
}

TEST_P(DepthwiseInPlaceOf, RandomProblemsOfCrowdedPixels) {
  CheckOnRandomProblems("direct", 40, 11, DrawCrowdedPixels, RandomOperands, GetParam());
}

// 3x3 filters whose rows of results are made together, and their neighbours that are not; filter
// gradients that take one vector of channels after the other, and such that don't.
std::string DrawAllRows(Draw& draw) {
  constexpr const char* kOps[] = {"depthwise_conv2d ", "depthwise_conv2d_backprop_input ",
                                  "depthwise_conv2d_backprop_filter "};
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const int64_t channels = draw(0, 1) == 0 ? 16 * draw(1, 12) : draw(16, 150);
  const int64_t stride = draw(1, 2);
  return kOps[draw(0, 2)] + std::string(kTypes[draw(0, 3)]) +
         " NHWC in=" + ListOf({draw(1, 3), draw(3, 24), draw(6, 40), channels}) +
         " filter=" + ListOf({3, 3, channels, 1}) + " strides=" + ListOf({stride, stride}) +
         " dilations=1,1 pads=" + ListOf({draw(0, 3), draw(0, 3), draw(0, 2), draw(0, 2)}) +
         " padding=EXPLICIT";
}

TEST_P(DepthwiseInPlaceOf, RandomProblemsOfAllRows) {
  CheckOnRandomProblems("direct", 225, 9, DrawAllRows, RandomOperands, GetParam());
}

// Fewer channels than a vector has, in images many enough and of rows few enough for calls to serve
// the next image's.
std::string DrawNarrowPixels(Draw& draw) {
  constexpr const char* kOps[] = {"depthwise_conv2d ", "depthwise_conv2d_backprop_input "};
  constexpr const char* kTypes[] = {"float32", "float64", "float32", "bfloat16"};
  const int64_t channels = draw(1, 17), kernel = draw(0, 1) == 0 ? 3 : draw(1, 7);
  const int64_t stride = draw(1, 3), w = draw(0, 2) == 0 ? draw(1, 5) : draw(6, 20);
  return kOps[draw(0, 1)] + std::string(kTypes[draw(0, 3)]) + " NHWC in=" +
         ListOf({draw(0, 1) == 0 ? draw(1, 3) : draw(8, 10), draw(1, 12), w, channels}) +
         " filter=" + ListOf({kernel, draw(0, 1) == 0 ? kernel : draw(1, 9), channels, 1}) +
         " strides=" + ListOf({stride, draw(0, 2) == 0 ? draw(1, 3) : stride}) +
         " dilations=" + ListOf({draw(1, 4) / 3 + 1, 1}) +
         " pads=" + ListOf({draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)}) + " padding=EXPLICIT";
}

TEST_P(DepthwiseInPlaceOf, RandomProblemsOfNarrowPixels) {
  CheckOnRandomProblems("direct", 250, 12, DrawNarrowPixels, RandomOperands, GetParam());
}

// Numbers that need not be widened, of two channels or more, where a vector that begins with the
// last pixel of a row ends before the end of the next row.
TEST(DepthwiseInPlace, ReadsNarrowPixelsWhereTheyLie) {
  for (const KernelTable& kernels : SupportedKernels()) {
    const int64_t lanes = kernels.depthwise_f32.lanes;
    const auto narrow = [&](const std::string& type, int64_t cols, int64_t channels) {
      const Problem problem =
          ParseProblem("depthwise_conv2d " + type + " NHWC in=" + ListOf({2, 9, cols, channels}) +
                       " filter=3,3," + ListOf({channels, 1}) +
                       " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
      return DepthwiseDataCut(problem, kernels, 1).narrow_pixels;
    };
    if (lanes < 4) continue;
    EXPECT_FALSE(narrow("float32", 20, 1));
    EXPECT_TRUE(narrow("float32", 20, 2));
    EXPECT_TRUE(narrow("float32", 20, lanes - 1));
    EXPECT_FALSE(narrow("float32", 20, lanes));
    EXPECT_TRUE(narrow("float32", lanes / 2 - 1, 2));
    EXPECT_EQ(narrow("float32", 1, 2), lanes == 4);
    EXPECT_FALSE(narrow("bfloat16", 20, 2));
  }
}

// Calls that were found for a row serve another one with the same taps, and no other: what is not
// looked at then stays as it is.
TEST(DepthwiseInPlace, MovesCallsToRowsOfTheSameTaps) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d float32 NHWC in=2,9,20,16 filter=5,3,16,1 strides=1,1 dilations=1,1 "
      "pads=2,2,1,1 padding=EXPLICIT");
  const DepthwiseDataCut cut(problem, SupportedKernels().front(), 1);
  if (!cut.source_in_place) GTEST_SKIP() << "no vectors";
  const std::vector<float> source(2 * 9 * 20 * 16), filter(5 * 3 * 16);
  RowPlace<float> place = {};
  place.cols = &cut.cols_of.front();
  place.channels = 16;
  place.source = source.data();
  place.row_size = 20 * 16;
  place.pixel_size = 16;
  place.filter = filter.data();
  place.result_pixel_size = 16;
  RowCallFinder<float> finder(cut, place);
  RowCalls<float> calls;
  const auto moved = [&](int64_t row) {
    constexpr int64_t kMark = 42;
    if (!calls.lines.empty()) calls.lines.front().row.out_stride = kMark;
    finder.Find(row, &calls);
    RowCalls<float> fresh;
    finder.Find(row, &fresh);
    const auto& segments = calls.lines.front().segments;
    const auto& expected = fresh.lines.front().segments;
    EXPECT_EQ(segments.size(), expected.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      EXPECT_EQ(segments[i].source, expected[i].source);
      EXPECT_EQ(segments[i].filter, expected[i].filter);
    }
    return calls.lines.front().row.out_stride == kMark;
  };
  EXPECT_FALSE(moved(0));
  EXPECT_FALSE(moved(1));
  EXPECT_FALSE(moved(2));
  EXPECT_TRUE(moved(3));
  EXPECT_TRUE(moved(6));
  EXPECT_FALSE(moved(7));
  place.source += 9 * 20 * 16;
  EXPECT_TRUE(moved(7));
  place.last_row = source.data();  // which row 7 reads
  EXPECT_FALSE(moved(7));
  EXPECT_FALSE(moved(6));
}

// Rows of one phase have the same taps; of a few rows, most of which meet padding, those of images.
TEST(DepthwiseInPlace, FindsRowsOfTheSameTaps) {
  const auto apart = [](const std::string& op, int64_t images, int64_t rows, int64_t stride) {
    const Problem problem = ParseProblem(op + " float32 NHWC in=" + ListOf({images, rows, 20, 16}) +
                                         " filter=5,5,16,1 strides=" + ListOf({stride, stride}) +
                                         " dilations=1,1 pads=2,2,2,2 padding=EXPLICIT");
    return DepthwiseDataCut(problem, SupportedKernels().front(), 1).RowsApart();
  };
  EXPECT_EQ(apart("depthwise_conv2d", 1, 30, 2), 1);
  EXPECT_EQ(apart("depthwise_conv2d_backprop_input", 1, 30, 1), 1);
  EXPECT_EQ(apart("depthwise_conv2d_backprop_input", 1, 30, 2), 2);
  EXPECT_EQ(apart("depthwise_conv2d_backprop_input", 1, 30, 9), 4);
  EXPECT_EQ(apart("depthwise_conv2d", 7, 10, 1), 1);
  EXPECT_EQ(apart("depthwise_conv2d", 8, 10, 1), 10);
  EXPECT_EQ(apart("depthwise_conv2d", 8, 11, 1), 1);
}

// Planes that go through strips, whole chunks of them in every image or not.
std::string DrawPlanesLine(Draw& draw) {
  constexpr const char* kOps[] = {"depthwise_conv2d", "depthwise_conv2d_backprop_input"};
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const int64_t channels = draw(0, 2) == 0 ? draw(1, 40) : 16 * draw(1, 8);
  const std::string op = kOps[draw(0, 1)];
  return op + " " + kTypes[draw(0, 3)] +
         " NCHW in=" + ListOf({draw(1, 4), channels, draw(1, 9), draw(1, 9)}) +
         " filter=" + ListOf({draw(1, 5), draw(1, 5), channels, draw(1, 2)}) +
         " strides=" + ListOf({draw(1, 2), draw(1, 2)}) +
         " dilations=1,1 pads=" + ListOf({draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)}) +
         " padding=EXPLICIT";
}

TEST_P(DepthwiseInPlaceOf, RandomProblemsOfPlanes) {
  CheckOnRandomProblems("direct", 150, 7, DrawPlanesLine, RandomOperands, GetParam());
}

// Strips of pixels that hold the outputs of a channel side by side, whose columns a dilation parts,
// and whose weights serve several images.
std::string DrawMultiplierLine(Draw& draw) {
  constexpr const char* kOps[] = {"depthwise_conv2d", "depthwise_conv2d_backprop_input"};
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const int64_t channels = draw(0, 2) == 0 ? draw(60, 150) : draw(1, 40);
  const std::string op = kOps[draw(0, 3) == 0 ? 0 : 1];
  return op + " " + kTypes[draw(0, 3)] +
         " NHWC in=" + ListOf({draw(1, 4), draw(1, 9), draw(1, 30), channels}) +
         " filter=" + ListOf({draw(1, 4), draw(1, 9), channels, draw(2, 4)}) +
         " strides=" + ListOf({draw(1, 2), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 2), draw(1, 5)}) +
         " pads=" + ListOf({draw(0, 5), draw(0, 5), draw(0, 12), draw(0, 12)}) +
         " padding=EXPLICIT";
}

TEST_P(DepthwiseInPlaceOf, RandomProblemsOfMultipliers) {
  CheckOnRandomProblems("direct", 150, 8, DrawMultiplierLine, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, DepthwiseInPlaceOf,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

}  // namespace
}  // namespace convgrad::testing
