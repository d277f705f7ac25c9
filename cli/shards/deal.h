// How cases are dealt to shards: by predicted cost, the same in every process that knows the same
// costs. Must not know what a case is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace convgrad::cli {

// The work of one shard.
struct ShardLoad {
  double seconds = 0;
  int64_t num_cases = 0;
};

struct Deal {
  std::vector<int32_t> shard_of;  // of each case
  std::vector<ShardLoad> loads;   // of each shard
};

double LongestSeconds(std::span<const ShardLoad> loads);
double MeanSeconds(std::span<const ShardLoad> loads);
// How much longer the longest shard takes than the mean one: 0.02 is 2 %.
double Imbalance(std::span<const ShardLoad> loads);

// Longest case first, each to the shard that has least to do so far, the lowest of several: never
// more than 4/3 of the best that is possible (Graham, 1969), in practice far less. Cases of equal
// cost go in their order. Takes O(n log n) and 16 bytes a case. Costs are >= 0 and finite.
Deal DealCases(std::span<const double> costs, int64_t num_shards);

}  // namespace convgrad::cli
