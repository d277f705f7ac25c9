// Arithmetics of kernels, each written out here as its maker would, and found again from the bits
// of what it made; tensors that no arithmetic made are given no name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "support/arithmetic_testing.h"
#include "support/random_problem.h"
#include "verify/arithmetic/search.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

// --- sums, as their makers write them ---

float Fused(const Terms& terms) {
  float sum = 0;
  for (const MadeTerm& term : terms) {
    sum = std::fma(static_cast<float>(term.x), static_cast<float>(term.y), sum);
  }
  return sum;
}

// `pieces` partial sums in float32, each rounded, their total rounded after each addition.
MadeSum Pieces(size_t pieces, double (*partial)(double), double (*total)(double)) {
  return [=](const Terms& terms) {
    const size_t length = (terms.size() + pieces - 1) / pieces;
    double sum = 0;
    for (size_t begin = 0; begin < terms.size(); begin += length) {
      const size_t end = std::min(terms.size(), begin + length);
      sum = total(sum + partial(InFloat32(terms, begin, end)));
    }
    return sum;
  };
}

float Pairwise(const Terms& terms, size_t begin, size_t end) {
  if (end - begin == 0) return 0;
  if (end - begin == 1) return InFloat32(terms, begin, end);
  const size_t middle = begin + (end - begin) / 2;
  return Pairwise(terms, begin, middle) + Pairwise(terms, middle, end);
}

// --- named ---

TEST(Arithmetic, NamesASplitSumInBFloat16) {
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kBFloat16, {8, 64, 64, 16}, {1, 1, 16, 16});
  EXPECT_EQ(NameOf(layer, layer.Made(DType::kBFloat16, Pieces(64, BF16, BF16))),
            "partials-rounded: All 256 elements: 64 partials in bfloat16, in order");
  const MadeSum right = [](const Terms& t) { return InFloat32(t); };
  EXPECT_EQ(NameOf(layer, layer.Made(DType::kBFloat16, right)), "nothing");
}

struct Kernel {
  const char* what;
  DType stored;
  MadeSum sum;
};

class NamedArithmetic : public ::testing::Test {
 protected:
  static void Expect(const Layer& layer, const std::vector<Kernel>& kernels) {
    for (const Kernel& kernel : kernels) {
      EXPECT_THAT(NameOf(layer, layer.Made(kernel.stored, kernel.sum)), HasSubstr(kernel.what));
    }
  }
};

TEST_F(NamedArithmetic, OfFloat32FilterGradients) {
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kFloat32, {4, 13, 11, 5}, {3, 3, 5, 6});
  const DType f32 = DType::kFloat32;
  Expect(layer, {{"sums in float32, in order", f32, [](const Terms& t) { return InFloat32(t); }},
                 {"sums in float32, in order, with fused", f32, Fused},
                 {"from the last term to the first", f32,
                  [](Terms t) {
                    std::reverse(t.begin(), t.end());
                    return InFloat32(t);
                  }},
                 {"over rows, then columns, then images", f32,
                  [](Terms t) {
                    std::stable_sort(t.begin(), t.end(), [](const MadeTerm& a, const MadeTerm& b) {
                      return std::pair(a.at[1], a.at[2]) < std::pair(b.at[1], b.at[2]);
                    });
                    return InFloat32(t);
                  }},
                 {"in 8 lanes", f32, [](const Terms& t) { return Lanes(t, 8, false); }},
                 {"in 64 lanes that are added pairwise by halves, with fused", f32,
                  [](const Terms& t) { return Lanes(t, 64, true); }},
                 {"sums in float32, pairwise", f32,
                  [](const Terms& t) { return Pairwise(t, 0, t.size()); }},
                 {"a partial for each image in float32, in order", f32,
                  [](const Terms& t) {
                    float total = 0;
                    for (size_t i = 0; i < t.size();) {
                      const size_t begin = i;
                      while (i < t.size() && t[i].at[0] == t[begin].at[0]) ++i;
                      total += InFloat32(t, begin, i);
                    }
                    return total;
                  }},
                 {"a partial for each image in bfloat16, in order", f32,
                  [](const Terms& t) {
                    double total = 0;
                    for (size_t i = 0; i < t.size();) {
                      const size_t begin = i;
                      while (i < t.size() && t[i].at[0] == t[begin].at[0]) ++i;
                      total = BF16(total + BF16(InFloat32(t, begin, i)));
                    }
                    return total;
                  }},
                 {"narrow-sums: All 270 elements: sums in float16, in order", f32,
                  [](const Terms& t) {
                    double sum = 0;
                    for (const MadeTerm& term : t) sum = F16(sum + F16(term.x * term.y));
                    return sum;
                  }},
                 {"operands rounded to bfloat16; sums in float32, in order", f32, [](Terms t) {
                    for (MadeTerm& term : t) term = {BF16(term.x), BF16(term.y), term.at};
                    return InFloat32(t);
                  }}});
}

TEST_F(NamedArithmetic, OfSumsOverTaps) {
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    const Layer layer = MakeLayer(op, DType::kFloat32, {2, 7, 9, 24}, {3, 3, 24, 24}, 5);
    const DType f32 = DType::kFloat32;
    Expect(layer,
           {{"sums in float32, in order", f32, [](const Terms& t) { return InFloat32(t); }},
            {"over channels, then tap rows, then tap columns", f32,
             [](Terms t) {
               std::stable_sort(t.begin(), t.end(), [](const MadeTerm& a, const MadeTerm& b) {
                 return a.at[2] < b.at[2];
               });
               return InFloat32(t);
             }},
            {"in order; over blocks of 8 channels, then taps", f32, [](Terms t) {
               std::stable_sort(t.begin(), t.end(), [](const MadeTerm& a, const MadeTerm& b) {
                 return a.at[2] / 8 < b.at[2] / 8;
               });
               return InFloat32(t);
             }}});
  }
}

TEST_F(NamedArithmetic, OfMatrixUnits) {
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kBFloat16, {2, 16, 16, 8}, {1, 1, 8, 16}, 3);
  const DType f32 = DType::kFloat32;
  Expect(layer,
         {{"truncated-sums: All 128 elements: as matrix units sum: 4 products at "
           "a time, aligned to the largest and cut off right",
           f32, MatrixUnit(4, 0)},
          {"8 products at a time, aligned to the largest and cut off 1 bit", f32, MatrixUnit(8, 1)},
          {"16 products at a time, aligned to the largest and cut off 2 bits", f32,
           MatrixUnit(16, 2)}});
}

TEST_F(NamedArithmetic, OfSixteenBitSums) {
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kFloat16, {3, 20, 20, 6}, {1, 1, 6, 10}, 4);
  const DType f16 = DType::kFloat16;
  Expect(layer, {{"12 partials in float16, in order", f16, Pieces(12, F16, F16)},
                 {"12 partials in float16, added in float32", f16, Pieces(12, F16, Keep)},
                 {"12 partials in float32, added in float16", f16, Pieces(12, Keep, F16)},
                 {"sums in float16, in order", f16,
                  [](const Terms& t) {
                    double sum = 0;
                    for (const MadeTerm& term : t) sum = F16(sum + F16(term.x * term.y));
                    return sum;
                  }},
                 {"6 interleaved partials in float16, in order", f16, [](const Terms& t) {
                    double total = 0;
                    for (size_t part = 0; part < 6; ++part) {
                      float sum = 0;
                      for (size_t i = part; i < t.size(); i += 6) {
                        sum += static_cast<float>(t[i].x) * static_cast<float>(t[i].y);
                      }
                      total = F16(total + F16(sum));
                    }
                    return total;
                  }}});
}

// --- not named ---

// Right sums in an order that no loop takes, and numbers that no one summed.
Tensor Spoilt(const Layer& layer, int kind, std::mt19937_64& random) {
  const DType dtype = layer.problem.dtype;
  std::normal_distribution<double> noise;
  Tensor made = layer.Made(dtype, [&](Terms t) -> double {
    if (kind == 0) std::shuffle(t.begin(), t.end(), random);
    if (dtype == DType::kFloat64) {
      double sum = 0;
      for (const MadeTerm& term : t) sum += term.x * term.y;
      return sum;
    }
    return kind == 1 ? Lanes(t, 8, false) : InFloat32(t);
  });
  const auto at = static_cast<int64_t>(random() % static_cast<uint64_t>(made.num_elements()));
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < made.num_elements(); ++i) {
      Stored& number = made.mutable_data<Stored>()[i];
      const double x = Widen(number);
      const double unit = std::ldexp(std::max(1.0, std::fabs(x)), -InfoOf(dtype).fraction_bits);
      double spoilt = x;
      if (kind == 1 && i == at) spoilt = x + 4 * unit;
      if (kind == 2) spoilt = x + 2 * unit * noise(random);
      if (kind == 3) spoilt = x + 16 * unit * noise(random);
      if (kind == 4) spoilt = x * 1.003;
      if (kind == 5) spoilt = noise(random);
      if (kind == 6) spoilt = x + unit;
      if (kind == 7 && i % 7 == at % 7) spoilt = x + (random() % 2 == 0 ? unit : -unit);
      number = Narrow<Stored>(spoilt);
    }
  });
  return made;
}

TEST(Arithmetic, NamesNothingElse) {
  const auto count = static_cast<int>(FromEnvironment("CONVGRAD_SPOILT", 160));
  std::mt19937_64 random(20261123);
  constexpr Op kOps[] = {Op::kConv2D, Op::kConv2DBackpropInput, Op::kConv2DBackpropFilter};
  int tried = 0;
  for (int i = 0; i < count; ++i) {
    const auto draw = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const int64_t kernel = draw(1, 3), channels = draw(1, 6);
    const Layer layer =
        MakeLayer(kOps[i % 3], kDTypes[i / 3 % 4], {draw(1, 3), draw(3, 9), draw(3, 9), channels},
                  {kernel, kernel, channels, draw(1, 6)}, static_cast<uint64_t>(i), i % 5 == 0);
    // Two terms have one order.
    const int kind =
        static_cast<int>(layer.problem.MaxTerms() < 4 ? 1 + random() % 7 : random() % 8);
    const Tensor made = Spoilt(layer, kind, random);
    ++tried;
    EXPECT_EQ(NameOf(layer, made), "nothing")
        << "kind " << kind << ", " << i << ": " << layer.problem.ToLine();
  }
  std::printf("spoilt tensors: tried %d\n", tried);
}

}  // namespace
}  // namespace convgrad::testing
