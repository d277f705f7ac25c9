// Screening results by their sums; see screen.h. Included once per target.
#if defined(CONVGRAD_KERNELS_SCREEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_SCREEN_INL_H_
#undef CONVGRAD_KERNELS_SCREEN_INL_H_
#else
#define CONVGRAD_KERNELS_SCREEN_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/precise/precise-inl.h"
#include "kernels/precise/screen.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

using ScreenMask = hn::Mask<PreciseTag>;

// Sizes are known but for less than this.
inline constexpr double kSizeSlack = 0x1p-14;

HWY_INLINE PreciseVec SetAll(double value) {
  return hn::Set(PreciseTag(), value);
}
HWY_INLINE ScreenMask AreFinite(PreciseVec number) {
  return hn::Lt(hn::Abs(number), SetAll(std::numeric_limits<double>::infinity()));
}
// Half a unit in the last place of numbers that are not negative.
HWY_INLINE PreciseVec HalfUlps(const ScreenFormat& format, PreciseVec size) {
  constexpr uint64_t kExponent = 0x7FF0000000000000;
  const PreciseTag d;
  const hn::RebindToUnsigned<PreciseTag> du;
  const auto bits = hn::BitCast(du, hn::Max(size, SetAll(format.least_normal)));
  return hn::Mul(hn::BitCast(d, hn::And(bits, hn::Set(du, kExponent))), SetAll(format.half_ulp));
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE PreciseVec LoadSizes(const float* from) {
  return PreciseVec(*from);
}
#else
HWY_INLINE PreciseVec LoadSizes(const float* from) {
  return hn::PromoteTo(PreciseTag(), hn::LoadU(PreciseFloatTag(), from));
}
#endif

HWY_INLINE uint64_t BitsOfMask(ScreenMask mask) {
  uint8_t bits[8] = {};
  hn::StoreMaskBits(PreciseTag(), mask, bits);
  return bits[0];
}

// A vector of numbers with what bounds their errors. kMayBeExact: of some only the exact sum,
// rounded, will do.
template <class Stored, bool kMayBeExact>
class ScreenedVector {
 public:
  HWY_INLINE ScreenedVector(const ScreenLimits& limits, const ScreenExtremes& extremes,
                            const ScreenedNumbers<Stored>& from, int64_t i)
      : limits_(limits),
        extremes_(extremes),
        number_(LoadDoubles(from.numbers + i)),
        sum_(hn::LoadU(PreciseTag(), from.sums + i)),
        size_(LoadSizes(from.sizes + i)),
        terms_(hn::Mul(hn::LoadU(PreciseTag(), from.terms + i), SetAll(from.terms_scale))),
        inverse_root_(hn::Mul(hn::LoadU(PreciseTag(), from.roots + i), SetAll(from.roots_scale))),
        result_(hn::Abs(sum_)),
        exact_(hn::Lt(size_, SetAll(limits.exact_below * (1 - kSizeSlack)))),
        by_rounding_(limits.is_exact ? hn::Eq(terms_, terms_) : exact_),
        is_wrong_(hn::And(by_rounding_, hn::Ne(number_, LoadDoubles(from.rounded + i)))),
        slack_(Slack()),
        least_result_(hn::Sub(result_, slack_)),
        half_ulps_(HalfUlps(limits.stored, least_result_)),
        underflow_(Fma(terms_, SetAll(limits.underflow), SetAll(limits.underflow_once))),
        roundings_(hn::Mul(hn::Min(terms_, SetAll(limits.longest_chain)), SetAll(limits.roundoff))),
        sum_error_(Fma(roundings_, size_, underflow_)),
        least_bound_(Fma(sum_error_, SetAll(1 - kSizeSlack), half_ulps_)) {}

  // True where something can't be told from these numbers, or they tell something new.
  HWY_INLINE ScreenMask IsDoubtful() const {
    const auto has_size = hn::Gt(size_, hn::Zero(PreciseTag()));
    const auto extreme = hn::And(has_size, hn::Or(IsLeast(), HidesMost()));
    auto wrong = IsFar();
    if constexpr (kMayBeExact) wrong = hn::Or(is_wrong_, hn::AndNot(by_rounding_, wrong));
    return hn::Or(hn::Not(IsKnown()), hn::Or(wrong, extreme));
  }

  // Where errors, bounds and terms are known to be so large or small.
  HWY_INLINE void Move(ScreenExtremes& extremes) const {
    const PreciseTag d;
    const auto known = hn::And(IsKnown(), hn::Gt(size_, hn::Zero(d)));
    const auto error = hn::Sub(hn::Abs(hn::Sub(number_, sum_)), slack_);
    const auto most_bound = High(hn::Add(sum_error_, MostHalfUlps()));
    const auto used =
        hn::IfThenElseZero(hn::AndNot(by_rounding_, known),
                           hn::Mul(hn::Div(error, most_bound), SetAll(1 - kSizeSlack)));
    const auto seen = hn::IfThenElse(by_rounding_, MostRounding(), most_bound);
    const auto least = hn::IfThenElse(known, seen, SetAll(extremes.least_seen));
    const auto rest =
        hn::Mul(hn::Div(hn::Add(half_ulps_, underflow_), size_), SetAll(1 - kSizeSlack));
    const auto of_bound = hn::Mul(terms_, hn::Add(roundings_, rest));
    const auto hidden = hn::IfThenElse(
        exact_, ExactHiddenTerms(),
        hn::IfThenElse(by_rounding_, hn::Mul(ExactHiddenTerms(), SetAll(1 - kSizeSlack)),
                       hn::Mul(of_bound, SetAll(1 - 0x1p-50))));
    extremes.used = std::max(extremes.used, hn::GetLane(hn::MaxOfLanes(d, used)));
    extremes.least_seen = std::min(extremes.least_seen, hn::GetLane(hn::MinOfLanes(d, least)));
    extremes.hidden_terms = std::max(
        extremes.hidden_terms, hn::GetLane(hn::MaxOfLanes(d, hn::IfThenElseZero(known, hidden))));
  }

  HWY_INLINE void AddTo(ScreenedOdds& odds) const {
    const PreciseTag d;
    const auto judged = hn::AndNot(exact_, hn::And(IsFinite(), hn::Gt(size_, hn::Zero(d))));
    const auto explained = hn::Add(HalfUlps(limits_.stored, hn::Abs(number_)), underflow_);
    const auto excess = hn::Max(hn::Zero(d), hn::Sub(Error(), explained));
    odds.count += static_cast<int64_t>(hn::CountTrue(d, judged));
    if (hn::AllTrue(d, hn::Eq(excess, hn::Zero(d)))) return;
    // Partial sums are as large as half of all terms of one sign, in some order.
    const auto half = hn::Mul(SetAll(0.5 * (1 - kSizeSlack)), hn::Add(size_, least_result_));
    const auto root = hn::Mul(terms_, inverse_root_);
    const auto in_usual = hn::Mul(hn::Mul(SetAll(limits_.roundoff), root), LeastNorm());
    const auto in_any = hn::Mul(HalfUlps(limits_.accumulator, half), root);
    const auto unit = hn::Mul(hn::Min(in_any, in_usual), SetAll(1 - kSizeSlack));
    const auto sizes = hn::IfThenElseZero(judged, hn::Div(excess, unit));
    const auto squares = hn::Mul(sizes, sizes);
    odds.squares += hn::GetLane(hn::SumOfLanes(d, squares));
    odds.largest = std::max(odds.largest, hn::GetLane(hn::MaxOfLanes(d, squares)));
  }

  HWY_INLINE ScreenMask IsExact() const { return exact_; }

 private:
  static HWY_INLINE PreciseVec High(PreciseVec size) {
    return hn::Mul(size, SetAll(1 + kSizeSlack));
  }
  // What the sum may be off by.
  HWY_INLINE PreciseVec Slack() const {
    const auto slack = hn::Mul(size_, SetAll(limits_.relative * (1 + kSizeSlack)));
    if constexpr (!kMayBeExact) return slack;
    return hn::IfThenElse(exact_, hn::Zero(PreciseTag()), slack);
  }
  HWY_INLINE ScreenMask IsFinite() const {
    return AreFinite(hn::Add(hn::Abs(number_), hn::Add(result_, size_)));
  }
  // False where numbers are not finite, S may have lost something, or it is near the border of the
  // exact class.
  HWY_INLINE ScreenMask IsKnown() const {
    auto known = IsFinite();
    if constexpr (kMayBeExact) {
      const auto is_near = hn::Lt(size_, SetAll(limits_.exact_below * (1 + kSizeSlack)));
      known = hn::And(known, hn::Or(exact_, hn::Not(is_near)));
    }
    if (limits_.tiny == 0) return known;
    return hn::And(known, hn::Ge(size_, hn::Mul(terms_, SetAll(limits_.tiny))));
  }
  // At most.
  HWY_INLINE PreciseVec Error() const { return hn::Add(hn::Abs(hn::Sub(number_, sum_)), slack_); }
  // No more than the root of the sum of squares of the terms, or the result.
  HWY_INLINE PreciseVec LeastNorm() const {
    return hn::Max(hn::Mul(size_, inverse_root_), least_result_);
  }
  // Half a unit of the result that is off by as much as may be, at most.
  HWY_INLINE PreciseVec MostHalfUlps() const {
    return HalfUlps(limits_.stored, hn::Add(High(hn::Add(result_, sum_error_)), slack_));
  }
  // Where only the exact sum will do: half a unit of it, or of products if that is more.
  HWY_INLINE PreciseVec LeastRounding() const { return hn::Max(SetAll(limits_.unit), half_ulps_); }
  HWY_INLINE PreciseVec MostRounding() const {
    return hn::Max(SetAll(limits_.unit), HalfUlps(limits_.stored, hn::Add(result_, slack_)));
  }

  // Farther off than any number before, by its bound, or than is usual.
  HWY_INLINE ScreenMask IsFar() const {
    const auto error = Error();
    const auto root = hn::Min(hn::Mul(terms_, inverse_root_), SetAll(limits_.root_of_longest));
    const auto usual_error = hn::Min(
        sum_error_,
        Fma(hn::Mul(root, SetAll(limits_.usual * limits_.roundoff)), LeastNorm(), underflow_));
    const auto usual = Fma(usual_error, SetAll(1 - kSizeSlack), half_ulps_);
    return hn::Or(hn::Gt(High(error), hn::Mul(SetAll(extremes_.used), least_bound_)),
                  hn::Gt(error, usual));
  }

  HWY_INLINE ScreenMask IsLeast() const {
    auto least = least_bound_;
    if constexpr (kMayBeExact) least = hn::IfThenElse(by_rounding_, LeastRounding(), least);
    return hn::Lt(least, SetAll(extremes_.least_seen));
  }

  // The bound over the average term is K * (roundings + rest / S): of sums of as many terms the
  // first part is the same.
  HWY_INLINE ScreenMask HidesMost() const {
    const auto rest = hn::Add(MostHalfUlps(), underflow_);
    const auto hidden = SetAll(extremes_.hidden_terms);
    const auto spared =
        hn::Sub(SetAll(extremes_.hidden_terms * (1 - 0x1p-48)), hn::Mul(terms_, roundings_));
    auto hides = hn::Gt(hn::Mul(High(rest), terms_), hn::Mul(spared, size_));
    if constexpr (kMayBeExact) {
      const auto of_rounding =
          hn::Gt(hn::Mul(High(MostRounding()), terms_), hn::Mul(hidden, size_));
      hides = hn::Or(hn::And(by_rounding_, of_rounding), hn::AndNot(by_rounding_, hides));
      // Among integers many are the same, and all is known without an error.
      if (hn::AllFalse(PreciseTag(), hn::And(hides, exact_))) return hides;
      hides = hn::And(hides, hn::Or(hn::Not(exact_), hn::Gt(ExactHiddenTerms(), hidden)));
    }
    return hides;
  }
  HWY_INLINE PreciseVec ExactHiddenTerms() const {
    return hn::Div(LeastRounding(), hn::Div(size_, terms_));
  }

  const ScreenLimits& limits_;
  const ScreenExtremes& extremes_;
  PreciseVec number_, sum_, size_, terms_, inverse_root_, result_;
  ScreenMask exact_, by_rounding_, is_wrong_;
  PreciseVec slack_, least_result_, half_ulps_, underflow_, roundings_, sum_error_, least_bound_;
};

// What a vector with a doubt does beside; not often, and not among the registers of the others.
template <bool kMayBeExact, class Stored>
HWY_NOINLINE void MoveExtremes(const ScreenLimits& limits, const ScreenedNumbers<Stored>& numbers,
                               int64_t i, ScreenExtremes& extremes) {
  const ScreenExtremes before = extremes;
  ScreenedVector<Stored, kMayBeExact>(limits, before, numbers, i).Move(extremes);
}

// It judges a vector of numbers, whose bits go from `first` on.
template <bool kMayBeExact, class Stored>
HWY_INLINE void JudgeVector(const ScreenLimits& limits, const ScreenedNumbers<Stored>& numbers,
                            int64_t i, int64_t first, ScreenExtremes& extremes,
                            ScreenBits& doubtful, ScreenBits& exact, ScreenedOdds* odds) {
  const ScreenedVector<Stored, kMayBeExact> vector(limits, extremes, numbers, i);
  const auto doubts = vector.IsDoubtful();
  if (kMayBeExact) exact.words[first / 64] |= BitsOfMask(vector.IsExact()) << (first % 64);
  if (odds != nullptr) vector.AddTo(*odds);
  if (HWY_LIKELY(hn::AllFalse(PreciseTag(), doubts))) return;
  doubtful.words[first / 64] |= BitsOfMask(doubts) << (first % 64);
  MoveExtremes<kMayBeExact>(limits, numbers, i, extremes);
}

// Integers, and what is judged by rounding.
template <class Stored>
HWY_NOINLINE void JudgeExact(const ScreenLimits& limits, const ScreenedNumbers<Stored>& numbers,
                             int64_t i, int64_t first, ScreenExtremes& extremes,
                             ScreenBits& doubtful, ScreenBits& exact, ScreenedOdds* odds) {
  JudgeVector<true>(limits, numbers, i, first, extremes, doubtful, exact, odds);
}

template <class Stored>
HWY_NOINLINE void JudgeRest(const ScreenLimits& limits, const ScreenedNumbers<Stored>& numbers,
                            int64_t i, int64_t count, ScreenExtremes& extremes,
                            ScreenBits& doubtful, ScreenBits& exact, ScreenedOdds* odds) {
  // Empty sums follow, whose bits the caller does not look at.
  const auto rest = static_cast<size_t>(count - i);
  double sums[kPreciseLanes] = {}, terms[kPreciseLanes] = {}, roots[kPreciseLanes] = {};
  float sizes[kPreciseLanes] = {};
  Stored some[kPreciseLanes] = {}, rounded[kPreciseLanes] = {};
  std::memcpy(sums, numbers.sums + i, rest * sizeof(double));
  std::memcpy(terms, numbers.terms + i, rest * sizeof(double));
  std::memcpy(roots, numbers.roots + i, rest * sizeof(double));
  std::memcpy(sizes, numbers.sizes + i, rest * sizeof(float));
  std::memcpy(some, numbers.numbers + i, rest * sizeof(Stored));
  std::memcpy(rounded, numbers.rounded + i, rest * sizeof(Stored));
  JudgeExact<Stored>(
      limits, {sums, sizes, terms, roots, numbers.terms_scale, numbers.roots_scale, some, rounded},
      0, i, extremes, doubtful, exact, odds);
}

template <class Stored>
void JudgeNumbers(const ScreenLimits& limits, const ScreenedNumbers<Stored>& numbers, int64_t count,
                  ScreenExtremes& extremes, ScreenBits& doubtful, ScreenBits& exact,
                  ScreenedOdds* odds) {
  const auto border = SetAll(limits.exact_below * (1 + kSizeSlack));
  int64_t i = 0;
  for (; i + kPreciseLanes <= count; i += kPreciseLanes) {
    const auto may_be_exact = hn::Lt(LoadSizes(numbers.sizes + i), border);
    if (HWY_UNLIKELY(limits.is_exact || !hn::AllFalse(PreciseTag(), may_be_exact))) {
      JudgeExact(limits, numbers, i, i, extremes, doubtful, exact, odds);
    } else {
      JudgeVector<false>(limits, numbers, i, i, extremes, doubtful, exact, odds);
    }
  }
  if (i < count) JudgeRest(limits, numbers, i, count, extremes, doubtful, exact, odds);
}

// Bits of a vector of pairs: those that differ, and those to look at.
template <class Stored>
HWY_INLINE void DifferVector(const Stored* numbers, const Stored* others,
                             const ScreenFormat& stored, const ScreenDifferences& largest,
                             uint64_t& doubtful, uint64_t& differ) {
  const PreciseTag d;
  const auto a = LoadDoubles(numbers), e = LoadDoubles(others);
  const auto size_a = hn::Abs(a), size_e = hn::Abs(e);
  const auto least = hn::Min(size_a, size_e), most = hn::Max(size_a, size_e);
  const auto zero = hn::Zero(d), normal = SetAll(stored.least_normal);
  const auto ordinary = [&](PreciseVec size) {
    return hn::And(hn::Or(hn::Ge(size, normal), hn::Eq(size, zero)), AreFinite(size));
  };
  const auto differs = hn::Not(hn::Eq(a, e));
  const auto special = hn::Not(hn::And(ordinary(size_a), ordinary(size_e)));
  differ = BitsOfMask(differs);
  doubtful = BitsOfMask(special);
  if (differ == 0) return;
  const auto distance = hn::Abs(hn::Sub(a, e));
  const auto ulp = hn::Add(HalfUlps(stored, least), HalfUlps(stored, least));
  const auto far = hn::Or(hn::Gt(distance, SetAll(largest.absolute)),
                          hn::Or(hn::Gt(distance, hn::Mul(SetAll(largest.relative), size_e)),
                                 hn::Gt(distance, hn::Mul(SetAll(largest.ulp), ulp))));
  // Units across zero are not those of either.
  const auto across = hn::Lt(hn::Abs(hn::Add(a, e)), most);
  doubtful |= BitsOfMask(hn::And(differs, hn::Or(far, across)));
}

template <class Stored>
void DifferNumbers(const Stored* numbers, const Stored* others, const ScreenFormat& stored,
                   const ScreenDifferences& largest, int64_t count, ScreenBits& doubtful,
                   ScreenBits& differ) {
  const auto look = [&](const Stored* a, const Stored* e, int64_t first) {
    uint64_t some = 0, differing = 0;
    DifferVector(a, e, stored, largest, some, differing);
    doubtful.words[first / 64] |= some << (first % 64);
    differ.words[first / 64] |= differing << (first % 64);
  };
  int64_t i = 0;
  for (; i + kPreciseLanes <= count; i += kPreciseLanes) look(numbers + i, others + i, i);
  if (i == count) return;
  Stored some[kPreciseLanes] = {}, rest[kPreciseLanes] = {};  // zeros are the same
  std::memcpy(some, numbers + i, static_cast<size_t>(count - i) * sizeof(Stored));
  std::memcpy(rest, others + i, static_cast<size_t>(count - i) * sizeof(Stored));
  look(some, rest, i);
}

template <class Stored>
inline constexpr ScreenKernels<Stored> kScreen = {JudgeNumbers<Stored>, DifferNumbers<Stored>};

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
