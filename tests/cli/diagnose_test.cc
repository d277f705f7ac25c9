// Which diagnosis lets a doubtful result fail: a mistake does, arithmetic that may be meant does
// not.
#include "cli/case/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/arithmetic_testing.h"
#include "support/winograd_by_hand.h"

namespace convgrad::cli {
namespace {

using convgrad::testing::Layer;
using convgrad::testing::MakeLayer;
using convgrad::testing::Terms;
using ::testing::EndsWith;
using ::testing::Not;

// The comparison of `made` with the exact values, at odds that no tensor is below: what is unlikely
// by any order of summation is no more than suspect. Its diagnosis is added.
CheckResult Diagnosed(const Layer& layer, const Tensor& made) {
  const Parallel parallel(2);
  CaseSpec spec;
  spec.compare.odds = 0;
  const auto& [first, second] = layer.operands;
  CheckResult check = CompareToExact(layer.problem, first, second, made, spec.compare, parallel);
  EXPECT_EQ(check.status, Verdict::kSuspect) << check.reason;
  Doubted doubted = {layer.problem, first, second, {}, made, /*is_yours=*/true, INT64_MAX};
  AddDiagnosis(doubted, spec, parallel, check);
  return check;
}

constexpr const char* kByMistake = "; a usual mistake explains them all";

TEST(AddDiagnosis, FailsMistakes) {
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kFloat32, {2, 64, 64, 4}, {1, 1, 4, 4});
  const Tensor made = layer.Made(DType::kFloat32, [](const Terms& terms) {
    double sum = 0;
    for (const auto& term : terms) sum += kTf32Format.Rounded(term.x) * kTf32Format.Rounded(term.y);
    return sum;
  });
  const CheckResult check = Diagnosed(layer, made);
  ASSERT_TRUE(check.diagnosis);
  EXPECT_EQ(check.diagnosis->hypothesis, "operands-rounded");
  EXPECT_EQ(check.status, Verdict::kFailed);
  EXPECT_THAT(check.reason, EndsWith(kByMistake));
}

// Winograd's transforms add pixels that some element's own terms multiply by other taps: where
// those are large, its error is too, and no order of its sum explains it.
TEST(AddDiagnosis, LeavesWinogradToTheOdds) {
  Layer layer = MakeLayer(Op::kConv2D, DType::kFloat32, {2, 12, 12, 16}, {3, 3, 16, 12}, 6);
  const float large = 0x1p6F;
  const int64_t in_c = 16, row = 12 * in_c, out_c = 12;
  for (int64_t i = 0; i < layer.operands.first.num_elements(); ++i) {
    if (i % row / in_c % 4 == 1) layer.operands.first.mutable_data<float>()[i] *= large;
  }
  for (int64_t i = 0; i < layer.operands.second.num_elements(); ++i) {
    if (i / (in_c * out_c) % 3 == 1) layer.operands.second.mutable_data<float>()[i] /= large;
  }
  const auto keep = [](double value) { return static_cast<double>(static_cast<float>(value)); };
  const CheckResult check =
      Diagnosed(layer, convgrad::testing::WinogradByHand(layer, keep, 1).Run());
  ASSERT_TRUE(check.diagnosis);
  EXPECT_EQ(check.diagnosis->hypothesis, "winograd");
  EXPECT_EQ(check.status, Verdict::kSuspect);
  EXPECT_THAT(check.reason, Not(EndsWith(kByMistake)));
}

TEST(AddDiagnosis, LeavesMatrixUnitsToTheOdds) {
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kBFloat16, {2, 64, 64, 4}, {1, 1, 4, 4}, 3,
                /*one_signed=*/true);
  const CheckResult check =
      Diagnosed(layer, layer.Made(DType::kFloat32, convgrad::testing::MatrixUnit(4, 0)));
  ASSERT_TRUE(check.diagnosis);
  EXPECT_EQ(check.diagnosis->hypothesis, "truncated-sums");
  EXPECT_EQ(check.status, Verdict::kSuspect);
  EXPECT_THAT(check.reason, Not(EndsWith(kByMistake)));
}

}  // namespace
}  // namespace convgrad::cli
