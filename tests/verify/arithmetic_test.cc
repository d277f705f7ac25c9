// Arithmetics of kernels, each written out here as its maker would, and found again from the bits
// of what it made; tensors that no arithmetic made are given no name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "support/arithmetic_kernel.h"
#include "support/diagnosis_testing.h"
#include "support/random_problem.h"
#include "verify/arithmetic/search.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;
using Terms = std::vector<MadeTerm>;

double BF16(double value) {
  return Widen(Narrow<BFloat16>(value));
}
double F16(double value) {
  return Widen(Narrow<Float16>(value));
}

Tensor NormalTensor(DType dtype, const Shape& shape, uint64_t seed, bool one_signed = false) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Tensor tensor(dtype, shape);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double value = normal(random);
      tensor.mutable_data<Stored>()[i] = Narrow<Stored>(one_signed ? std::fabs(value) : value);
    }
  });
  return tensor;
}

struct Layer {
  Problem problem;
  Operands operands;

  Tensor Made(DType stored, const MadeSum& sum) const {
    return ArithmeticKernel(problem, operands).Run(stored, sum);
  }
};

Layer MakeLayer(Op op, DType dtype, const Shape& input, const Shape& filter, uint64_t seed = 1,
                bool one_signed = false) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.dtype = dtype;
  spec.input = input;
  spec.filter = filter;
  Problem problem = MakeProblem(spec);
  problem.op = op;
  const auto& roles = InfoOf(op).operands;
  return {problem,
          {NormalTensor(dtype, problem.ShapeOf(roles[0]), seed, one_signed),
           NormalTensor(dtype, problem.ShapeOf(roles[1]), seed + 1000, one_signed)}};
}

std::string NameOf(const Layer& layer, const Tensor& made) {
  const ArithmeticSearch search =
      FindArithmetic(layer.problem, layer.operands.first, layer.operands.second, made, Parallel(2));
  return search.found ? search.found->kind.name + std::string(": ") + search.found->words
                      : "nothing";
}

// --- sums, as their makers write them ---

float InFloat32(const Terms& terms, size_t begin, size_t end) {
  float sum = 0;
  for (size_t i = begin; i < end; ++i) {
    sum += static_cast<float>(terms[i].x) * static_cast<float>(terms[i].y);
  }
  return sum;
}
float InFloat32(const Terms& terms) {
  return InFloat32(terms, 0, terms.size());
}

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

float Lanes(const Terms& terms, size_t width, bool fused) {
  std::vector<float> lanes(width);
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto x = static_cast<float>(terms[i].x), y = static_cast<float>(terms[i].y);
    lanes[i % width] = fused ? std::fma(x, y, lanes[i % width]) : lanes[i % width] + x * y;
  }
  for (size_t half = width / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

float Pairwise(const Terms& terms, size_t begin, size_t end) {
  if (end - begin == 0) return 0;
  if (end - begin == 1) return InFloat32(terms, begin, end);
  const size_t middle = begin + (end - begin) / 2;
  return Pairwise(terms, begin, middle) + Pairwise(terms, middle, end);
}

// Groups of products and the sum so far as whole numbers of the largest one's last kept bit.
MadeSum MatrixUnit(size_t group, int extra_bits) {
  return [=](const Terms& terms) {
    double sum = 0;
    for (size_t begin = 0; begin < terms.size(); begin += group) {
      const size_t end = std::min(terms.size(), begin + group);
      int largest = sum == 0 ? -1000 : std::ilogb(sum);
      for (size_t i = begin; i < end; ++i) {
        if (terms[i].x == 0 || terms[i].y == 0) continue;
        largest = std::max(largest, std::ilogb(terms[i].x) + std::ilogb(terms[i].y));
      }
      const int last = largest - 23 - extra_bits;
      auto whole = static_cast<int64_t>(std::ldexp(sum, -last));
      for (size_t i = begin; i < end; ++i) {
        whole += static_cast<int64_t>(std::ldexp(terms[i].x * terms[i].y, -last));
      }
      int bits = 0;  // beyond float32's
      while (std::llabs(whole) >> bits >= int64_t{1} << 24) ++bits;
      sum = std::ldexp(static_cast<double>(whole / (int64_t{1} << bits)), last + bits);
    }
    return sum;
  };
}

double Keep(double value) {
  return static_cast<float>(value);
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

// F(2x2, 3x3) as its formulas have it, with sums over channels in so many lanes.
class WinogradByHand {
 public:
  WinogradByHand(const Layer& layer, double (*round)(double), size_t lanes)
      : layer_(layer), g_(layer.problem.geometry), round_(round), lanes_(lanes) {}

  Tensor Run() const {
    Tensor result(layer_.problem.dtype, layer_.problem.ResultShape());
    for (int64_t n = 0; n < g_.batch; ++n) {
      for (int64_t i = 0; i < g_.out_h; i += 2) {
        for (int64_t j = 0; j < g_.out_w; j += 2) {
          for (int64_t o = 0; o < g_.out_c; ++o) AddTile(n, i, j, o, result);
        }
      }
    }
    return result;
  }

 private:
  using Four = std::array<float, 4>;

  static Four OfInput(const Four& d) {
    return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  }
  static Four OfFilter(const Four& g) {
    return {g[0], (g[0] + g[1] + g[2]) / 2, (g[0] - g[1] + g[2]) / 2, g[2]};
  }
  static Four OfOutput(const Four& m) { return {m[0] + m[1] + m[2], m[1] - m[2] - m[3], 0, 0}; }

  // Along each column, then along each row.
  template <class Transform>
  static std::array<Four, 4> Both(std::array<Four, 4> square, const Transform& transform) {
    for (size_t col = 0; col < 4; ++col) {
      const Four along =
          transform({square[0][col], square[1][col], square[2][col], square[3][col]});
      for (size_t row = 0; row < 4; ++row) square[row][col] = along[row];
    }
    for (Four& row : square) row = transform(row);
    return square;
  }

  void AddTile(int64_t n, int64_t i, int64_t j, int64_t o, Tensor& result) const {
    std::vector<std::array<Four, 4>> sums(lanes_);
    for (int64_t c = 0; c < g_.in_c; ++c) {
      std::array<Four, 4> patch{}, taps{};
      for (size_t r = 0; r < 4; ++r) {
        for (size_t t = 0; t < 4; ++t) {
          const int64_t h = i + static_cast<int64_t>(r) - g_.pad_top;
          const int64_t w = j + static_cast<int64_t>(t) - g_.pad_left;
          if (h >= 0 && h < g_.in_h && w >= 0 && w < g_.in_w) {
            patch[r][t] = layer_.operands.first
                              .data<float>()[((n * g_.in_h + h) * g_.in_w + w) * g_.in_c + c];
          }
          if (r < 3 && t < 3) {
            taps[r][t] = layer_.operands.second.data<
                float>()[((static_cast<int64_t>(r) * 3 + static_cast<int64_t>(t)) * g_.in_c + c) *
                             g_.out_c +
                         o];
          }
        }
      }
      const auto inputs = Both(patch, OfInput), filters = Both(taps, OfFilter);
      auto& lane = sums[static_cast<size_t>(c) % lanes_];
      for (size_t p = 0; p < 16; ++p) {
        lane[p / 4][p % 4] += static_cast<float>(round_(inputs[p / 4][p % 4])) *
                              static_cast<float>(round_(filters[p / 4][p % 4]));
      }
    }
    for (size_t lane = 1; lane < lanes_; ++lane) {
      for (size_t p = 0; p < 16; ++p) sums[0][p / 4][p % 4] += sums[lane][p / 4][p % 4];
    }
    const auto outputs = Both(sums[0], OfOutput);
    for (int64_t r = 0; r < 2 && i + r < g_.out_h; ++r) {
      for (int64_t t = 0; t < 2 && j + t < g_.out_w; ++t) {
        result.mutable_data<float>()[((n * g_.out_h + i + r) * g_.out_w + j + t) * g_.out_c + o] =
            outputs[static_cast<size_t>(r)][static_cast<size_t>(t)];
      }
    }
  }

  const Layer& layer_;
  const ConvGeometry& g_;
  double (*round_)(double);
  size_t lanes_;
};

TEST(Arithmetic, NamesWinograd) {
  const Layer layer = MakeLayer(Op::kConv2D, DType::kFloat32, {2, 11, 12, 16}, {3, 3, 16, 12}, 6);
  EXPECT_EQ(NameOf(layer, WinogradByHand(layer, Keep, 1).Run()),
            "winograd: All 3168 elements: Winograd F(2,3) in float32");
  EXPECT_THAT(NameOf(layer, WinogradByHand(layer, Keep, 4).Run()),
              HasSubstr("winograd: The errors of 3168 elements look like those of Winograd F(2,3) "
                        "in float32 (correlation 0."));
  EXPECT_THAT(NameOf(layer, WinogradByHand(layer, BF16, 4).Run()),
              HasSubstr("look like those of Winograd F(2,3) on operands rounded to bfloat16 once "
                        "transformed (correlation 1.00)"));
  // Sums of rounded operands in an order of their own have errors of the same size.
  std::mt19937_64 random(6);
  const MadeSum shuffled = [&](Terms t) {
    for (MadeTerm& term : t) term = {BF16(term.x), BF16(term.y), term.at};
    std::shuffle(t.begin(), t.end(), random);
    return InFloat32(t);
  };
  EXPECT_EQ(NameOf(layer, layer.Made(DType::kFloat32, shuffled)), "nothing");
}

TEST(Arithmetic, SaysThatRoundingLooksStochastic) {
  std::mt19937_64 random(8);
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kBFloat16, {2, 9, 9, 20}, {1, 1, 20, 30}, 7);
  const auto rounded_by = [&](const auto& goes_up) {
    return layer.Made(DType::kBFloat16, [&](const Terms& t) {
      double sum = 0;
      for (const MadeTerm& term : t) sum += term.x * term.y;
      const double unit = std::ldexp(1.0, std::ilogb(sum) - 7),
                   lower = std::floor(sum / unit) * unit;
      return goes_up((sum - lower) / unit) ? lower + unit : lower;
    });
  };
  std::uniform_real_distribution<double> lot(0, 1);
  EXPECT_THAT(NameOf(layer, rounded_by([&](double part) { return lot(random) < part; })),
              HasSubstr("stochastic-rounding: All 600 elements"));
  EXPECT_EQ(NameOf(layer, rounded_by([&](double) { return lot(random) < 0.5; })), "nothing");
  EXPECT_EQ(NameOf(layer, rounded_by([&](double part) { return part > 0.3; })), "nothing");
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
    // Of two terms there is one order.
    const int kind =
        static_cast<int>(layer.problem.MaxTerms() < 4 ? 1 + random() % 7 : random() % 8);
    const Tensor made = Spoilt(layer, kind, random);
    ++tried;
    EXPECT_EQ(NameOf(layer, made), "nothing")
        << "kind " << kind << ", " << i << ": " << layer.problem.ToLine();
  }
  std::printf("spoilt tensors: tried %d\n", tried);
}

TEST(Arithmetic, KnowsPlainSums) {
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kFloat32, {2, 9, 9, 3}, {3, 3, 3, 4}, 9);
  const Tensor made =
      layer.Made(DType::kFloat32, [](const Terms& t) { return Lanes(t, 16, true); });
  for (const int64_t element : {0, 50, 107}) {
    const float value = made.data<float>()[element];
    const auto is_plain = [&](double number) {
      return IsPlainSum(layer.problem, layer.operands.first, layer.operands.second, element,
                        number);
    };
    EXPECT_TRUE(is_plain(value));
    EXPECT_FALSE(is_plain(value * 1.001F));
  }
}

TEST(Arithmetic, RoundsAsTensorsAreStored) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-180, 140);
  for (int i = 0; i < 200'000; ++i) {
    double value = std::ldexp(static_cast<double>(random() >> 11) * 0x1p-53, 0);
    value = std::ldexp(i % 2 == 0 ? value : -value, static_cast<int>(exponent(random)));
    ASSERT_EQ(Round(Format::kBFloat16, value), BF16(value)) << value;
    ASSERT_EQ(Round(Format::kFloat32, value), static_cast<float>(value)) << value;
    const double small = std::ldexp(value, std::ilogb(value) > 0 ? -std::ilogb(value) / 8 : 0);
    ASSERT_EQ(Round(Format::kFloat16, small), F16(small)) << small;
  }
}

}  // namespace
}  // namespace convgrad::testing
