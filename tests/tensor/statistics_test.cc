// The counts and the range that `inspect` shows.
#include "tensor/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/operands.h"

namespace convgrad {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
TensorStatistics Of(DType dtype, const std::vector<T>& values) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_data<T>());
  return ComputeStatistics(tensor);
}

TEST(StatisticsTest, CountsSpecialValues) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float inf = std::numeric_limits<float>::infinity();
  const auto s =
      Of<float>(DType::kFloat32, {1, -0.0f, tiny, -tiny, inf, inf, -inf, NAN, 3, 0x1p-126f});
  EXPECT_EQ(s.nan, 1);
  EXPECT_EQ(s.positive_infinity, 2);
  EXPECT_EQ(s.negative_infinity, 1);
  EXPECT_EQ(s.subnormal, 2);
  EXPECT_EQ(s.zero, 1);
  EXPECT_EQ(s.finite, 6);
  EXPECT_EQ(s.min, -tiny);
  EXPECT_EQ(s.max, 3);
  EXPECT_EQ(s.mean, (4 + 0x1p-126) / 6);
}

TEST(StatisticsTest, SubnormalIsAMatterOfTheType) {
  EXPECT_EQ(Of<Float16>(DType::kFloat16, {{0x0001}, {0x03FF}, {0x0400}}).subnormal, 2);
  EXPECT_EQ(Of<BFloat16>(DType::kBFloat16, {{0x0001}, {0x007F}, {0x0080}}).subnormal, 2);
  EXPECT_EQ(Of<double>(DType::kFloat64, {0x1p-1022, 0x1p-1023}).subnormal, 1);
  EXPECT_EQ(Of<float>(DType::kFloat32, {0x1p-14f, 0x1p-30f}).subnormal, 0);
}

TEST(StatisticsTest, MeanLosesNothing) {
  std::vector<double> values(10001, 1);
  values[0] = 1e16;
  values[10000] = -1e16;
  EXPECT_EQ(Of<double>(DType::kFloat64, values).mean, 9999.0 / 10001);
}

TEST(StatisticsTest, Integers) {
  const auto s = Of<int64_t>(DType::kInt64, {3, 3, -32, 0});
  EXPECT_EQ(s.min, -32);
  EXPECT_EQ(s.max, 3);
  EXPECT_EQ(s.mean, -6.5);
  EXPECT_EQ(s.zero, 1);
  EXPECT_EQ(s.subnormal, 0);
}

TEST(StatisticsTest, WithoutFiniteValuesThereIsNoRange) {
  EXPECT_TRUE(std::isnan(Of<float>(DType::kFloat32, {}).min));
  const auto s = Of<double>(DType::kFloat64, {kInf, -kInf});
  EXPECT_TRUE(std::isnan(s.mean));
  EXPECT_TRUE(std::isnan(s.max));
  EXPECT_EQ(s.infinite(), 2);
}

// The fast counts against the slow ones, on values that are special more often than not and end in
// the middle of a block.
TEST(StatisticsTest, CountsAloneAreTheSame) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    SCOPED_TRACE(InfoOf(dtype).name);
    const Tensor tensor =
        testing::RandomTensor(dtype, {100'003}, /*seed=*/7, testing::Values::kSpecial);
    const TensorStatistics slow = ComputeStatistics(tensor);
    const SpecialCounts fast = CountSpecial(tensor);
    EXPECT_GT(slow.nan, 1000);
    EXPECT_GT(slow.subnormal, 1000);
    EXPECT_EQ(fast.nan, slow.nan);
    EXPECT_EQ(fast.inf, slow.infinite());
    EXPECT_EQ(fast.subnormal, slow.subnormal);
  }
}

TEST(StatisticsTest, CountsBlocksOfNothingElse) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    SCOPED_TRACE(InfoOf(dtype).name);
    Tensor tensor(dtype, {200'000});
    std::memset(tensor.mutable_raw(), 0xFF, static_cast<size_t>(tensor.num_bytes()));
    EXPECT_EQ(CountSpecial(tensor).nan, 200'000);
  }
  EXPECT_EQ(CountSpecial(Tensor(DType::kFloat32, {0})).nan, 0);
}

}  // namespace
}  // namespace convgrad
