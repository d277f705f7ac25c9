// How cases, and pieces of those that can be cut, are dealt to shards: by predicted cost, the same
// in every process that knows the same costs. Must not know what a case is.
#pragma once

#include <cstdint>
#include <map>
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

// A case, and how many pieces of equal work it can be cut into: 1 for one that stays whole.
struct CaseWork {
  double seconds = 0;
  int64_t pieces = 1;
  double cut_factor = 1;  // how many times as long all pieces together take, if it is cut
};

// Pieces [begin, end) of a case, which one shard runs together.
struct CaseShare {
  int32_t shard = 0;
  int64_t begin = 0, end = 0;
};

struct SharedDeal {
  Deal deal;  // `shard_of` is -1 for a case that is cut; it counts for each shard that has a share
  std::map<int64_t, std::vector<CaseShare>> shares;  // of the cases that are cut
};

double LongestSeconds(std::span<const ShardLoad> loads);
double MeanSeconds(std::span<const ShardLoad> loads);
// How much longer the longest shard takes than the mean one: 0.02 is 2 %.
double Imbalance(std::span<const ShardLoad> loads);

// Longest case first, each to the shard that has least to do so far, the lowest of several: never
// more than 4/3 of the best that is possible (Graham, 1969), in practice far less. Cases of equal
// cost go in their order. Takes O(n log n) and 16 bytes a case. Costs are >= 0 and finite.
Deal DealCases(std::span<const double> costs, int64_t num_shards);

// The same, but that with `cut` a case of a quarter more than the mean shard's work, what the cut
// adds included, is cut where it can be, so that it does not keep one shard busy while the others
// idle: its parts are dealt as cases are, and those of a shard are one share. The shares of a case
// are in the order of shards and make all of it.
SharedDeal DealShares(std::span<const CaseWork> cases, int64_t num_shards, bool cut);

}  // namespace convgrad::cli
