#include "cli/shards/deal.h"

#include <algorithm>
#include <numeric>

namespace convgrad::cli {
namespace {

std::vector<int32_t> LongestFirst(std::span<const double> costs) {
  std::vector<int32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [costs](int32_t a, int32_t b) {
    return costs[a] != costs[b] ? costs[a] > costs[b] : a < b;
  });
  return order;
}

}  // namespace

Deal DealCases(std::span<const double> costs, int64_t num_shards) {
  Deal deal = {std::vector<int32_t>(costs.size()), std::vector<ShardLoad>(num_shards)};
  // A heap with the shard that has least to do on top. Shards without cost are equal by seconds:
  // then the one with fewer cases comes first, so that even free cases spread.
  const auto has_more = [&deal](int32_t a, int32_t b) {
    const ShardLoad& load_a = deal.loads[a];
    const ShardLoad& load_b = deal.loads[b];
    if (load_a.seconds != load_b.seconds) return load_a.seconds > load_b.seconds;
    return load_a.num_cases != load_b.num_cases ? load_a.num_cases > load_b.num_cases : a > b;
  };
  std::vector<int32_t> heap(num_shards);
  std::iota(heap.begin(), heap.end(), 0);
  for (const int32_t at : LongestFirst(costs)) {
    std::pop_heap(heap.begin(), heap.end(), has_more);
    const int32_t shard = heap.back();
    deal.shard_of[at] = shard;
    deal.loads[shard].seconds += costs[at];
    ++deal.loads[shard].num_cases;
    std::push_heap(heap.begin(), heap.end(), has_more);
  }
  return deal;
}

double LongestSeconds(std::span<const ShardLoad> loads) {
  double longest = 0;
  for (const ShardLoad& load : loads) longest = std::max(longest, load.seconds);
  return longest;
}

double MeanSeconds(std::span<const ShardLoad> loads) {
  double sum = 0;
  for (const ShardLoad& load : loads) sum += load.seconds;
  return sum / static_cast<double>(loads.size());
}

double Imbalance(std::span<const ShardLoad> loads) {
  const double mean = MeanSeconds(loads);
  return mean > 0 ? std::max(0.0, LongestSeconds(loads) / mean - 1) : 0;
}

}  // namespace convgrad::cli
