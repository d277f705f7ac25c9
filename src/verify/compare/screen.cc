#include "verify/compare/screen.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "conv/precise/widened.h"
#include "kernels/precise/screen.h"
#include "verify/compare/data_comparison.h"
#include "verify/compare/term_counts.h"
#include "verify/odds/tails.h"

namespace convgrad {
namespace {

ScreenFormat FormatFor(const FloatFormat& format) {
  return {format.least_normal(), std::ldexp(1.0, -format.fraction_bits - 1)};
}

// As Judge has it.
ScreenLimits LimitsOf(const Arithmetic& arithmetic, int unit_exponent) {
  const FloatFormat& sums = arithmetic.accumulator;
  ScreenLimits limits;
  limits.is_exact = arithmetic.summation == Summation::kExact;
  limits.roundoff = limits.is_exact ? 0 : sums.unit_roundoff();
  limits.longest_chain = static_cast<double>(arithmetic.longest_chain);
  limits.root_of_longest = std::sqrt(limits.longest_chain);
  Truth no_terms, one_term;
  one_term.terms = 1;
  limits.underflow_once = UnderflowOf(no_terms, arithmetic);
  limits.underflow = UnderflowOf(one_term, arithmetic) - limits.underflow_once;
  limits.usual = kUsualSizes;
  limits.stored = FormatFor(FormatOf(arithmetic.stored));
  limits.accumulator = FormatFor(sums);
  limits.exact_below = ExactClassBelow(sums, unit_exponent);
  limits.unit = std::ldexp(1.0, unit_exponent);
  // Float32 holds every product, or loses less of each than this would notice.
  limits.tiny = unit_exponent >= -149 ? 0 : 0x1p-120;
  limits.relative = 0;
  return limits;
}

// A number that has to be looked at once more, with what it was held against.
template <class Stored>
struct Candidate {
  int64_t element;
  double sum;
  float size;
  double terms, root;
  Stored rounded;
};

// What a thread has seen.
template <class Stored>
struct ScreenState {
  Tally tally;
  ScreenExtremes extremes = {0, std::numeric_limits<double>::infinity(), 0};
  ScreenedOdds odds;
  std::vector<Candidate<Stored>> candidates;
  double relative = 0;  // SizedSums::relative
};

template <class Stored>
class Screen {
 public:
  Screen(const DataQuestion& question, const Oracle& oracle, const CompareOptions& options,
         const Parallel& parallel)
      : question_(question),
        oracle_(oracle),
        most_scratch_bytes_(options.most_scratch_bytes),
        comparison_(question, oracle, options),
        counts_(question.problem),
        kernels_(ScreenKernelsOf<Stored>(SupportedKernels().front().isa)),
        actual_(question.actual.data<Stored>()),
        golden_(question.golden == nullptr ? nullptr : question.golden->data<Stored>()),
        own_(LimitsOf(OwnArithmetic(question.problem.dtype, options.precision),
                      oracle.unit_exponent())),
        foreign_(LimitsOf(
            ForeignArithmetic(question.foreign_type(),
                              AccumulatorOf(question.problem, question.foreign_type(), options)),
            oracle.unit_exponent())),
        seen_(static_cast<size_t>(parallel.num_threads())) {}

  std::optional<Tally> Run() {
    const bool is_shown = oracle_.ForEachSized(most_scratch_bytes_, [&](const SizedSums& sums) {
      if (!has_failed_) Look(sums, seen_[static_cast<size_t>(Parallel::ThreadIndex())]);
    });
    if (!is_shown || has_failed_) return std::nullopt;
    ScreenState<Stored>& whole = seen_.front();
    for (size_t i = 1; i < seen_.size(); ++i) Join(seen_[i], whole);
    if (question_.foreign() != nullptr && !HasNoOdds(whole.odds)) return std::nullopt;
    if (!LookAgain(whole)) return std::nullopt;
    return std::move(whole.tally);
  }

 private:
  static void Join(const ScreenState<Stored>& other, ScreenState<Stored>& whole) {
    whole.tally.Join(other.tally);
    whole.extremes.used = std::max(whole.extremes.used, other.extremes.used);
    whole.extremes.least_seen = std::min(whole.extremes.least_seen, other.extremes.least_seen);
    whole.extremes.hidden_terms =
        std::max(whole.extremes.hidden_terms, other.extremes.hidden_terms);
    whole.odds.count += other.odds.count;
    whole.odds.squares += other.odds.squares;
    whole.odds.largest = std::max(whole.odds.largest, other.odds.largest);
    whole.relative = std::max(whole.relative, other.relative);
    whole.candidates.insert(whole.candidates.end(), other.candidates.begin(),
                            other.candidates.end());
  }

  // True if errors are so small that no test of odds.cc says anything.
  static bool HasNoOdds(const ScreenedOdds& odds) {
    constexpr double kMargin = 1.01;
    const auto count = static_cast<double>(odds.count);
    if (odds.count == 0 || odds.largest == 0) return true;
    return odds.squares * kMargin <= count &&
           LogOddsOfWorst(std::sqrt(odds.largest) * kMargin, count) >= 0;
  }

  void Look(const SizedSums& sums, ScreenState<Stored>& seen) {
    seen.relative = sums.relative;
    for (int64_t at = 0; at < sums.count && !has_failed_;) {
      const TermCounts::Run run = counts_.From(sums.first + at);
      const int64_t count = std::min({kScreenedNumbers, run.count, sums.count - at});
      const auto* rounded = static_cast<const Stored*>(sums.rounded) + at;
      LookAtRun(sums.first + at,
                {sums.sums + at, sums.sizes + at, run.terms, run.roots, run.terms_scale,
                 run.roots_scale, actual_ + sums.first + at, rounded},
                count, seen);
      at += count;
    }
  }

  // Judges what is judged; `numbers` are the actual ones, `golden` the golden's, if there is one.
  void Judge(ScreenedNumbers<Stored> numbers, const Stored* golden, int64_t count,
             ScreenState<Stored>& seen, ScreenBits& doubtful, ScreenBits& exact) const {
    ScreenLimits limits = question_.is_foreign ? foreign_ : own_;
    limits.relative = seen.relative;
    ScreenedOdds* odds = question_.is_foreign ? &seen.odds : nullptr;
    if (golden == nullptr) {
      return kernels_.judge(limits, numbers, count, seen.extremes, doubtful, exact, odds);
    }
    ScreenBits unused;  // the golden's bounds say what the check sees
    ScreenExtremes extremes = {seen.extremes.used, 0, std::numeric_limits<double>::infinity()};
    kernels_.judge(limits, numbers, count, extremes, doubtful, unused, nullptr);
    seen.extremes.used = extremes.used;
    limits = foreign_;
    limits.relative = seen.relative;
    numbers.numbers = golden;
    kernels_.judge(limits, numbers, count, seen.extremes, doubtful, exact, &seen.odds);
  }

  void LookAtRun(int64_t first, const ScreenedNumbers<Stored>& numbers, int64_t count,
                 ScreenState<Stored>& seen) {
    ScreenBits doubtful, exact, special, differ;
    Judge(numbers, golden_ == nullptr ? nullptr : golden_ + first, count, seen, doubtful, exact);
    const Stored* expected = golden_ == nullptr ? numbers.rounded : golden_ + first;
    Tally& tally = seen.tally;
    kernels_.differ(numbers.numbers, expected, own_.stored, LargestBefore(first, tally), count,
                    special, differ);
    for (int64_t at = 0; at < count; at += 64) {
      const auto word = static_cast<size_t>(at / 64);
      const int64_t size = std::min<int64_t>(64, count - at);
      const uint64_t all = ~uint64_t{0} >> (64 - size);
      const uint64_t is_special = special.words[word], is_doubtful = doubtful.words[word] & all;
      tally.elements += size - std::popcount(is_special);
      tally.differ += std::popcount(differ.words[word] & ~is_special);
      tally.exact_class += std::popcount(exact.words[word] & all & ~is_doubtful);
      ForBits(is_special, [&](int64_t bit) {
        comparison_.Measure<Stored>(first + at + bit, Widen(expected[at + bit]), tally);
      });
      ForBits(is_doubtful, [&](int64_t bit) {
        const int64_t i = at + bit;
        seen.candidates.push_back({first + i, numbers.sums[i], numbers.sizes[i],
                                   numbers.terms[i] * numbers.terms_scale,
                                   numbers.roots[i] * numbers.roots_scale, numbers.rounded[i]});
      });
    }
    // Data whose numbers are all alike.
    constexpr int64_t kAlwaysFew = 1 << 12, kFewOf = 8;
    const auto candidates = static_cast<int64_t>(seen.candidates.size());
    if (candidates > kAlwaysFew + tally.elements / kFewOf) has_failed_ = true;
  }

  // Of equals the first element counts, and pieces may come in any order.
  static ScreenDifferences LargestBefore(int64_t first, const Tally& tally) {
    constexpr double kLess = 1 - 0x1p-50;
    const auto largest = [&](const WorstSoFar& worst) {
      return first < worst.element ? worst.value * kLess : worst.value;
    };
    return {largest(tally.abs), largest(tally.rel) * kLess, largest(tally.ulp)};
  }

  template <class Body>
  static void ForBits(uint64_t bits, const Body& body) {
    for (; bits != 0; bits &= bits - 1) body(std::countr_zero(bits));
  }

  // Holds candidates against the extremes of all, and looks at those left by the oracle. False
  // where they are many or one does not pass.
  bool LookAgain(ScreenState<Stored>& seen) const {
    // Those that are as extreme as any.
    seen.extremes.least_seen *= 1 + 0x1p-50;
    seen.extremes.hidden_terms *= 1 - 0x1p-50;
    // Each costs as much as some hundred others.
    const int64_t most = 64 + question_.actual.num_elements() / 64;
    const std::vector<Candidate<Stored>> candidates = std::move(seen.candidates);
    int64_t looked_at = 0;
    for (size_t begin = 0; begin < candidates.size(); begin += kScreenedNumbers) {
      const size_t size = std::min<size_t>(kScreenedNumbers, candidates.size() - begin);
      const std::span<const Candidate<Stored>> some(candidates.data() + begin, size);
      ScreenBits doubtful, exact;
      JudgeAgain(some, seen, doubtful, exact);
      for (size_t i = 0; i < size && looked_at < most; ++i) {
        const auto has = [&](const ScreenBits& bits) { return bits.words[i / 64] >> (i % 64) & 1; };
        if (has(doubtful) == 0) {
          seen.tally.exact_class += static_cast<int64_t>(has(exact));
        } else {
          ++looked_at;
          LookClosely(some[i], seen.tally);
        }
      }
      if (looked_at >= most) return false;
      if (seen.tally.suspect.count() + seen.tally.fail.count() > 0) return false;
    }
    return true;
  }

  void JudgeAgain(std::span<const Candidate<Stored>> some, ScreenState<Stored>& seen,
                  ScreenBits& doubtful, ScreenBits& exact) const {
    std::vector<double> sums, terms, roots;
    std::vector<float> sizes;
    std::vector<Stored> actual, golden, rounded;
    for (const Candidate<Stored>& at : some) {
      sums.push_back(at.sum);
      sizes.push_back(at.size);
      terms.push_back(at.terms);
      roots.push_back(at.root);
      rounded.push_back(at.rounded);
      actual.push_back(actual_[at.element]);
      if (golden_ != nullptr) golden.push_back(golden_[at.element]);
    }
    ScreenedOdds counted = seen.odds;
    Judge({sums.data(), sizes.data(), terms.data(), roots.data(), 1, 1, actual.data(),
           rounded.data()},
          golden_ == nullptr ? nullptr : golden.data(), std::ssize(some), seen, doubtful, exact);
    seen.odds = counted;
  }

  void LookClosely(const Candidate<Stored>& at, Tally& tally) const {
    const Truth truth = oracle_.At(at.element);
    const double expected =
        golden_ == nullptr ? truth.rounded : static_cast<double>(Widen(golden_[at.element]));
    comparison_.JudgeElement(at.element, Widen(actual_[at.element]), expected, truth, truth.rounded,
                             tally);
  }

  const DataQuestion& question_;
  const Oracle& oracle_;
  const int64_t most_scratch_bytes_;
  const DataComparison comparison_;
  const TermCounts counts_;
  const ScreenKernels<Stored>& kernels_;
  const Stored* const actual_;
  const Stored* const golden_;
  const ScreenLimits own_, foreign_;
  std::vector<ScreenState<Stored>> seen_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace

std::optional<Tally> TallyScreened(const DataQuestion& question, const Oracle& oracle,
                                   const CompareOptions& options, const Parallel& parallel) {
  const DType dtype = question.problem.dtype;
  if (dtype == DType::kFloat64 || question.actual.dtype() != dtype ||
      question.foreign_type() != dtype || options.keep_errors) {
    return std::nullopt;
  }
  return VisitFloat(dtype, [&](auto tag) -> std::optional<Tally> {
    using Stored = typename decltype(tag)::Type;
    if constexpr (std::is_same_v<Stored, double>)
      return std::nullopt;
    else
      return Screen<Stored>(question, oracle, options, parallel).Run();
  });
}

}  // namespace convgrad
