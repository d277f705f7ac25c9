#include "verify/odds/odds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "verify/odds/chains.h"
#include "verify/odds/tails.h"

namespace convgrad {
namespace {

using Test = OddsVerdict::Test;

// Each test has its share of the odds.
constexpr double kTests = 3;

// Terms that chains are run over, some tenths of a second; elements that are looked at in any case,
// and of the evenly spread ones at most. With 1,024, errors that all elements share count as a
// bias only from a quarter of their size on.
constexpr int64_t kMostTerms = int64_t{1} << 21;
constexpr int64_t kFewestElements = 16, kMostSpread = 1024;

double ValueAt(const Tensor& tensor, int64_t element) {
  return VisitFloat(tensor.dtype(), [&](auto tag) {
    return Widen(tensor.data<typename decltype(tag)::Type>()[element]);
  });
}

// An element that is looked at closely.
struct Examined {
  int64_t element;
  bool is_spread;  // chosen without regard to its error
  Truth truth;
  Deviation deviation;
  ChainLosses losses;

  bool IsJudged() const { return deviation.any > 0; }
  // In sizes of any order, beyond what chains lose.
  double InAny() const { return Beyond(losses.any, deviation.any); }
  double InUsual() const { return Beyond(losses.natural, deviation.usual); }

 private:
  double Beyond(double loss, double size) const {
    Deviation rest = deviation;
    rest.excess = std::max(0.0, std::fabs(deviation.excess) - loss);
    rest.any = size;
    return rest.InAny();
  }
};

class OddsJudge {
 public:
  OddsJudge(const OddsQuestion& question, const Oracle& oracle, const OddsTally& tally,
            const Parallel& parallel)
      : question_(question),
        oracle_(oracle),
        tally_(tally),
        parallel_(parallel),
        chains_(question.problem, question.first, question.second, question.arithmetic.accumulator),
        log_limit_(std::log(question.limit)),
        count_(static_cast<double>(tally.count())) {}

  OddsVerdict Run(int64_t suspects) {
    OddsVerdict verdict;
    const std::vector<Largest::Entry> worst = tally_.in_any().Sorted();
    Note(Test::kWorst, LogOddsOfWorst(worst.empty() ? 0 : worst.front().value, count_), verdict);
    Note(Test::kSquares, LogOddsOfSquares(tally_.MeanSquareInAny(), count_), verdict);
    const bool is_usual =
        suspects == 0 && !IsUnlikely(LogOddsOfSquares(tally_.MeanSquareInUsual(), count_));
    if (is_usual) return verdict;

    Examine();
    verdict = OddsVerdict{};
    TestWorst(verdict);
    TestSpread(verdict);
    if (IsSameAsPlainOrder(verdict) || PlainOrdersLoseAsMuch(suspects)) {
      verdict.is_excused = true;
      return verdict;
    }
    verdict.verdict = std::log(verdict.odds) < log_limit_ ? Verdict::kFailed : Verdict::kSuspect;
    return verdict;
  }

 private:
  bool IsUnlikely(double log_odds) const { return log_odds + std::log(kTests) < log_limit_; }

  static void Note(Test test, double log_odds, OddsVerdict& verdict) {
    const double odds = std::clamp(std::exp(log_odds + std::log(kTests)), kLeastOdds, 1.0);
    if (odds >= verdict.odds) return;
    verdict.odds = odds;
    verdict.test = test;
  }

  // The worst by both measures, and some spread evenly over the tensor.
  void Examine() {
    const int64_t terms = std::max<int64_t>(1, question_.problem.MaxTerms());
    const int64_t affordable = std::max(kFewestElements, kMostTerms / terms);
    const auto add_worst = [&](const Largest& largest) {
      const std::vector<Largest::Entry> worst = largest.Sorted();
      const int64_t some = std::min<int64_t>(std::ssize(worst), affordable);
      for (int64_t i = 0; i < some; ++i) {
        examined_.push_back({worst[static_cast<size_t>(i)].element, false, {}, {}, {}});
      }
      return some;
    };
    worst_examined_ = add_worst(tally_.in_usual());
    add_worst(tally_.in_any());
    const int64_t all = question_.judged.num_elements();
    const int64_t spread = std::min({all, affordable, kMostSpread});
    for (int64_t i = 0; i < spread; ++i) {
      // Each of as many equal parts gives the element at a place that no stride of the data shares.
      const int64_t begin = all * i / spread, size = all * (i + 1) / spread - begin;
      examined_.push_back({begin + i * 7919 % size, true, {}, {}, {}});
    }
    parallel_.For(std::ssize(examined_),
                  [&](int64_t i) { Look(examined_[static_cast<size_t>(i)]); });
  }

  void Look(Examined& at) const {
    at.truth = oracle_.At(at.element);
    const double value = ValueAt(question_.judged, at.element);
    if (!std::isfinite(value) || !std::isfinite(at.truth.high) || at.truth.magnitude == 0) return;
    at.deviation = DeviationOf(value, at.truth, question_.arithmetic);
    if (at.deviation.excess == 0) return;
    at.losses = chains_.LossesAt(at.element, at.truth, value, question_.judged.dtype());
  }

  void TestWorst(OddsVerdict& verdict) const {
    double worst = 0;
    for (const Examined& at : examined_) {
      if (at.IsJudged()) worst = std::max(worst, at.InAny());
    }
    Note(Test::kWorst, LogOddsOfWorst(worst, count_), verdict);
  }

  // Elements of the same terms have the same error, and count once.
  void TestSpread(OddsVerdict& verdict) const {
    std::set<std::tuple<double, double, double>> seen;
    double squares = 0, sum = 0;
    for (const Examined& at : examined_) {
      if (!at.is_spread || !at.IsJudged()) continue;
      const Truth& truth = at.truth;
      if (!seen.emplace(std::fabs(truth.high), truth.magnitude, truth.norm).second) continue;
      const double sizes = at.InAny();
      squares += sizes * sizes;
      sum += std::copysign(sizes, at.deviation.excess);
    }
    const auto count = static_cast<double>(seen.size());
    if (count == 0) return;
    Note(Test::kSquares, LogOddsOfSquares(squares / count, count), verdict);
    Note(Test::kMean, LogOddsOfMean(sum / count, count), verdict);
  }

  // True if one plain order gives each of the numbers that are not near enough to say nothing.
  bool IsSameAsPlainOrder(OddsVerdict& verdict) const {
    uint32_t same = ~uint32_t{0};
    bool says_something = false;
    for (const Examined& at : examined_) {
      if (!at.IsJudged() || at.deviation.excess == 0) continue;
      same &= at.losses.same;
      says_something = true;
    }
    const auto order = static_cast<size_t>(std::countr_zero(same));
    if (!says_something || order >= PlainOrders().size()) return false;
    verdict.plain_order = PlainOrders()[order];
    return true;
  }

  bool PlainOrdersLoseAsMuch(int64_t suspects) const {
    if (suspects > worst_examined_) return false;
    double squares = 0;
    int64_t spread = 0;
    for (const Examined& at : examined_) {
      if (!at.IsJudged()) continue;
      const double sizes = at.InUsual();
      if (sizes > kUsualSizes) return false;
      if (!at.is_spread) continue;
      squares += sizes * sizes;
      ++spread;
    }
    if (spread == 0) return false;
    const auto count = static_cast<double>(spread);
    return !IsUnlikely(LogOddsOfSquares(squares / count, count));
  }

  const OddsQuestion& question_;
  const Oracle& oracle_;
  const OddsTally& tally_;
  const Parallel& parallel_;
  const Chains chains_;
  const double log_limit_;
  const double count_;
  std::vector<Examined> examined_;
  int64_t worst_examined_ = 0;
};

}  // namespace

OddsVerdict JudgeOdds(const OddsQuestion& question, const Oracle& oracle, const OddsTally& tally,
                      int64_t suspects, const Parallel& parallel) {
  return OddsJudge(question, oracle, tally, parallel).Run(suspects);
}

}  // namespace convgrad
