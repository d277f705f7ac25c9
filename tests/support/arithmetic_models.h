// Slow models of how kernels sum: right ones in orders usual and odd, and wrong ones. Each makes
// one element from its terms, before the last rounding to the stored type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "verify/truth/float_format.h"

namespace convgrad::testing {

// The terms of one element, image after image.
struct Terms {
  std::vector<double> x, y;
  size_t images;
  DType dtype;  // of the operands, and of the result

  size_t size() const { return x.size(); }
  size_t pixels() const { return x.size() / images; }
};

using Places = std::vector<size_t>;

inline double ToFloat32(double value) {
  return static_cast<float>(value);
}

inline double RoundTo(const FloatFormat& format, double value) {
  if (format == FormatOf(DType::kFloat32)) return ToFloat32(value);
  if (format == FormatOf(DType::kFloat64)) return value;
  return format.Rounded(value);
}

// The leading bits of float32, the others cut off.
inline double CutTo(int fraction_bits, double value) {
  if (value == 0) return value;
  const double unit = std::ldexp(1.0, std::ilogb(value) - fraction_bits);
  return std::trunc(value / unit) * unit;
}

// Adds up term after term, from `sum` on.
class ModelChain {
 public:
  explicit ModelChain(const FloatFormat& format, bool fused = false)
      : format_(format), fused_(fused) {}
  void Add(double x, double y) {
    sum_ = fused_ ? RoundTo(format_, std::fma(x, y, sum_))
                  : RoundTo(format_, sum_ + RoundTo(format_, x * y));
  }
  void Add(double number) { sum_ = RoundTo(format_, sum_ + number); }
  double sum() const { return sum_; }

 private:
  const FloatFormat format_;
  const bool fused_;
  double sum_ = 0;
};

inline FloatFormat WideFormatOf(const Terms& terms) {
  return FormatOf(terms.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
}

inline Places InOrder(size_t count) {
  Places places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

inline Places Strided(size_t count, size_t step) {
  Places places;
  for (size_t i = 0; i < step; ++i) {
    for (size_t k = i; k < count; k += step) places.push_back(k);
  }
  return places;
}

inline Places Shuffled(size_t count, uint64_t seed) {
  Places places = InOrder(count);
  std::shuffle(places.begin(), places.end(), std::mt19937_64(seed));
  return places;
}

// By the terms themselves.
template <class Before>
Places SortedBy(const Terms& terms, const Before& before) {
  Places places = InOrder(terms.size());
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    return before(terms.x[a] * terms.y[a], terms.x[b] * terms.y[b]);
  });
  return places;
}

inline double ChainOver(const Terms& terms, const Places& places, const FloatFormat& format,
                        bool fused) {
  ModelChain chain(format, fused);
  for (const size_t i : places) chain.Add(terms.x[i], terms.y[i]);
  return chain.sum();
}

inline double PairwiseOver(const Terms& terms, size_t begin, size_t end, size_t leaf,
                           const FloatFormat& format, bool fused) {
  if (end - begin <= std::max<size_t>(1, leaf)) {
    ModelChain chain(format, fused);
    for (size_t i = begin; i < end; ++i) chain.Add(terms.x[i], terms.y[i]);
    return chain.sum();
  }
  const size_t middle = (begin + end) / 2;
  return RoundTo(format, PairwiseOver(terms, begin, middle, leaf, format, fused) +
                             PairwiseOver(terms, middle, end, leaf, format, fused));
}

// Which part of so many a term belongs to.
enum class Split { kPieces, kStrided };

// Chains in `inner`, each result rounded to `partial` and added in `outer`.
struct Partials {
  size_t parts;
  Split split;
  FloatFormat inner, partial, outer;
  bool fused = false;
};
inline double PartialsOver(const Terms& terms, const Partials& how) {
  const size_t count = terms.size(), parts = std::clamp<size_t>(how.parts, 1, count);
  ModelChain total(how.outer);
  for (size_t part = 0; part < parts; ++part) {
    ModelChain chain(how.inner, how.fused);
    if (how.split == Split::kStrided) {
      for (size_t i = part; i < count; i += parts) chain.Add(terms.x[i], terms.y[i]);
    } else {
      for (size_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
        chain.Add(terms.x[i], terms.y[i]);
      }
    }
    total.Add(RoundTo(how.partial, chain.sum()));
  }
  return total.sum();
}

// As matrix units add: `together` products aligned to the largest number and cut off `extra` bits
// beyond the accumulator's last, and their sum cut off.
inline double MatrixUnitSum(const Terms& terms, size_t together, int extra) {
  constexpr int kBits = 23;
  double sum = 0;
  for (size_t begin = 0; begin < terms.size(); begin += together) {
    const size_t end = std::min(terms.size(), begin + together);
    double largest = std::fabs(sum);
    for (size_t i = begin; i < end; ++i) {
      largest = std::max(largest, std::fabs(terms.x[i] * terms.y[i]));
    }
    if (largest == 0) continue;
    const double unit = std::ldexp(1.0, std::ilogb(largest) - kBits - extra);
    double added = sum;
    for (size_t i = begin; i < end; ++i) added += std::trunc(terms.x[i] * terms.y[i] / unit) * unit;
    sum = CutTo(kBits, added);
  }
  return sum;
}

// Products of operands in three bfloat16 parts each, the nine or the six largest of them.
inline double SplitOperandsSum(const Terms& terms, int products) {
  const FloatFormat half = FormatOf(DType::kBFloat16);
  ModelChain chain(FormatOf(DType::kFloat32), /*fused=*/true);
  for (size_t i = 0; i < terms.size(); ++i) {
    double x[3], y[3];
    const auto part = [&](double whole, double* parts) {
      for (int k = 0; k < 3; ++k) {
        parts[k] = half.Rounded(whole);
        whole -= parts[k];
      }
    };
    part(terms.x[i], x);
    part(terms.y[i], y);
    for (int order = 4; order >= 0; --order) {
      if (products == 6 && order > 2) continue;
      for (int a = std::max(0, order - 2); a <= std::min(2, order); ++a) {
        chain.Add(x[a], y[order - a]);
      }
    }
  }
  return chain.sum();
}

// W. Kahan's compensated sum.
inline double KahanSum(const Terms& terms) {
  const FloatFormat format = WideFormatOf(terms);
  double sum = 0, lost = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const double term = RoundTo(format, RoundTo(format, terms.x[i] * terms.y[i]) - lost);
    const double next = RoundTo(format, sum + term);
    lost = RoundTo(format, RoundTo(format, next - sum) - term);
    sum = next;
  }
  return sum;
}

// The terms that `keeps` keeps, summed well.
template <class Keeps>
double SumOfSome(const Terms& terms, const Keeps& keeps) {
  ModelChain chain(WideFormatOf(terms));
  for (size_t i = 0; i < terms.size(); ++i) {
    if (keeps(i)) chain.Add(terms.x[i], terms.y[i]);
  }
  return chain.sum();
}

template <class Change>
double SumOfChanged(const Terms& terms, const Change& change) {
  ModelChain chain(WideFormatOf(terms));
  for (size_t i = 0; i < terms.size(); ++i) chain.Add(change(terms.x[i]), change(terms.y[i]));
  return chain.sum();
}

}  // namespace convgrad::testing
