// Dealing cases to shards, and what that predicts, held against simulations.
#include "cli/shards/deal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "cli/shards/cost.h"

namespace convgrad::cli {
namespace {

// Seconds of cases as suites have them: most take milliseconds, few take seconds (Pareto with
// infinite variance, cut where a case alone would keep a shard busy).
std::vector<double> HeavyTailedCosts(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> costs(count);
  for (double& cost : costs) cost = std::min(10.0, 2e-3 * std::pow(1 - uniform(random), -1 / 1.2));
  return costs;
}

void ExpectSound(const Deal& deal, const std::vector<double>& costs) {
  std::vector<ShardLoad> loads(deal.loads.size());
  ASSERT_EQ(deal.shard_of.size(), costs.size());
  for (size_t i = 0; i < costs.size(); ++i) {
    ASSERT_TRUE(deal.shard_of[i] >= 0 && deal.shard_of[i] < std::ssize(loads));
    loads[deal.shard_of[i]].seconds += costs[i];
    ++loads[deal.shard_of[i]].num_cases;
  }
  for (size_t shard = 0; shard < loads.size(); ++shard) {
    EXPECT_EQ(loads[shard].num_cases, deal.loads[shard].num_cases);
    EXPECT_NEAR(loads[shard].seconds, deal.loads[shard].seconds, 1e-9 * loads[shard].seconds);
  }
}

// The longest of the shards if each case takes its cost times something between 0.7 and 1.4, which
// no prediction can know.
double SimulatedImbalance(const Deal& deal, const std::vector<double>& costs, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(-0.5, 0.5);
  std::vector<double> seconds(deal.loads.size());
  for (size_t i = 0; i < costs.size(); ++i) {
    seconds[deal.shard_of[i]] += costs[i] * std::exp2(exponent(random));
  }
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return *std::max_element(seconds.begin(), seconds.end()) / sum *
             static_cast<double>(seconds.size()) -
         1;
}

TEST(DealTest, LongestFirstToWhoeverHasLeast) {
  const std::vector<double> costs = {1, 5, 3, 3, 2, 5};
  const Deal deal = DealCases(costs, 2);
  // 5 to the first, 5 to the second, 3 and 3 likewise, 2 to the first, 1 to the second.
  EXPECT_EQ(deal.shard_of, (std::vector<int32_t>{1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(LongestSeconds(deal.loads), 10);
  EXPECT_EQ(MeanSeconds(deal.loads), 9.5);
  EXPECT_DOUBLE_EQ(Imbalance(deal.loads), 10 / 9.5 - 1);
}

TEST(DealTest, MoreShardsThanCases) {
  const Deal deal = DealCases(std::vector<double>{2, 1}, 4);
  EXPECT_EQ(deal.shard_of, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(deal.loads[3].num_cases, 0);
  const Deal nothing = DealCases({}, 3);
  EXPECT_EQ(nothing.loads.size(), 3u);
  EXPECT_EQ(Imbalance(nothing.loads), 0);
}

TEST(DealTest, EqualAndFreeCasesSpreadEvenly) {
  for (const double cost : {0.0, 0.25}) {
    const std::vector<double> costs(1000, cost);
    const Deal deal = DealCases(costs, 7);
    ExpectSound(deal, costs);
    for (const ShardLoad& load : deal.loads) {
      EXPECT_TRUE(load.num_cases == 142 || load.num_cases == 143) << load.num_cases;
    }
  }
}

TEST(DealTest, AnySizesGiveASoundDealWithinGrahamsBound) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const int64_t count = static_cast<int64_t>(random() % 300);
    const int64_t shards = 1 + static_cast<int64_t>(random() % 40);
    const std::vector<double> costs = HeavyTailedCosts(count, random());
    const Deal deal = DealCases(costs, shards);
    ExpectSound(deal, costs);
    // No deal ends before the mean, nor before the longest case.
    const double longest = count == 0 ? 0 : *std::max_element(costs.begin(), costs.end());
    const double least = std::max(MeanSeconds(deal.loads), longest);
    const double n = static_cast<double>(shards);
    EXPECT_LE(LongestSeconds(deal.loads), (2 - 1 / n) * least * (1 + 1e-12)) << "round " << round;
  }
}

// The prediction of `plan --shards` comes true, as far as the costs are right.
void ExpectPredictionHolds(int64_t num_cases, int64_t num_shards) {
  const std::vector<double> costs = HeavyTailedCosts(num_cases, 1);
  const Deal deal = DealCases(costs, num_shards);
  ExpectSound(deal, costs);
  EXPECT_EQ(DealCases(costs, num_shards).shard_of, deal.shard_of);
  const double simulated = SimulatedImbalance(deal, costs, 2);
  Deal in_turn = deal;
  for (int64_t i = 0; i < num_cases; ++i)
    in_turn.shard_of[i] = static_cast<int32_t>(i % num_shards);
  const double simulated_in_turn = SimulatedImbalance(in_turn, costs, 2);
  std::printf(
      "%ld cases, %ld shards: imbalance predicted %.4f %%, simulated %.1f %%, in turn %.1f %%\n",
      num_cases, num_shards, 100 * Imbalance(deal.loads), 100 * simulated, 100 * simulated_in_turn);
  EXPECT_LE(Imbalance(deal.loads), 1e-3);
  // At worst one case fills a shard and takes as much longer as cases may.
  EXPECT_LE(simulated, std::sqrt(2) - 1);
  EXPECT_GE(simulated_in_turn, 2 * simulated);
}

TEST(DealTest, ManyCasesOnFewShards) {
  ExpectPredictionHolds(20'000, 20);
}

TEST(DealTest, AMillionCasesOnAThousandShards) {
  ExpectPredictionHolds(1'000'000, 1'000);
}

Problem Conv(const std::string& op, int64_t size, DType dtype = DType::kFloat32) {
  ConvSpec spec;
  spec.op = ParseOp(op);
  spec.dtype = dtype;
  spec.input = Shape{4, size, size, 32};
  spec.filter = op == "conv2d" ? Shape{3, 3, 32, 32} : Shape{3, 3, 32, 1};
  return MakeProblem(spec);
}

TEST(CostTest, MoreWorkCostsMore) {
  const Problem small = Conv("conv2d", 8), large = Conv("conv2d", 80);
  EXPECT_LT(PredictFailureSeconds(), PredictSeconds(small, Checking::kNone));
  EXPECT_LT(PredictSeconds(small, Checking::kNone), PredictSeconds(large, Checking::kNone));
  EXPECT_LT(PredictSeconds(large, Checking::kNone), PredictSeconds(large, Checking::kBits));
  EXPECT_LT(PredictSeconds(large, Checking::kBits), PredictSeconds(large, Checking::kBound));
  EXPECT_LT(PredictSeconds(large, Checking::kNone),
            PredictSeconds(Conv("conv2d", 80, DType::kFloat64), Checking::kNone));
  const double empty = PredictSeconds(Conv("depthwise_conv2d", 0), Checking::kBound);
  EXPECT_TRUE(std::isfinite(empty));
  EXPECT_GE(empty, PredictFailureSeconds());
}

}  // namespace
}  // namespace convgrad::cli
