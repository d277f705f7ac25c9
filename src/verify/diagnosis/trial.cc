#include "verify/diagnosis/trial.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <mutex>

#include "base/checked.h"
#include "verify/truth/distance.h"
#include "verify/truth/rounded.h"

namespace convgrad {
namespace {

// An explanation that chance could give less often than once in 2^32 such goldens.
constexpr double kBitsDemanded = 32;

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

// True if the output sizes are those that follow from the other numbers. Where they don't, only
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

}  // namespace

Trial::Trial(const WrongGolden& wrong, const Alternative& alternative, DType accumulator)
    : wrong_(wrong),
      alternative_(alternative),
      accumulator_(accumulator),
      walk_(InPlainOrder(alternative)) {}

bool Trial::Survives(std::span<const int64_t> positions) const {
  const Explanation explanation(alternative_, accumulator_, std::nullopt);
  return std::all_of(positions.begin(), positions.end(),
                     [&](int64_t position) { return MayExplain(explanation, position); });
}

std::optional<Evidence> Trial::Confirm(const Parallel& parallel) const {
  const Tensor first = Seen(alternative_.first, 0, First(), parallel);
  const Tensor second = Seen(alternative_.second, 1, Second(), parallel);
  const Oracle oracle(alternative_.problem, first, second, parallel);
  const std::optional<int> unit =
      alternative_.bias ? std::nullopt : std::optional(oracle.unit_exponent());
  const Explanation explanation(alternative_, accumulator_, unit);
  std::atomic<bool> refuted = false;
  std::mutex joining;
  Evidence whole;
  const auto weigh = [&](int64_t begin, int64_t end, const auto& truth_at) {
    Evidence mine;
    for (int64_t position = begin; position < end && !refuted; ++position) {
      const Truth truth = WithBias(truth_at(position), position);
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
  constexpr double kBitsOfFit = 24;  // an element says no more
  whole.bits -= kBitsOfFit * static_cast<double>(alternative_.fitted);
  return whole;
}

bool Trial::IsConvincing(const Evidence& evidence) const {
  if (alternative_.finish != Finish::kNarrowSums) return evidence.bits >= kBitsDemanded;
  // Rounding errors of narrow sums are everywhere, and in both directions.
  constexpr int64_t kFewest = 16;
  const int64_t minority = std::min(evidence.larger, evidence.off - evidence.larger);
  return evidence.off >= kFewest && evidence.off >= evidence.sums / 4 &&
         minority >= evidence.off / 8;
}

int64_t Trial::CopiedBytes() const {
  return SeenBytes(alternative_.first, 0) + SeenBytes(alternative_.second, 1);
}

int64_t Trial::SeenBytes(const View& view, int operand) const {
  if (!view.source && !view.change) return 0;
  const Problem& problem = alternative_.problem;
  return problem.NumElements(InfoOf(problem.op).operands[operand]) * InfoOf(problem.dtype).bytes;
}

TermWalk Trial::InPlainOrder(const Alternative& alternative) {
  Problem problem = alternative.problem;
  problem.dtype = DType::kFloat32;
  return TermWalk(problem);
}

const Tensor& Trial::First() const {
  return alternative_.operands_are_swapped ? wrong_.second : wrong_.first;
}

const Tensor& Trial::Second() const {
  return alternative_.operands_are_swapped ? wrong_.first : wrong_.second;
}

Tensor Trial::Seen(const View& view, int operand, const Tensor& tensor,
                   const Parallel& parallel) const {
  if (!view.source && !view.change) return tensor;
  const Problem& problem = alternative_.problem;
  Tensor seen(tensor.dtype(), problem.ShapeOf(InfoOf(problem.op).operands[operand]));
  constexpr int64_t kPiece = 1 << 14;
  VisitFloat(tensor.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* from = tensor.data<Stored>();
    Stored* to = seen.mutable_data<Stored>();
    parallel.For(CeilDiv(seen.num_elements(), kPiece), [&](int64_t piece) {
      const int64_t end = std::min(seen.num_elements(), (piece + 1) * kPiece);
      for (int64_t i = piece * kPiece; i < end; ++i) to[i] = Narrow<Stored>(view.At(i, from));
    });
  });
  return seen;
}

double Trial::GoldenAt(int64_t position) const {
  return VisitFloat(wrong_.golden.dtype(), [&](auto tag) {
    const auto stored = wrong_.golden.data<typename decltype(tag)::Type>()[position];
    return alternative_.golden ? alternative_.golden(BitsOf(stored)) : Widen(stored);
  });
}

double Trial::ActualAt(int64_t position) const {
  return VisitFloat(wrong_.actual.dtype(), [&](auto tag) {
    const auto stored = wrong_.actual.data<typename decltype(tag)::Type>()[position];
    return alternative_.golden ? alternative_.golden(BitsOf(stored)) : Widen(stored);
  });
}

std::optional<Truth> Trial::RoughTruthAt(int64_t element) const {
  return VisitFloat(wrong_.golden.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    RoughSum<Stored> sum(alternative_, First().data<Stored>(), Second().data<Stored>());
    walk_.Visit(element, sum);
    return sum.Result();
  });
}

bool Trial::MayExplain(const Explanation& explanation, int64_t position) const {
  const int64_t element = SourceOf(position);
  if (element < 0) return element == kAnything || GoldenAt(position) == 0;
  const std::optional<Truth> truth = RoughTruthAt(element);
  return !truth || explanation.Explains(GoldenAt(position), WithBias(*truth, position));
}

std::optional<Truth> Trial::RoughAt(int64_t position) const {
  const int64_t element = SourceOf(position);
  return element < 0 ? Truth{} : RoughTruthAt(element);
}

Truth Trial::WithBias(Truth truth, int64_t position) const {
  if (!alternative_.bias || !std::isfinite(truth.high)) return truth;
  const Bias bias = alternative_.bias(position);
  const double sum = std::ldexp(truth.high, truth.exponent);
  const double told = GoldenAt(position) - sum;
  const double added = std::isfinite(told)
                           ? std::clamp(told, bias.value - bias.slack, bias.value + bias.slack)
                           : bias.value;
  const double scaled = std::ldexp(added, -truth.exponent);
  const double whole = truth.high + scaled;
  truth.low += scaled - (whole - truth.high);
  truth.high = whole;
  truth.magnitude += std::fabs(scaled);
  truth.norm = std::hypot(truth.norm, scaled);
  ++truth.terms;
  truth.rounded = RoundedTo(truth, wrong_.problem.dtype);
  return truth;
}

Truth Trial::TruthAt(const Oracle& oracle, int64_t position) const {
  const int64_t element = SourceOf(position);
  return element < 0 ? Truth{} : oracle.At(element);
}

bool Trial::Explained(const Explanation& explanation, int64_t position, const Truth& truth) const {
  const int64_t element = SourceOf(position);
  if (element < 0) return element == kAnything || GoldenAt(position) == 0;
  return explanation.Explains(GoldenAt(position), truth);
}

void Trial::Weigh(const Explanation& explanation, int64_t position, const Truth& truth,
                  Evidence& evidence) const {
  const int64_t element = SourceOf(position);
  if (element == kAnything) return;
  const double golden = GoldenAt(position), actual = ActualAt(position);
  if (element < 0) {
    constexpr double kBitsOfBlank = 4;
    if (actual != 0) evidence.bits += kBitsOfBlank;
    return;
  }
  evidence.exactly &= !alternative_.bias && explanation.IsExact(golden, truth);
  if (alternative_.finish == Finish::kNarrowSums) return WeighSum(golden, truth, evidence);
  if (!explanation.Explains(actual, truth)) evidence.bits += explanation.Surprise(truth);
}

void Trial::WeighSum(double golden, const Truth& truth, Evidence& evidence) const {
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

}  // namespace convgrad
