// The algorithm "tap-rows" against the reference, bit for bit: blocks of images, of rows and of
// parts of rows, rows narrower than the filter, strides, dilations of rows, padding on every side,
// one panel and several, every type and target; and infinities beside the padding, which it does
// not multiply.
#include <gtest/gtest.h>

#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Problem lines; not every one has an output or is taken.
std::string DrawFewInputs(Draw& draw) {
  const bool nhwc = draw(0, 1) == 0;
  const int64_t kind = draw(0, 3);
  const int64_t batch = kind == 0 ? draw(20, 60) : draw(1, 3);
  const int64_t h = kind == 0 ? draw(1, 14) : draw(1, 40);
  const int64_t w = kind == 3 ? draw(260, 600) : draw(1, 40);
  const int64_t in_c = draw(0, 2) == 0 ? draw(2, 3) : 1;
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string("conv2d_backprop_filter ") + kTypes[draw(0, 3)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, in_c}) : ListOf({batch, in_c, h, w})) +
         " filter=" + ListOf({draw(1, 7), draw(1, 7), in_c, draw(9, 70)}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) + " dilations=" + ListOf({draw(1, 2), 1}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 9), draw(0, 9)}) + " padding=EXPLICIT";
}

class TapRows : public ::testing::TestWithParam<Values> {};

TEST_P(TapRows, OfFewInputChannels) {
  CheckOnRandomProblems("tap-rows", 150, 41, DrawFewInputs, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, TapRows, ::testing::Values(Values::kOrdinary, Values::kSpecial),
                         NameOfValues);

// Whole vectors of out_backprop, read where they lie, in several panels.
TEST(TapRowsOf, PanelsWhereTheyLie) {
  for (const char* type : {"float32", "float64"}) {
    const Problem problem = ParseProblem(std::string("conv2d_backprop_filter ") + type +
                                         " NHWC in=9,28,28,1 filter=5,5,1,128 strides=1,1 "
                                         "dilations=1,1 pads=2,2,2,2 padding=EXPLICIT");
    // Neon has vectors of two float64, with which other forms are counted quicker.
    if (problem.dtype == DType::kFloat64 && !Takes("tap-rows", problem)) continue;
    CheckAlgorithm("tap-rows", problem, RandomOperands(problem, 5, Values::kOrdinary));
  }
}

}  // namespace
}  // namespace convgrad::testing
