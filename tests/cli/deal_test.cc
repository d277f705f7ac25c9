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

std::vector<CaseWork> Works(const std::vector<double>& costs, int64_t pieces) {
  std::vector<CaseWork> cases;
  for (const double cost : costs) cases.push_back({cost, pieces});
  return cases;
}

TEST(DealSharesTest, AHugeCaseKeepsNobodyWaiting) {
  std::vector<CaseWork> cases = Works({1, 1, 1, 1, 1}, 1);
  cases.push_back({95, 64});
  const SharedDeal shared = DealShares(cases, 4, /*cut=*/true);
  ASSERT_EQ(shared.shares.size(), 1u);
  const std::vector<CaseShare>& shares = shared.shares.at(5);
  EXPECT_EQ(shared.deal.shard_of[5], -1);
  EXPECT_EQ(shares.size(), 4u);
  EXPECT_LE(Imbalance(shared.deal.loads), 0.05);
  // Left whole, three of four shards would be idle most of the time.
  EXPECT_EQ(DealShares(cases, 4, /*cut=*/false).deal.shard_of[5], 0);
  EXPECT_GE(Imbalance(DealShares(cases, 4, /*cut=*/false).deal.loads), 2);
}

// Parts that together take 2.5 times as long as the case are worth it where there are many shards.
TEST(DealSharesTest, ACutMustPay) {
  for (const int64_t shards : {2, 3, 4, 8}) {
    const std::vector<CaseWork> cases = {{10, 100, 2.5}, {0.1, 100, 2.5}};
    const SharedDeal shared = DealShares(cases, shards, true);
    EXPECT_EQ(shared.shares.size(), shards >= 4 ? 1u : 0u) << shards;
    const double whole = LongestSeconds(DealShares(cases, shards, false).deal.loads);
    EXPECT_LE(LongestSeconds(shared.deal.loads), (shards == 8 ? 0.4 : 1) * whole);
  }
  // The second would add more work for all than it would take from one shard.
  const std::vector<CaseWork> two = {{10, 100, 1}, {6, 100, 9}};
  EXPECT_EQ(DealShares(two, 8, true).shares.size(), 1u);
}

TEST(DealSharesTest, WithoutHugeCasesNothingChanges) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const std::vector<double> costs = HeavyTailedCosts(20'000, seed);
    const std::vector<int32_t> shard_of = DealCases(costs, 20).shard_of;
    EXPECT_EQ(DealShares(Works(costs, 100), 20, true).deal.shard_of, shard_of);
    EXPECT_EQ(DealShares(Works(costs, 1), 2'000, true).deal.shard_of,
              DealCases(costs, 2'000).shard_of);
    EXPECT_EQ(DealShares(Works(costs, 100), 2'000, false).deal.shard_of,
              DealCases(costs, 2'000).shard_of);
  }
}

// Shares make all of a case, each shard has one at most, and none is empty.
TEST(DealSharesTest, AnyCutIsSoundAndEndsNoLater) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto shards = 1 + static_cast<int64_t>(random() % 40);
    std::vector<CaseWork> cases = Works(HeavyTailedCosts(random() % 60, random()), 1);
    for (CaseWork& one : cases) {
      one.pieces = 1 + static_cast<int64_t>(random() % 2 * 100'000);
      one.cut_factor = 1 + static_cast<double>(random() % 4) / 2;
    }
    const SharedDeal shared = DealShares(cases, shards, true);
    std::vector<ShardLoad> loads(shards);
    for (size_t i = 0; i < cases.size(); ++i) {
      const int32_t shard = shared.deal.shard_of[i];
      ASSERT_EQ(shard < 0, shared.shares.contains(static_cast<int64_t>(i)));
      if (shard < 0) continue;
      loads[shard].seconds += cases[i].seconds;
      ++loads[shard].num_cases;
    }
    for (const auto& [index, shares] : shared.shares) {
      ASSERT_GE(shares.size(), 2u);
      int64_t next = 0;
      int32_t last_shard = -1;
      for (const CaseShare& share : shares) {
        ASSERT_EQ(share.begin, next);
        ASSERT_GT(share.end, share.begin);
        ASSERT_GT(share.shard, last_shard);
        next = share.end;
        last_shard = share.shard;
        const double part = static_cast<double>(share.end - share.begin);
        loads[share.shard].seconds += cases[index].seconds * cases[index].cut_factor * part /
                                      static_cast<double>(cases[index].pieces);
        ++loads[share.shard].num_cases;
      }
      ASSERT_EQ(next, cases[index].pieces);
    }
    for (int64_t shard = 0; shard < shards; ++shard) {
      ASSERT_EQ(loads[shard].num_cases, shared.deal.loads[shard].num_cases);
      ASSERT_NEAR(loads[shard].seconds, shared.deal.loads[shard].seconds,
                  1e-3 * loads[shard].seconds + 1e-12);
    }
    const double longest = LongestSeconds(DealShares(cases, shards, false).deal.loads);
    EXPECT_LE(LongestSeconds(shared.deal.loads), longest * (1 + 1e-9)) << "round " << round;
  }
}

// Where all parts of a case go to one shard, they are the case.
TEST(DealSharesTest, ACutThatSplitsNothingIsNone) {
  const SharedDeal shared = DealShares(std::vector<CaseWork>{{0.7, 1}, {1.3, 2}}, 2, true);
  EXPECT_TRUE(shared.shares.empty());
  EXPECT_EQ(shared.deal.shard_of, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(shared.deal.loads[1].num_cases, 1);
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
