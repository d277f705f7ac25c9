#include "verify/arithmetic/stochastic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace convgrad {
namespace {

constexpr ModelKind kStochastic = {"stochastic-rounding",
                                   "Round to nearest, or compare the mean of many results",
                                   /*is_mistake=*/false};

// One number between its two neighbours.
struct Lot {
  bool is_apart = false;  // no neighbour of the exact sum
  bool is_known = false;  // the exact sum is no number of the format itself
  double chance = 0;      // of the upper one
  bool is_upper = false;
};

Lot LotOf(Format format, double value, double exact) {
  const double nearest = Round(format, exact);
  Lot lot;
  if (!std::isfinite(nearest) || nearest == exact) {
    lot.is_apart = nearest != value;
    return lot;
  }
  const double unit = InfoOf(format).Ulp(std::fabs(exact));
  const double lower = std::floor(exact / unit) * unit;
  lot.is_known = true;
  lot.chance = (exact - lower) / unit;
  lot.is_upper = value == lower + unit;
  lot.is_apart = !lot.is_upper && value != lower;
  return lot;
}

// Over all numbers: how often the farther neighbour was taken, by how far it is, and the evidence
// against a coin that falls on either side alike.
class Lots {
 public:
  void Add(const Lot& lot) {
    const double farther = std::min(lot.chance, 1 - lot.chance);
    const bool is_farther = lot.is_upper != (lot.chance > 0.5);
    const auto bin = std::min<size_t>(kBins - 1, static_cast<size_t>(farther * 2 * kBins));
    expected_[bin] += farther;
    variance_[bin] += farther * (1 - farther);
    taken_[bin] += is_farther;
    bits_ += std::log2(2 * std::max(1e-6, is_farther ? farther : 1 - farther));
  }
  // As often as the distances say in each of four classes of them, and not by chance.
  bool LookLikeLots() const {
    constexpr double kLotBits = 32, kFewestExpected = 4;
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double off = std::fabs(taken_[bin] - expected_[bin]);
      if (expected_[bin] < kFewestExpected || off > 3 * std::sqrt(variance_[bin])) return false;
    }
    return bits_ >= kLotBits;
  }

 private:
  static constexpr size_t kBins = 4;
  std::array<double, kBins> expected_{}, variance_{}, taken_{};
  double bits_ = 0;
};

}  // namespace

std::optional<Fingerprint> FindStochasticRounding(const TermSource& source, const MadeNumbers& made,
                                                  const Parallel& parallel) {
  constexpr int64_t kMostTerms = int64_t{1} << 28;
  // The sums themselves are not known well enough for wider formats.
  if (InfoOf(made.format()).fraction_bits > 10) return std::nullopt;
  const int64_t count =
      std::min(made.size(), std::max<int64_t>(1, kMostTerms / source.num_places()));
  std::vector<Lot> lots(static_cast<size_t>(count));
  parallel.For(count, [&](int64_t i) {
    lots[static_cast<size_t>(i)] = LotOf(made.format(), made.At(i), source.Of(i).exact);
  });
  Lots all;
  for (const Lot& lot : lots) {
    if (lot.is_apart) return std::nullopt;
    if (lot.is_known) all.Add(lot);
  }
  if (!all.LookLikeLots()) return std::nullopt;
  const std::string which = count == made.size()
                                ? fmt::format("All {} elements", count)
                                : fmt::format("{} of {} elements", count, made.size());
  return Fingerprint{
      fmt::format("{} are a neighbour of the exact sum in {}, the farther one as often as "
                  "stochastic rounding takes it: it looks like that",
                  which, InfoOf(made.format()).name),
      kStochastic, /*bit_for_bit=*/false, std::nullopt};
}

}  // namespace convgrad
