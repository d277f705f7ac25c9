#include "cli/shards/deal.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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

// A case is cut into so many parts for each shard that it would keep busy: a few, so that the rest
// of the cases can even out what they leave.
constexpr double kPartsOfAShard = 8;
// As much more than the mean shard's work is worth a cut.
constexpr double kWorthACut = 1.25;

// Into how many parts each case is cut, 1 for none: the dearest first, since what its cut adds is
// work for all.
std::vector<int64_t> PartsOf(std::span<const CaseWork> cases, int64_t num_shards) {
  std::vector<double> costs;
  double sum = 0;
  for (const CaseWork& one : cases) {
    costs.push_back(one.seconds);
    sum += one.seconds;
  }
  std::vector<int64_t> parts(cases.size(), 1);
  for (const int32_t at : LongestFirst(costs)) {
    const CaseWork& one = cases[at];
    const double shards = static_cast<double>(num_shards);
    if (one.seconds <= kWorthACut * sum / shards) break;
    const double cut_seconds = one.seconds * one.cut_factor;
    const double cut_sum = sum - one.seconds + cut_seconds;
    if (one.pieces == 1 || one.seconds <= kWorthACut * cut_sum / shards) continue;
    sum = cut_sum;
    const double wanted = std::ceil(cut_seconds / sum * shards * kPartsOfAShard);
    parts[at] =
        wanted < static_cast<double>(one.pieces) ? static_cast<int64_t>(wanted) : one.pieces;
  }
  return parts;
}

// The pieces of shards that have so many of a case's parts each.
std::vector<CaseShare> SharesOf(const std::vector<int64_t>& parts_of_shard, int64_t pieces) {
  const int64_t parts = std::accumulate(parts_of_shard.begin(), parts_of_shard.end(), int64_t{0});
  std::vector<CaseShare> shares;
  int64_t done = 0;
  for (size_t shard = 0; shard < parts_of_shard.size(); ++shard) {
    const int64_t begin = done;
    done += parts_of_shard[shard];
    if (done == begin) continue;
    shares.push_back({static_cast<int32_t>(shard), pieces * begin / parts, pieces * done / parts});
  }
  return shares;
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

SharedDeal DealShares(std::span<const CaseWork> cases, int64_t num_shards, bool cut) {
  const std::vector<int64_t> parts =
      cut ? PartsOf(cases, num_shards) : std::vector<int64_t>(cases.size(), 1);
  std::vector<double> costs;
  for (size_t i = 0; i < cases.size(); ++i) {
    const double seconds = cases[i].seconds * (parts[i] > 1 ? cases[i].cut_factor : 1);
    costs.insert(costs.end(), parts[i], seconds / static_cast<double>(parts[i]));
  }
  SharedDeal shared = {DealCases(costs, num_shards), {}};
  const std::vector<int32_t> shard_of_part = std::exchange(shared.deal.shard_of, {});
  auto next = shard_of_part.begin();
  for (size_t index = 0; index < cases.size(); ++index) {
    shared.deal.shard_of.push_back(*next);
    std::vector<int64_t> parts_of_shard(parts[index] > 1 ? num_shards : 0);
    for (int64_t part = 0; part < parts[index]; ++part, ++next) {
      if (parts[index] > 1) ++parts_of_shard[*next];
    }
    std::vector<CaseShare> shares = SharesOf(parts_of_shard, cases[index].pieces);
    for (const CaseShare& share : shares) {
      shared.deal.loads[share.shard].num_cases -= parts_of_shard[share.shard] - 1;
    }
    if (shares.size() < 2) continue;
    shared.deal.shard_of.back() = -1;
    shared.shares.emplace(static_cast<int64_t>(index), std::move(shares));
  }
  return shared;
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
