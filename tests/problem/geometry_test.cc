// MakeProblem's refusals, with which class of error; in which words is in misfit_test.cc, what it
// accepts in definition_test.cc and tf_cases_test.cc.
#include "problem/geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace convgrad {
namespace {

// The error of a spec, whole. Fails when there is none.
Error ErrorOf(const ConvSpec& spec) {
  try {
    ADD_FAILURE() << "not refused: " << MakeProblem(spec).ToLine();
  } catch (const Error& error) {
    return error;
  }
  return Error(ExitCode::kOk, "", "", "");
}

// A legal spec of any op: input [2,8,7,6], filter [3,2,6,4] or depthwise [3,2,6,2], SAME, strides
// 2,1: output [2,4,7,4] or [2,4,7,12].
ConvSpec LegalSpec(Op op) {
  const OpInfo& info = InfoOf(op);
  const Shape input = {2, 8, 7, 6};
  const Shape filter = {3, 2, 6, info.depthwise ? 2 : 4};
  ConvSpec spec;
  spec.op = op;
  spec.strides = {1, 2, 1, 1};
  if (info.direction != Direction::kBackpropInput) spec.input = input;
  if (info.direction != Direction::kBackpropFilter) spec.filter = filter;
  if (info.direction != Direction::kForward) {
    spec.out_backprop = Shape{2, 4, 7, info.depthwise ? 12 : 4};
  }
  if (info.direction == Direction::kBackpropInput) spec.input_sizes = Sizes{input};
  if (info.direction == Direction::kBackpropFilter) spec.filter_sizes = Sizes{filter};
  return spec;
}

Shape& InputOf(ConvSpec& spec) {
  return spec.input ? *spec.input : spec.input_sizes->values;
}
Shape& FilterOf(ConvSpec& spec) {
  return spec.filter ? *spec.filter : spec.filter_sizes->values;
}

class EveryOp : public ::testing::TestWithParam<Op> {
 protected:
  const OpInfo& info_ = InfoOf(GetParam());
  ConvSpec spec_ = LegalSpec(GetParam());

  void ExpectRefused(ExitCode exit_code, const char* code) const {
    const Error error = ErrorOf(spec_);
    EXPECT_EQ(error.exit_code(), exit_code) << error.message();
    EXPECT_EQ(error.code(), code) << error.message();
  }
  // Tries one change of the legal spec.
  void ExpectRefused(const std::function<void(ConvSpec&)>& change, ExitCode exit_code,
                     const char* code) {
    spec_ = LegalSpec(GetParam());
    change(spec_);
    ExpectRefused(exit_code, code);
  }
};

INSTANTIATE_TEST_SUITE_P(Geometry, EveryOp,
                         ::testing::Values(Op::kConv2DBackpropFilter, Op::kConv2DBackpropInput,
                                           Op::kDepthwiseConv2DBackpropFilter,
                                           Op::kDepthwiseConv2DBackpropInput, Op::kConv2D,
                                           Op::kDepthwiseConv2D),
                         [](const auto& test) { return std::string(InfoOf(test.param).name); });

TEST_P(EveryOp, TakesTheLegalSpec) {
  const Problem problem = MakeProblem(spec_);
  EXPECT_EQ(problem.InputShape(), (Shape{2, 8, 7, 6}));
  EXPECT_EQ(problem.OutputShape(), (Shape{2, 4, 7, info_.depthwise ? 12 : 4}));
  EXPECT_EQ(problem.geometry.pad_top, 0);
  EXPECT_EQ(problem.geometry.pad_bottom, 1);
  EXPECT_EQ(problem.geometry.pad_left, 0);
  EXPECT_EQ(problem.geometry.pad_right, 1);
}

TEST_P(EveryOp, RefusesStridesAndDilations) {
  const std::vector<std::vector<int64_t>> illegal = {{},
                                                     {1, 2, 1},
                                                     {1, 1, 1, 1, 1},
                                                     {1, 1, 1, 1, 1, 1},  // lengths
                                                     {2, 1, 1, 1},
                                                     {1, 1, 1, 2},
                                                     {0, 1, 1, 1},
                                                     {2, 2, 2, 2},  // batch or channels
                                                     {0},
                                                     {-1},
                                                     {1, 0},
                                                     {0, 1},
                                                     {1, 0, 1, 1},
                                                     {1, 1, -7, 1},  // not positive
                                                     {kMaxDimension + 1},
                                                     {1, INT64_MAX},
                                                     {INT64_MIN},
                                                     {1, INT64_MAX, INT64_MAX, 1}};  // too large
  for (const std::vector<int64_t>& values : illegal) {
    SCOPED_TRACE(ToString(values));
    ExpectRefused([&](ConvSpec& spec) { spec.strides = values; }, ExitCode::kUsage,
                  "attribute/strides");
    ExpectRefused([&](ConvSpec& spec) { spec.dilations = values; }, ExitCode::kUsage,
                  "attribute/dilations");
  }
}

TEST_P(EveryOp, RefusesExplicitPaddings) {
  const std::vector<std::vector<int64_t>> illegal = {{},
                                                     {1},
                                                     {1, 1},
                                                     {1, 1, 1, 1, 1, 1, 1},
                                                     {0, 0, 1, 1, 1, 1, 0, 0, 0},
                                                     {-1, 0, 0, 0},
                                                     {0, 0, 1, 1, 1, -1, 0, 0},
                                                     {1, 0, 1, 1, 1, 1, 0, 0},
                                                     {0, 0, 1, 1, 1, 1, 0, 1},
                                                     {0, 0, 0, kMaxDimension + 1},
                                                     {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
  for (const std::vector<int64_t>& values : illegal) {
    SCOPED_TRACE(ToString(values));
    const auto change = [&](ConvSpec& spec) {
      spec.padding = Padding::kExplicit;
      spec.explicit_paddings = values;
    };
    ExpectRefused(change, ExitCode::kUsage, "attribute/explicit_paddings");
  }
  ExpectRefused(
      [](ConvSpec& spec) {
        spec.explicit_paddings = {0, 0, 0, 0};
      },
      ExitCode::kUsage, "attribute/explicit_paddings");
}

TEST_P(EveryOp, RefusesRanksOtherThanFour) {
  for (const Shape& shape :
       {Shape{}, Shape{4}, Shape{4, 4}, Shape{4, 4, 4}, Shape{1, 4, 4, 4, 1}, Shape(100'000, 1)}) {
    for (const Role role : info_.operands) {
      const auto change = [&](ConvSpec& spec) {
        (role == Role::kInput    ? spec.input
         : role == Role::kFilter ? spec.filter
                                 : spec.out_backprop) = shape;
      };
      ExpectRefused(change, ExitCode::kData, "shape/rank");
    }
  }
}

TEST_P(EveryOp, RefusesSizesTheFormOfWhichIsWrong) {
  if (!info_.sizes_flag) return;
  struct Malformed {
    std::vector<int64_t> values;
    const char* code;
  };
  const std::vector<Malformed> malformed = {
      {{}, "sizes/length"},
      {{4}, "sizes/length"},
      {{4, 4, 4}, "sizes/length"},
      {{4, 4, 4, 4, 4}, "sizes/length"},
      {std::vector<int64_t>(13, 1879048192), "sizes/length"},
      {std::vector<int64_t>(100'000, 1), "sizes/length"},
      {{2, 8, 7, -6}, "sizes/negative"},
      {{INT64_MIN, 8, 7, 6}, "sizes/negative"},
      {{2, 8, 7, kMaxDimension + 1}, "sizes/too-large"},
      {{int64_t{1} << 12, int64_t{1} << 12, int64_t{1} << 12, int64_t{1} << 12}, "sizes/too-large"},
      {{0, kMaxDimension, kMaxDimension, kMaxDimension}, "sizes/too-large"}};
  for (const Malformed& bad : malformed) {
    for (const bool from_file : {false, true}) {
      const auto change = [&](ConvSpec& spec) {
        Sizes& sizes = spec.input_sizes ? *spec.input_sizes : *spec.filter_sizes;
        sizes = {bad.values, from_file};
      };
      ExpectRefused(change, from_file ? ExitCode::kData : ExitCode::kUsage, bad.code);
    }
  }
}

TEST_P(EveryOp, TakesSizesOfTwoForTheConv2DInputGradientOnly) {
  if (!info_.sizes_flag) return;
  Sizes& sizes = spec_.input_sizes ? *spec_.input_sizes : *spec_.filter_sizes;
  sizes.values = {8, 7};
  if (GetParam() != Op::kConv2DBackpropInput) {
    ExpectRefused(ExitCode::kUsage, "sizes/length");
    return;
  }
  EXPECT_EQ(MakeProblem(spec_).ResultShape(), (Shape{2, 8, 7, 6}));
  spec_.data_format = DataFormat::kNCHW;
  spec_.strides = {2, 1};
  spec_.out_backprop = Shape{2, 4, 4, 7};
  EXPECT_EQ(MakeProblem(spec_).ResultShape(), (Shape{2, 6, 8, 7}));
  sizes.values = {8, -7};
  ExpectRefused(ExitCode::kUsage, "sizes/negative");
  sizes.values = {int64_t{1} << 23,
                  int64_t{1} << 24};  // with 2 images and 6 channels, 2^50 and more
  ExpectRefused(ExitCode::kUsage, "sizes/too-large");
}

TEST_P(EveryOp, RefusesShapesThatDoNotFitTogether) {
  const bool forward = info_.direction == Direction::kForward;
  const auto refused = [&](const char* code, const std::function<void(ConvSpec&)>& change) {
    ExpectRefused(change, ExitCode::kData, code);
  };
  refused("shape/channels", [](ConvSpec& spec) { InputOf(spec)[3] = 7; });
  refused("shape/channels", [](ConvSpec& spec) { FilterOf(spec)[2] = 5; });
  if (!info_.depthwise) {
    refused("shape/channels", [](ConvSpec& spec) { FilterOf(spec)[2] = 0; });
    refused("shape/groups", [](ConvSpec& spec) { FilterOf(spec)[2] = 2; });  // 4 / 3 groups
  } else {
    // A divisor makes groups for conv2d only.
    refused("shape/channels", [](ConvSpec& spec) { FilterOf(spec)[2] = 3; });
  }
  refused("shape/window", [](ConvSpec& spec) {
    spec.padding = Padding::kValid;
    FilterOf(spec)[0] = 12;  // 8 + 2 * stride
  });
  if (forward) return;
  refused("shape/batch", [](ConvSpec& spec) { (*spec.out_backprop)[0] = 3; });
  refused("shape/batch", [](ConvSpec& spec) { InputOf(spec)[0] = 0; });
  for (const int axis : {1, 2, 3}) {
    for (const int64_t difference : {-1, 1}) {
      refused("shape/out-backprop",
              [&](ConvSpec& spec) { (*spec.out_backprop)[axis] += difference; });
    }
  }
  // Also when nothing would be computed.
  refused("shape/out-backprop", [](ConvSpec& spec) {
    InputOf(spec)[0] = (*spec.out_backprop)[0] = 0;
    (*spec.out_backprop)[1] = 5;
  });
}

TEST_P(EveryOp, RefusesWhatIsTooLarge) {
  for (const Role role : info_.operands) {
    for (const Shape& shape : {Shape{1, kMaxDimension + 1, 1, 1}, Shape{1, 1 << 24, 1 << 24, 1},
                               Shape{INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
                               Shape{0, kMaxDimension, kMaxDimension, kMaxDimension}}) {
      const auto change = [&](ConvSpec& spec) {
        (role == Role::kInput    ? spec.input
         : role == Role::kFilter ? spec.filter
                                 : spec.out_backprop) = shape;
      };
      ExpectRefused(change, ExitCode::kData, "shape/too-large");
    }
  }
}

TEST_P(EveryOp, RefusesOperandsItDoesNotTake) {
  for (const Role role : info_.operands) {
    const auto change = [&](ConvSpec& spec) {
      (role == Role::kInput    ? spec.input
       : role == Role::kFilter ? spec.filter
                               : spec.out_backprop)
          .reset();
    };
    ExpectRefused(change, ExitCode::kUsage, "operand/missing");
  }
  ExpectRefused(
      [](ConvSpec& spec) {
        spec.input = spec.filter = spec.out_backprop = Shape{1, 1, 1, 1};
      },
      ExitCode::kUsage, "operand/unexpected");
  ExpectRefused(
      [](ConvSpec& spec) {
        spec.input_sizes = spec.filter_sizes = Sizes{{1, 1, 1, 1}};
      },
      ExitCode::kUsage, "operand/unexpected");
  if (info_.sizes_flag) {
    const auto change = [](ConvSpec& spec) { spec.input_sizes = spec.filter_sizes = std::nullopt; };
    ExpectRefused(change, ExitCode::kUsage, "operand/missing");
  }
}

TEST_P(EveryOp, RefusesIntegers) {
  ExpectRefused([](ConvSpec& spec) { spec.dtype = DType::kInt32; }, ExitCode::kData,
                "dtype/unsupported");
}

TEST_P(EveryOp, NamesAttributesBeforeShapes) {
  const auto change = [&](ConvSpec& spec) {
    spec.strides = {1, 2};
    spec.dilations = {0};
    (info_.operands[0] == Role::kInput ? spec.input : spec.filter) = Shape{};
  };
  ExpectRefused(change, ExitCode::kUsage, "attribute/dilations");
}

TEST_P(EveryOp, TakesShortFormsAndBothLayouts) {
  spec_.strides = {2, 1};
  const Problem problem = MakeProblem(spec_);
  spec_.strides = {1, 2, 1, 1};
  EXPECT_EQ(MakeProblem(spec_).ToLine(), problem.ToLine());

  spec_.padding = Padding::kExplicit;
  spec_.explicit_paddings = {0, 1, 0, 1};
  const std::string line = MakeProblem(spec_).ToLine();
  spec_.explicit_paddings = {0, 0, 0, 1, 0, 1, 0, 0};
  EXPECT_EQ(MakeProblem(spec_).ToLine(), line);

  const auto to_nchw = [](Shape& shape) { shape = {shape[0], shape[3], shape[1], shape[2]}; };
  spec_.data_format = DataFormat::kNCHW;
  spec_.strides = {1, 1, 2, 1};
  spec_.explicit_paddings = {0, 0, 0, 0, 0, 1, 0, 1};
  if (spec_.input) to_nchw(*spec_.input);
  if (spec_.input_sizes) to_nchw(spec_.input_sizes->values);
  if (spec_.out_backprop) to_nchw(*spec_.out_backprop);
  const Problem nchw = MakeProblem(spec_);
  EXPECT_EQ(nchw.ValidTerms(), problem.ValidTerms());
  EXPECT_EQ(nchw.geometry.stride_h, 2);
  EXPECT_EQ(nchw.InputShape(), (Shape{2, 6, 8, 7}));
}

}  // namespace
}  // namespace convgrad
