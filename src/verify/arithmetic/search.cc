#include "verify/arithmetic/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "verify/arithmetic/candidates.h"
#include "verify/arithmetic/evaluate.h"
#include "verify/arithmetic/made.h"
#include "verify/arithmetic/stochastic.h"
#include "verify/arithmetic/terms.h"
#include "verify/arithmetic/winograd.h"

namespace convgrad {
namespace {

// An explanation that chance could give less often than once in 2^32 such tensors.
constexpr double kBitsDemanded = 32;
// Longer sums are left alone.
constexpr int64_t kMostPlaces = int64_t{1} << 22;
// The limits of a search are in steps of about a nanosecond, those of a look at elements in terms.
constexpr int64_t kMostSteps = int64_t{3} << 30;
constexpr int64_t kMostTermsSampled = int64_t{1} << 24;
constexpr int64_t kMostTermsConfirmed = int64_t{1} << 29;

// An element that tells something.
struct Telling {
  int64_t element;
  double bits;
};

// `count` of [0, size), as evenly as may be.
std::vector<int64_t> EvenlyOf(int64_t size, int64_t count) {
  std::vector<int64_t> elements;
  count = std::clamp<int64_t>(count, 1, size);
  for (int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<int64_t>(static_cast<double>(size) * static_cast<double>(i) /
                                            static_cast<double>(count)));
  }
  return elements;
}

// The evidence for a model. Elements that have the same exact sum count once, the one that tells
// most: on data that repeat, they are one.
class Evidence {
 public:
  void Add(double exact, double bits) {
    int exponent = 0;
    double& most = seen_[std::fabs(std::frexp(exact, &exponent))];
    most = std::max(most, bits);
  }
  double bits() const {
    double sum = 0;
    for (const auto& [exact, bits] : seen_) sum += bits;
    return sum;
  }

 private:
  std::map<double, double> seen_;
};

// --- one model at all elements ---

class Confirmation {
 public:
  Confirmation(const TermSource& source, const MadeNumbers& made, const Model& model)
      : source_(source), made_(made), model_(model) {}

  // The evidence, in bits; none if the model does not give an element's number.
  std::optional<double> At(std::span<const int64_t> elements, const Parallel& parallel) {
    const auto count = static_cast<int64_t>(elements.size());
    const int64_t piece =
        std::clamp<int64_t>((1 << 16) / std::max<int64_t>(1, source_.num_places()), 1, 1 << 10);
    std::atomic<bool> refuted = false;
    std::mutex joining;
    Evidence evidence;
    // A part of them is evidence enough; exact sums take time.
    constexpr int64_t kMostMeasured = 2048;
    const int64_t measured_step = CeilDiv(count, kMostMeasured);
    parallel.For(CeilDiv(count, piece), [&](int64_t index) {
      for (int64_t i = index * piece; i < std::min(count, (index + 1) * piece); ++i) {
        if (refuted) return;
        const bool is_measured = i % measured_step == 0;
        const Terms terms = source_.Of(elements[static_cast<size_t>(i)], is_measured);
        const double value = made_.At(elements[static_cast<size_t>(i)]);
        const size_t sums = SumsThatGive(terms, value);
        if (sums == 0) {
          refuted = true;
          return;
        }
        if (!is_measured) continue;
        const std::lock_guard lock(joining);
        evidence.Add(terms.exact, std::max(0.0, made_.Surprise(value, terms.exact) -
                                                    std::log2(static_cast<double>(sums))));
      }
    });
    if (refuted) return std::nullopt;
    return evidence.bits();
  }

 private:
  // How many sums the model may give, if `value` is one of them; else 0.
  size_t SumsThatGive(const Terms& terms, double value) const {
    const Arranged arranged = Arrange(terms, model_.sequence);
    Evaluation evaluation(arranged);
    const std::span<const double> sums = evaluation.Of(model_);
    const bool gives =
        std::any_of(sums.begin(), sums.end(), [&](double sum) { return made_.Is(sum, value); });
    return gives ? sums.size() : 0;
  }

  const TermSource& source_;
  const MadeNumbers& made_;
  const Model& model_;
};

// --- many models at few elements ---

class ModelSearch {
 public:
  ModelSearch(const Problem& problem, const TermSource& source, const MadeNumbers& made,
              const Parallel& parallel)
      : problem_(problem), source_(source), made_(made), parallel_(parallel) {}

  ArithmeticSearch Run() {
    GatherTelling();
    if (telling_.empty()) return result_;
    const std::vector<LoopOrder> orders = source_.Orders();
    TryOperands(Format::kFloat64, orders);
    for (const Format operands : NarrowerOperands()) {
      TryOperands(operands, std::vector<LoopOrder>(orders.begin(), orders.begin() + 1));
    }
    return std::move(result_);
  }

 private:
  // Those elements of a sample that tell most.
  void GatherTelling() {
    constexpr int64_t kMost = 12;
    const int64_t places = std::max<int64_t>(1, source_.num_places());
    const std::vector<int64_t> sample =
        EvenlyOf(made_.size(), std::max<int64_t>(kMost, kMostTermsSampled / places));
    std::vector<Telling> found(sample.size());
    std::vector<double> exact(sample.size());
    parallel_.For(static_cast<int64_t>(sample.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      exact[at] = source_.Of(sample[at]).exact;
      found[at] = {sample[at], made_.Surprise(made_.At(sample[at]), exact[at])};
    });
    Evidence at_most;
    for (size_t i = 0; i < sample.size(); ++i) at_most.Add(exact[i], found[i].bits);
    const double share =
        static_cast<double>(made_.size()) / static_cast<double>(std::max<size_t>(1, sample.size()));
    if (at_most.bits() * share < kBitsDemanded) return;
    std::stable_sort(found.begin(), found.end(),
                     [](const Telling& a, const Telling& b) { return a.bits > b.bits; });
    const int64_t kept = std::clamp<int64_t>(kMostPlaces / places, 3, kMost);
    for (const Telling& telling : found) {
      if (telling.bits == 0 || static_cast<int64_t>(telling_.size()) == kept) break;
      telling_.push_back(source_.Of(telling.element));
      values_.push_back(made_.At(telling.element));
    }
  }

  // Formats to which a kernel may round operands of the problem's type, if that changes them.
  std::vector<Format> NarrowerOperands() const {
    const std::span<const Format> narrower = NarrowerThan(problem_.dtype);
    std::vector<Format> formats(narrower.begin(), narrower.end());
    const Terms& terms = telling_.front();
    std::erase_if(formats, [&](Format format) {
      const auto stays = [&](double value) { return Round(format, value) == value; };
      return std::all_of(terms.x.begin(), terms.x.end(), stays) &&
             std::all_of(terms.y.begin(), terms.y.end(), stays);
    });
    return formats;
  }

  // How far the numbers are from sums of operands rounded to `operands`.
  struct Fit {
    bool may_be_wide = true;     // no farther than sums in float32, or float64, may go
    bool may_be_narrow = false;  // farther than such sums usually go
  };
  Fit FitOf(Format operands) const {
    const double unit = problem_.dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
    Fit fit;
    for (size_t i = 0; i < telling_.size(); ++i) {
      const Terms& terms = telling_[i];
      long double sum = 0;
      for (size_t k = 0; k < terms.x.size(); ++k) {
        sum += static_cast<long double>(Round(operands, terms.x[k])) * Round(operands, terms.y[k]);
      }
      const auto exact = static_cast<double>(sum);
      if (!std::isfinite(exact) || !std::isfinite(values_[i])) return {true, true};
      const double last =
          InfoOf(made_.format()).Ulp(std::max(std::fabs(exact), std::fabs(values_[i])));
      const double error = std::fabs(values_[i] - exact);
      const double count = static_cast<double>(terms.count) + 2;
      if (error > 4 * count * unit * terms.magnitude + last) fit.may_be_wide = false;
      const double usual = 8 * std::sqrt(count) * unit * std::max(terms.norm, std::fabs(exact));
      if (error > usual + last / 2 || terms.count < 64) fit.may_be_narrow = true;
    }
    return fit;
  }

  void TryOperands(Format operands, const std::vector<LoopOrder>& orders) {
    const Fit fit = FitOf(operands);
    for (const Family family : kFamilies) {
      // Steps of narrow sums are tried for the usual nest of loops alone.
      const size_t usual_orders = std::min<size_t>(orders.size(), 2);
      const size_t count = family == Family::kSplit ? usual_orders : orders.size();
      for (size_t i = 0; i < count && !result_.found; ++i) {
        for (const bool with_padding : {false, true}) {
          if (with_padding && !source_.HasPadding()) continue;
          for (const bool reversed : {false, true}) {
            if (reversed && family != Family::kPlain) continue;
            Try(family, {operands, orders[i], reversed, with_padding}, fit);
          }
        }
      }
    }
  }

  bool IsWanted(const Model& model, const Fit& fit) const {
    const Format wide = problem_.dtype == DType::kFloat64 ? Format::kFloat64 : Format::kFloat32;
    const auto is_wide = [&](Format format) {
      return InfoOf(format).fraction_bits >= InfoOf(wide).fraction_bits;
    };
    const bool all_wide =
        is_wide(model.accumulator) && is_wide(model.partial) && is_wide(model.total);
    return all_wide ? fit.may_be_wide : fit.may_be_narrow;
  }

  void Try(Family family, const Sequence& sequence, const Fit& fit) {
    if (result_.found) return;
    if (family == Family::kMatrix && !AreShort(sequence.operands)) return;
    const Arranged arranged = Arrange(telling_.front(), sequence);
    SumFacts facts = {problem_.dtype, arranged.size(), static_cast<int64_t>(arranged.outer.size()),
                      static_cast<int64_t>(arranged.outer_two.size())};
    facts.is_tiny = IsTiny(arranged);
    facts.is_usual_nest = IsUsual(sequence.order);
    std::vector<Model> models = ModelsOf(family, sequence, facts);
    std::erase_if(models, [&](const Model& model) { return !IsWanted(model, fit); });
    CutToBudget(models);
    for (const Model& model : SurvivorsOf(models, arranged)) {
      if (Confirm(model)) return;
    }
  }

  // Pixels one after the other; taps and then channels, or channels and then taps. Lanes across
  // others would be partial sums under another name.
  bool IsUsual(const LoopOrder& order) const {
    const bool channels_first = !source_.is_filter_gradient() && order.axes[0] == 2;
    return order.axes == LoopOrder().axes || channels_first;
  }

  // Matrix units multiply significands of at most 11 bits.
  bool AreShort(Format operands) const {
    return InfoOf(problem_.dtype).bytes == 2 || InfoOf(operands).fraction_bits <= 10;
  }
  bool IsTiny(const Arranged& arranged) const {
    const double least =
        InfoOf(problem_.dtype == DType::kFloat64 ? Format::kFloat64 : Format::kFloat32)
            .least_normal();
    for (size_t i = 0; i < arranged.x.size(); ++i) {
      const double product = std::fabs(arranged.x[i] * arranged.y[i]);
      if (product < least && arranged.x[i] != 0 && arranged.y[i] != 0) return true;
    }
    return false;
  }

  void CutToBudget(std::vector<Model>& models) {
    const int64_t terms = static_cast<int64_t>(telling_.front().x.size());
    size_t kept = 0;
    while (kept < models.size() && steps_ + CostOf(models[kept], terms) <= kMostSteps) {
      steps_ += CostOf(models[kept], terms);
      ++kept;
    }
    result_.untried += static_cast<int64_t>(models.size() - kept);
    models.resize(kept);
    tried_ += static_cast<int64_t>(kept);
  }

  // Models that give the numbers of all elements that tell most.
  std::vector<Model> SurvivorsOf(const std::vector<Model>& models, const Arranged& first) {
    constexpr int64_t kPiece = 256;
    std::vector<uint8_t> survives(models.size());
    parallel_.For(CeilDiv(static_cast<int64_t>(models.size()), kPiece), [&](int64_t piece) {
      Evaluation evaluation(first);
      const size_t begin = static_cast<size_t>(piece * kPiece);
      for (size_t i = begin; i < std::min(models.size(), begin + kPiece); ++i) {
        survives[i] = Gives(evaluation, models[i], values_.front()) && GivesTheOthers(models[i]);
      }
    });
    std::vector<Model> survivors;
    for (size_t i = 0; i < models.size(); ++i) {
      if (survives[i] != 0) survivors.push_back(models[i]);
    }
    return survivors;
  }
  bool Gives(Evaluation& evaluation, const Model& model, double value) const {
    const std::span<const double> sums = evaluation.Of(model);
    return std::any_of(sums.begin(), sums.end(), [&](double sum) { return made_.Is(sum, value); });
  }
  bool GivesTheOthers(const Model& model) const {
    for (size_t i = 1; i < telling_.size(); ++i) {
      const Arranged arranged = Arrange(telling_[i], model.sequence);
      Evaluation evaluation(arranged);
      if (!Gives(evaluation, model, values_[i])) return false;
    }
    return true;
  }

  bool Confirm(const Model& model) {
    const int64_t places = std::max<int64_t>(1, source_.num_places());
    const std::vector<int64_t> elements =
        EvenlyOf(made_.size(), std::max<int64_t>(64, kMostTermsConfirmed / places));
    const std::optional<double> bits = Confirmation(source_, made_, model).At(elements, parallel_);
    if (!bits || *bits < kBitsDemanded + std::log2(static_cast<double>(tried_ + 1))) return false;
    const bool are_all = static_cast<int64_t>(elements.size()) == made_.size();
    const std::string which = are_all ? fmt::format("All {} elements", made_.size())
                                      : fmt::format("{} of {} elements, all that were tried",
                                                    elements.size(), made_.size());
    result_.found =
        Fingerprint{fmt::format("{}: {}", which, Describe(model, source_.is_filter_gradient())),
                    KindOf(model, problem_.dtype), /*bit_for_bit=*/true, model};
    return true;
  }

  const Problem& problem_;
  const TermSource& source_;
  const MadeNumbers& made_;
  const Parallel& parallel_;
  std::vector<Terms> telling_;
  std::vector<double> values_;  // of the elements that tell most
  int64_t steps_ = 0, tried_ = 0;
  ArithmeticSearch result_;
};

}  // namespace

ArithmeticSearch FindArithmetic(const Problem& problem, const Tensor& first, const Tensor& second,
                                const Tensor& made, const Parallel& parallel) {
  if (made.num_elements() == 0 || !problem.HasTerms()) return {};
  const TermSource source(problem, first, second);
  if (source.num_places() > kMostPlaces) return {std::nullopt, 1};
  const MadeNumbers numbers(made);
  ArithmeticSearch search = ModelSearch(problem, source, numbers, parallel).Run();
  if (!search.found) search.found = FindWinograd(problem, first, second, made, parallel);
  if (!search.found) search.found = FindStochasticRounding(source, numbers, parallel);
  return search;
}

}  // namespace convgrad
