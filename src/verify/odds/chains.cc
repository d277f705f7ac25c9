#include "verify/odds/chains.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace convgrad {
namespace {

// --- rounding to the accumulator ---

struct ToFloat64 {
  double operator()(double value) const { return value; }
};
// Rounding to double first changes nothing: it has more than twice the bits, and two.
template <class Stored>
struct ToType {
  double operator()(double value) const { return Widen(Narrow<Stored>(value)); }
};
// Veltkamp's splitting: the leading bits of the significand, to nearest.
struct ToTf32 {
  double operator()(double value) const {
    constexpr double kFactor = 0x1p42 + 1;  // 53 - 11 bits are left out
    const double big = value * kFactor;
    return std::isfinite(big) ? big - (big - value) : value;
  }
};

// The next number of `bits` bits of the significand towards zero.
double CutOff(double value, int bits) {
  const uint64_t mask = ~uint64_t{0} << (53 - bits);
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) & mask);
}

// --- the terms of one element ---

struct Term {
  double x, y;
  double product;  // in double
};

template <class Stored>
class CollectTerms {
 public:
  CollectTerms(const Tensor& first, const Tensor& second, std::vector<Term>& terms)
      : first_(first.data<Stored>()), second_(second.data<Stored>()), terms_(terms) {}

  void Term(int64_t first, int64_t second) {
    const double x = Widen(first_[first]), y = Widen(second_[second]);
    terms_.push_back({x, y, x * y});
  }
  void EndBlock() {}
  void EndRun() {}

 private:
  const Stored* first_;
  const Stored* second_;
  std::vector<struct Term>& terms_;
};

// How many terms lie together: those of one image, or of one tap.
int64_t InnerTerms(const Problem& problem, int64_t terms) {
  const ConvGeometry& g = problem.geometry;
  const Direction direction = InfoOf(problem.op).direction;
  const int64_t inner = direction == Direction::kForward         ? g.group_in_c
                        : direction == Direction::kBackpropInput ? g.group_out_c
                        : g.batch > 0                            ? terms / g.batch
                                                                 : terms;
  return inner > 0 && terms % inner == 0 ? inner : std::max<int64_t>(1, terms);
}

// Largest magnitude first.
void SortBySize(std::vector<Term>& terms) {
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    return std::fabs(a.product) > std::fabs(b.product);
  });
}

// --- sums ---

// In the order of the enum, products rounded before they are added, then fused.
constexpr const char* kPlainOrders[] = {
    "from the first on",
    "from the first on, with fused multiply-adds",
    "from the last on",
    "from the last on, with fused multiply-adds",
    "image by image or tap by tap in turn",
    "image by image or tap by tap in turn, with fused multiply-adds",
};

template <class Round>
class Chain {
 public:
  explicit Chain(bool fused) : fused_(fused) {}

  void Add(const Term& term) {
    const Round round;
    // A product of two floats is exact in double; only those of doubles need more.
    if constexpr (std::is_same_v<Round, ToFloat64>) {
      sum_ = fused_ ? std::fma(term.x, term.y, sum_) : sum_ + term.product;
    } else {
      sum_ = round(sum_ + (fused_ ? term.product : round(term.product)));
    }
  }
  double sum() const { return sum_; }

 private:
  const bool fused_;
  double sum_ = 0;
};

template <class Round>
double PlainSum(const std::vector<Term>& terms, size_t order, size_t inner) {
  Chain<Round> chain(order % 2 == 1);
  const size_t count = terms.size();
  switch (order / 2) {
    case 0:
      for (const Term& term : terms) chain.Add(term);
      break;
    case 1:
      for (size_t i = count; i-- > 0;) chain.Add(terms[i]);
      break;
    default:
      for (size_t i = 0; i < inner; ++i) {
        for (size_t k = i; k < count; k += inner) chain.Add(terms[k]);
      }
  }
  return chain.sum();
}

// Terms of one sign, largest first, then those of the other, smallest first: of all orders the one
// whose partial sums are largest.
template <class Round>
double SumBySign(const std::vector<Term>& by_size, bool positive_first) {
  Chain<Round> chain(false);
  const auto is_first = [&](const Term& term) { return (term.product > 0) == positive_first; };
  for (const Term& term : by_size) {
    if (is_first(term)) chain.Add(term);
  }
  for (size_t i = by_size.size(); i-- > 0;) {
    if (!is_first(by_size[i])) chain.Add(by_size[i]);
  }
  return chain.sum();
}

// As matrix units add: the products of four terms and the sum so far are aligned to the largest of
// them and cut off `extra_bits` beyond the accumulator's last, then their sum is cut off. (M. Fasi,
// N. Higham, M. Mikaitis and S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ
// Computer Science 7 (2021).)
double CutOffSum(const std::vector<Term>& terms, const FloatFormat& accumulator, int extra_bits) {
  constexpr size_t kTogether = 4;
  double sum = 0;
  for (size_t begin = 0; begin < terms.size(); begin += kTogether) {
    const size_t end = std::min(terms.size(), begin + kTogether);
    double largest = std::fabs(sum);
    for (size_t i = begin; i < end; ++i) {
      largest = std::max(largest, std::fabs(terms[i].product));
    }
    if (!(largest > 0) || !std::isfinite(largest)) continue;
    const double unit =
        std::ldexp(1.0, std::ilogb(largest) - accumulator.fraction_bits - extra_bits);
    double added = sum;
    for (size_t i = begin; i < end; ++i) added += std::trunc(terms[i].product / unit) * unit;
    sum = CutOff(added, accumulator.fraction_bits + 1);
  }
  return sum;
}

template <class Round>
ChainLosses Losses(std::vector<Term>& terms, size_t inner, const FloatFormat& accumulator,
                   const Truth& truth, double value, DType stored) {
  // Twice: another order of the kind may lose as much again. What is cut off is lost in one
  // direction and hardly depends on luck.
  constexpr double kRounded = 2, kCut = 1.25;
  const auto signed_loss_of = [&](double sum) {
    const double loss = (std::ldexp(sum, -truth.exponent) - truth.high) - truth.low;
    return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
  };
  const auto loss_of = [&](double sum) { return std::fabs(signed_loss_of(sum)); };
  ChainLosses losses;
  for (size_t order = 0; order < std::size(kPlainOrders); ++order) {
    const double sum = PlainSum<Round>(terms, order, inner);
    losses.natural = std::max(losses.natural, kRounded * loss_of(sum));
    const double rounded = VisitFloat(
        stored, [&](auto tag) { return Widen(Narrow<typename decltype(tag)::Type>(sum)); });
    if (rounded == value) losses.same |= 1U << order;
  }
  // One extra bit leaves the loss of terms and of sums, many leave that of sums alone.
  // A unit of other sizes loses some share of each: at most the larger, or both.
  const double both = signed_loss_of(CutOffSum(terms, accumulator, 1));
  const double of_sums = signed_loss_of(CutOffSum(terms, accumulator, 20));
  const double cut = std::max({std::fabs(both), std::fabs(of_sums), std::fabs(both - of_sums)});
  losses.any = std::max(losses.natural, std::isfinite(cut) ? kCut * cut : cut);
  SortBySize(terms);
  for (const double sum : {PlainSum<Round>(terms, 0, inner), SumBySign<Round>(terms, true),
                           SumBySign<Round>(terms, false)}) {
    losses.any = std::max(losses.any, kRounded * loss_of(sum));
  }
  return losses;
}

}  // namespace

std::span<const char* const> PlainOrders() {
  return kPlainOrders;
}

Chains::Chains(const Problem& problem, const Tensor& first, const Tensor& second,
               const FloatFormat& accumulator)
    : problem_(problem), first_(first), second_(second), accumulator_(accumulator), walk_([&] {
        Problem in_plain_order = problem;
        in_plain_order.dtype = DType::kFloat32;  // others take no terms in pairs
        return TermWalk(in_plain_order);
      }()) {}

ChainLosses Chains::LossesAt(int64_t element, const Truth& truth, double value,
                             DType stored) const {
  std::vector<Term> terms;
  terms.reserve(static_cast<size_t>(truth.terms));
  VisitFloat(problem_.dtype, [&](auto tag) {
    CollectTerms<typename decltype(tag)::Type> collect(first_, second_, terms);
    walk_.Visit(element, collect);
  });
  const auto inner = static_cast<size_t>(InnerTerms(problem_, static_cast<int64_t>(terms.size())));
  const auto losses = [&]<class Round>(Round) {
    return Losses<Round>(terms, inner, accumulator_, truth, value, stored);
  };
  if (accumulator_ == FormatOf(DType::kFloat64)) return losses(ToFloat64{});
  if (accumulator_ == FormatOf(DType::kFloat16)) return losses(ToType<Float16>{});
  if (accumulator_ == FormatOf(DType::kBFloat16)) return losses(ToType<BFloat16>{});
  if (accumulator_ == kTf32Format) return losses(ToTf32{});
  return losses(ToType<float>{});
}

}  // namespace convgrad
