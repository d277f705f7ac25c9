#include "verify/diagnosis.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <mutex>
#include <span>
#include <utility>

#include "base/checked.h"
#include "conv/reference.h"
#include "verify/distance.h"
#include "verify/explanation.h"
#include "verify/hypotheses.h"
#include "verify/oracle.h"
#include "verify/unwritten.h"

namespace convgrad {
namespace {

// An explanation that chance could give less often than once in 2^32 such goldens.
constexpr double kBitsDemanded = 32;

// --- elements to try first ---

// Some positions at which the golden differs from the right result, those that differ most first.
std::vector<int64_t> TellingPositions(const WrongGolden& wrong) {
  constexpr size_t kMost = 128;
  std::vector<std::pair<double, int64_t>> found;
  VisitFloat(wrong.golden.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* actual = wrong.actual.data<Stored>();
    const Stored* golden = wrong.golden.data<Stored>();
    int64_t step = 1, seen = 0;
    for (int64_t i = 0; i < wrong.golden.num_elements(); ++i) {
      const Distance distance = DistanceBetween(actual[i], golden[i]);
      if (distance.same_value() || seen++ % step != 0) continue;
      found.emplace_back(distance.absolute, i);
      if (found.size() < kMost) continue;
      for (size_t k = 0; k < kMost / 2; ++k) found[k] = found[2 * k];  // every second one
      found.resize(kMost / 2);
      step *= 2;
    }
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> positions;
  for (const auto& [difference, position] : found) positions.push_back(position);
  return positions;
}

// --- sums of single elements, operands seen through their views ---

// Nearly exact, quick, and without regard to the ends of double's range.
template <class Stored>
class RoughSum {
 public:
  RoughSum(const Alternative& alternative, const Stored* first, const Stored* second)
      : alternative_(alternative), first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const long double product = static_cast<long double>(alternative_.first.At(first, first_)) *
                                alternative_.second.At(second, second_);
    sum_ += product;
    const auto size = std::fabs(static_cast<double>(product));
    truth_.magnitude += size;
    squares_ += size * size;
    ++truth_.terms;
  }
  void EndBlock() {}
  void EndRun() {}

  // None where only a more careful sum can tell.
  std::optional<Truth> Result() {
    constexpr double kSmallestSafe = 0x1p-400, kLargestSafe = 0x1p+500;
    if (truth_.magnitude != 0 &&
        !(kSmallestSafe < truth_.magnitude && truth_.magnitude < kLargestSafe)) {
      return std::nullopt;
    }
    truth_.high = static_cast<double>(sum_);
    truth_.low = static_cast<double>(sum_ - truth_.high);
    truth_.norm = std::sqrt(squares_);
    return truth_;
  }

 private:
  const Alternative& alternative_;
  const Stored* first_;
  const Stored* second_;
  long double sum_ = 0;
  double squares_ = 0;
  Truth truth_;
};

// One term after another in a narrow type.
template <class Stored>
class SequentialSum {
 public:
  SequentialSum(const Alternative& alternative, const Stored* first, const Stored* second)
      : alternative_(alternative), first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    x_.push_back(alternative_.first.At(first, first_));
    y_.push_back(alternative_.second.At(second, second_));
  }
  void EndBlock() {}
  void EndRun() {}

  double Result() {
    if (alternative_.order.reversed) {
      std::reverse(x_.begin(), x_.end());
      std::reverse(y_.begin(), y_.end());
    }
    return VisitFloat(*alternative_.accumulator, [&](auto tag) {
      using Sum = typename decltype(tag)::Type;
      double sum = 0;
      for (size_t i = 0; i < x_.size(); ++i) {
        const double product = alternative_.order.fused ? 0 : Widen(Narrow<Sum>(x_[i] * y_[i]));
        sum = Widen(
            Narrow<Sum>(alternative_.order.fused ? std::fma(x_[i], y_[i], sum) : sum + product));
      }
      return sum;
    });
  }

 private:
  const Alternative& alternative_;
  const Stored* first_;
  const Stored* second_;
  std::vector<double> x_, y_;
};

// --- one alternative ---

// Whether the output sizes are those that follow from the other numbers. Where they don't, only
// single elements can be computed.
bool FitsWindows(const ConvGeometry& g) {
  const auto fits = [](int64_t in, int64_t pads, int64_t reach, int64_t stride, int64_t out) {
    return in + pads > reach && (in + pads - reach - 1) / stride + 1 == out;
  };
  return g.pad_bottom >= 0 && g.pad_right >= 0 &&
         fits(g.in_h, g.pad_top + g.pad_bottom, (g.kernel_h - 1) * g.dilation_h, g.stride_h,
              g.out_h) &&
         fits(g.in_w, g.pad_left + g.pad_right, (g.kernel_w - 1) * g.dilation_w, g.stride_w,
              g.out_w);
}

// What speaks for an alternative, over all elements or some.
struct Evidence {
  double bits = 0;
  bool exactly = true;
  // For narrow sums: elements of several terms, those that wide sums don't explain, and in how many
  // of these the golden is the larger number.
  int64_t sums = 0, off = 0, larger = 0;

  void Join(const Evidence& other) {
    bits += other.bits;
    exactly &= other.exactly;
    sums += other.sums;
    off += other.off;
    larger += other.larger;
  }
};

class Trial {
 public:
  Trial(const WrongGolden& wrong, const Alternative& alternative, DType accumulator)
      : wrong_(wrong),
        alternative_(alternative),
        accumulator_(accumulator),
        walk_(InPlainOrder(alternative)) {}

  // Whether it may explain these elements; quick.
  bool Survives(std::span<const int64_t> positions) const {
    const Explanation explanation(alternative_, accumulator_, std::nullopt);
    return std::all_of(positions.begin(), positions.end(),
                       [&](int64_t position) { return MayExplain(explanation, position); });
  }

  // What speaks for it once it is found to explain every element; none if it doesn't.
  std::optional<Evidence> Confirm(const Parallel& parallel) const {
    const Tensor first = Seen(alternative_.first, First(), parallel);
    const Tensor second = Seen(alternative_.second, Second(), parallel);
    const Oracle oracle(alternative_.problem, first, second, parallel);
    const Explanation explanation(alternative_, accumulator_, oracle.unit_exponent());
    std::atomic<bool> refuted = false;
    std::mutex joining;
    Evidence whole;
    const auto weigh = [&](int64_t begin, int64_t end, const auto& truth_at) {
      Evidence mine;
      for (int64_t position = begin; position < end && !refuted; ++position) {
        const Truth truth = truth_at(position);
        if (!Explained(explanation, position, truth)) refuted = true;
        Weigh(explanation, position, truth, mine);
      }
      const std::lock_guard lock(joining);
      whole.Join(mine);
    };
    if (!alternative_.result && FitsWindows(alternative_.problem.geometry)) {
      oracle.ForEachPiece([&](int64_t begin, std::span<const Truth> truths) {
        weigh(begin, begin + std::ssize(truths),
              [&](int64_t position) { return truths[static_cast<size_t>(position - begin)]; });
      });
    } else {
      const int64_t num_elements = wrong_.golden.num_elements();
      const int64_t piece = std::clamp<int64_t>(
          (1 << 16) / std::max<int64_t>(1, wrong_.problem.MaxTerms()), 1, 1 << 12);
      parallel.For(CeilDiv(num_elements, piece), [&](int64_t index) {
        weigh(index * piece, std::min(num_elements, (index + 1) * piece),
              [&](int64_t position) { return TruthAt(oracle, position); });
      });
    }
    if (refuted) return std::nullopt;
    return whole;
  }

  // Whether the evidence is beyond chance.
  bool IsConvincing(const Evidence& evidence) const {
    if (alternative_.finish != Finish::kNarrowSums) return evidence.bits >= kBitsDemanded;
    // Rounding errors of narrow sums are everywhere, and in both directions.
    constexpr int64_t kFewest = 16;
    const int64_t minority = std::min(evidence.larger, evidence.off - evidence.larger);
    return evidence.off >= kFewest && evidence.off >= evidence.sums / 4 &&
           minority >= evidence.off / 8;
  }

  int64_t CopiedBytes() const {
    const auto is_changed = [](const View& view) { return view.source || view.change; };
    return (is_changed(alternative_.first) ? First().num_bytes() : 0) +
           (is_changed(alternative_.second) ? Second().num_bytes() : 0);
  }

 private:
  // Blocks of other programs take no terms in pairs.
  static TermWalk InPlainOrder(const Alternative& alternative) {
    Problem problem = alternative.problem;
    problem.dtype = DType::kFloat32;
    return TermWalk(problem);
  }

  const Tensor& First() const {
    return alternative_.operands_are_swapped ? wrong_.second : wrong_.first;
  }
  const Tensor& Second() const {
    return alternative_.operands_are_swapped ? wrong_.first : wrong_.second;
  }

  static Tensor Seen(const View& view, const Tensor& tensor, const Parallel& parallel) {
    if (!view.source && !view.change) return tensor;
    Tensor seen(tensor.dtype(), tensor.shape());
    constexpr int64_t kPiece = 1 << 14;
    VisitFloat(tensor.dtype(), [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      const Stored* from = tensor.data<Stored>();
      Stored* to = seen.mutable_data<Stored>();
      parallel.For(CeilDiv(tensor.num_elements(), kPiece), [&](int64_t piece) {
        const int64_t end = std::min(tensor.num_elements(), (piece + 1) * kPiece);
        for (int64_t i = piece * kPiece; i < end; ++i) to[i] = Narrow<Stored>(view.At(i, from));
      });
    });
    return seen;
  }

  int64_t SourceOf(int64_t position) const {
    return alternative_.result ? alternative_.result(position) : position;
  }

  double GoldenAt(int64_t position) const {
    return VisitFloat(wrong_.golden.dtype(), [&](auto tag) {
      const auto stored = wrong_.golden.data<typename decltype(tag)::Type>()[position];
      return alternative_.golden ? alternative_.golden(BitsOf(stored)) : Widen(stored);
    });
  }
  // The right result's number, read in the same way.
  double ActualAt(int64_t position) const {
    return VisitFloat(wrong_.actual.dtype(), [&](auto tag) {
      const auto stored = wrong_.actual.data<typename decltype(tag)::Type>()[position];
      return alternative_.golden ? alternative_.golden(BitsOf(stored)) : Widen(stored);
    });
  }

  template <template <class> class Sum>
  auto SumAt(int64_t element) const {
    return VisitFloat(wrong_.golden.dtype(), [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      Sum<Stored> sum(alternative_, First().data<Stored>(), Second().data<Stored>());
      walk_.Visit(element, sum);
      return sum.Result();
    });
  }

  bool MayExplain(const Explanation& explanation, int64_t position) const {
    const int64_t element = SourceOf(position);
    if (element < 0) return GoldenAt(position) == 0;
    if (alternative_.finish == Finish::kSequential) return IsSequentialSum(position);
    const std::optional<Truth> truth = SumAt<RoughSum>(element);
    return !truth || explanation.Explains(GoldenAt(position), *truth);
  }

  bool IsSequentialSum(int64_t position) const {
    const double sum = SumAt<SequentialSum>(SourceOf(position)), golden = GoldenAt(position);
    return sum == golden || (std::isnan(sum) && std::isnan(golden));
  }

  Truth TruthAt(const Oracle& oracle, int64_t position) const {
    const int64_t element = SourceOf(position);
    return element < 0 ? Truth{} : oracle.At(element);
  }

  bool Explained(const Explanation& explanation, int64_t position, const Truth& truth) const {
    if (SourceOf(position) < 0) return GoldenAt(position) == 0;
    if (alternative_.finish == Finish::kSequential) return IsSequentialSum(position);
    return explanation.Explains(GoldenAt(position), truth);
  }

  // Only an element that the right result would not have explained speaks for an alternative.
  void Weigh(const Explanation& explanation, int64_t position, const Truth& truth,
             Evidence& evidence) const {
    const double golden = GoldenAt(position), actual = ActualAt(position);
    evidence.exactly &= explanation.IsExact(golden, truth);
    if (alternative_.finish == Finish::kNarrowSums) return WeighSum(golden, truth, evidence);
    const bool excluded = alternative_.finish == Finish::kSequential
                              ? golden != actual
                              : !explanation.Explains(actual, truth);
    if (excluded) evidence.bits += explanation.Surprise(truth);
  }

  // That all its numbers are of the narrow type speaks for narrow sums where the right ones aren't.
  void WeighSum(double golden, const Truth& truth, Evidence& evidence) const {
    const bool is_narrow_anyway = VisitFloat(alternative_.stored, [&](auto tag) {
      return Widen(Narrow<typename decltype(tag)::Type>(truth.rounded)) == truth.rounded;
    });
    if (is_narrow_anyway) return;
    Alternative wide(alternative_.problem);
    const Explanation in_wide_sums(wide, accumulator_, std::nullopt);
    if (truth.terms < 2) return;
    ++evidence.sums;
    if (in_wide_sums.Explains(golden, truth)) return;
    ++evidence.off;
    evidence.larger += std::fabs(golden) > std::fabs(std::ldexp(truth.high, truth.exponent));
  }

  const WrongGolden& wrong_;
  const Alternative& alternative_;
  DType accumulator_;
  TermWalk walk_;
};

// --- all of them ---

class Search {
 public:
  Search(const WrongGolden& wrong, const Parallel& parallel)
      : wrong_(wrong),
        parallel_(parallel),
        hypotheses_(HypothesesFor(wrong)),
        positions_(TellingPositions(wrong)) {}

  static std::vector<Hypothesis> HypothesesFor(const WrongGolden& wrong) {
    std::vector<Hypothesis> all = UnwrittenParts(wrong.problem, wrong.actual, wrong.golden);
    std::vector<Hypothesis> others = AllHypotheses(wrong.problem);
    std::move(others.begin(), others.end(), std::back_inserter(all));
    return all;
  }

  std::optional<Diagnosis> Run() {
    if (positions_.empty()) return std::nullopt;
    const DType dtype = wrong_.problem.dtype;
    const DType wide = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const DType accumulator = wrong_.accumulator.value_or(wide);
    if (IsRight(accumulator)) return found_;
    Try(accumulator, [](const Alternative&) { return true; });
    if (!found_ && !wrong_.accumulator && InfoOf(dtype).bytes == 2) {
      // Its maker may have summed in the type itself on top of that.
      Try(dtype, [](const Alternative& a) { return a.finish == Finish::kRounded; });
    }
    return found_;
  }

 private:
  // Judged by bits or by someone's tolerance, a golden may differ and be right.
  bool IsRight(DType accumulator) {
    const Alternative right(wrong_.problem);
    const Trial trial(wrong_, right, accumulator);
    if (!IsAffordable(trial) || !trial.Survives(positions_)) return false;
    const std::optional<Evidence> evidence = trial.Confirm(parallel_);
    if (!evidence) return false;
    found_ = Diagnosis{"summation-order",
                       evidence->exactly,
                       "the golden is right: its sums were only added up in another order, which "
                       "shows in the last bits; compare with --tolerance auto",
                       {}};
    return true;
  }

  bool IsAffordable(const Trial& trial) const {
    return trial.CopiedBytes() <= wrong_.spare_bytes &&
           wrong_.problem.ValidTerms() <= wrong_.max_terms;
  }

  template <class Wanted>
  void Try(DType accumulator, const Wanted& wanted) {
    std::vector<uint8_t> survives(hypotheses_.size());
    parallel_.For(static_cast<int64_t>(hypotheses_.size()), [&](int64_t i) {
      const Alternative& alternative = hypotheses_[static_cast<size_t>(i)].alternative;
      survives[static_cast<size_t>(i)] =
          wanted(alternative) && Trial(wrong_, alternative, accumulator).Survives(positions_);
    });
    for (size_t i = 0; i < hypotheses_.size(); ++i) {
      if (survives[i] && !IsEnough(hypotheses_[i])) Confirm(hypotheses_[i], accumulator);
    }
  }

  // Narrow sums explain nearly all that is nearly right: the last resort.
  bool IsEnough(const Hypothesis& hypothesis) const {
    constexpr size_t kMostNames = 4;
    if (!found_) return false;
    return hypothesis.alternative.finish == Finish::kNarrowSums ||
           found_->also.size() + 1 >= kMostNames || IsNamed(hypothesis.name);
  }
  bool IsNamed(const std::string& name) const {
    return found_->hypothesis == name ||
           std::find(found_->also.begin(), found_->also.end(), name) != found_->also.end();
  }

  void Confirm(const Hypothesis& hypothesis, DType accumulator) {
    const Trial trial(wrong_, hypothesis.alternative, accumulator);
    if (!IsAffordable(trial)) return;
    const std::optional<Evidence> evidence = trial.Confirm(parallel_);
    if (!evidence || !trial.IsConvincing(*evidence)) return;
    if (found_) {
      found_->also.push_back(hypothesis.name);
    } else {
      found_ = Diagnosis{hypothesis.name, evidence->exactly, hypothesis.sentence, {}};
    }
  }

  const WrongGolden& wrong_;
  const Parallel& parallel_;
  const std::vector<Hypothesis> hypotheses_;
  const std::vector<int64_t> positions_;
  std::optional<Diagnosis> found_;
};

}  // namespace

std::optional<Diagnosis> Diagnose(const WrongGolden& wrong, const Parallel& parallel) {
  return Search(wrong, parallel).Run();
}

}  // namespace convgrad
