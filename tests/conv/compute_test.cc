// A prepared computation: run again and again into the same tensor, and what it refuses.
#include "conv/compute.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "support/operands.h"

namespace convgrad {
namespace {

constexpr const char* kLine =
    "conv2d_backprop_filter float32 NHWC in=2,7,9,3 filter=3,3,3,5 strides=1,1 dilations=1,1 "
    "pads=1,1,1,1 padding=SAME";

TEST(ComputationTest, RunsAgainIntoTheSameTensor) {
  const Problem problem = ParseProblem(kLine);
  const testing::Operands operands =
      testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
  const Tensor expected = Compute(problem, operands.first, operands.second, Execution{});
  Execution execution;
  execution.num_threads = 2;
  const Computation computation(problem, execution);
  EXPECT_EQ(computation.info().num_threads, 2);
  EXPECT_EQ(computation.info().algorithm, PlanRun(problem, execution).algorithm);
  Tensor result(problem.dtype, problem.ResultShape());
  const size_t bytes = static_cast<size_t>(result.num_bytes());
  for (int run = 0; run < 3; ++run) {
    std::memset(result.mutable_raw(), 0xFF, bytes);
    computation.Run(operands.first, operands.second, result);
    EXPECT_EQ(std::memcmp(result.raw(), expected.raw(), bytes), 0) << "run " << run;
  }
}

// Measurements may come to be known between two questions.
TEST(ComputationTest, AsksOnceWhatWasTuned) {
  const Problem problem = ParseProblem(kLine);
  for (const char* first : {"taps-apart", ""}) {
    int questions = 0;
    Execution execution;
    execution.tuned = [&](const Problem&, Isa, int) {
      return std::string(questions++ == 0 ? first : "taps-joined");
    };
    const RunInfo info = Computation(problem, execution).info();
    EXPECT_EQ(questions, 1);
    EXPECT_EQ(info.is_tuned, *first != 0);
    EXPECT_EQ(info.algorithm == first, info.is_tuned);
  }
}

TEST(ComputationTest, EmptySumsOverwriteTheResult) {
  const Problem problem = ParseProblem(
      "conv2d_backprop_filter float32 NHWC in=0,7,9,3 filter=3,3,3,5 strides=1,1 dilations=1,1 "
      "pads=1,1,1,1 padding=SAME");
  const testing::Operands operands =
      testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
  Tensor result(problem.dtype, problem.ResultShape());
  std::memset(result.mutable_raw(), 0xFF, static_cast<size_t>(result.num_bytes()));
  Computation(problem, Execution{}).Run(operands.first, operands.second, result);
  for (int64_t i = 0; i < result.num_elements(); ++i) ASSERT_EQ(result.data<float>()[i], 0);
}

TEST(ComputationTest, RefusesTensorsThatDoNotFit) {
  const Problem problem = ParseProblem(kLine);
  const testing::Operands operands =
      testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
  const Computation computation(problem, Execution{});
  const auto code_of = [&](const Tensor& first, const Tensor& second, Tensor result) {
    try {
      computation.Run(first, second, result);
    } catch (const Error& error) {
      return error.code();
    }
    return std::string("none");
  };
  const Tensor result(problem.dtype, problem.ResultShape());
  EXPECT_EQ(code_of(operands.first, operands.second, result), "none");
  EXPECT_EQ(code_of(operands.second, operands.first, result), "operand/mismatch");
  EXPECT_EQ(code_of(operands.first, operands.second, Tensor(DType::kFloat64, result.shape())),
            "operand/mismatch");
  EXPECT_EQ(code_of(operands.first, operands.second, Tensor(problem.dtype, {3, 3, 3, 4})),
            "operand/mismatch");
  const Tensor read_only(problem.dtype, result.shape(), std::make_shared<int>(), result.raw());
  EXPECT_EQ(code_of(operands.first, operands.second, read_only), "internal");
}

}  // namespace
}  // namespace convgrad
