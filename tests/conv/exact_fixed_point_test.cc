// `--precision exact` against sums of integers of 128 bits, rounded by hand, which share no code
// with it: all types, operations and layouts, with data whose sums are ties, cancel, or are
// subnormal. CONVGRAD_EXACT_ELEMENTS says how many elements are compared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "support/draw.h"
#include "support/from_environment.h"

namespace convgrad {
namespace {

using testing::Draw;
__extension__ using Wide = __int128;
__extension__ using WideSize = unsigned __int128;

// A type's numbers are `digits` bits times a power of two, none below 2^least. Operands are
// integers of up to digits + spread bits times 2^scale, so that sums of their products fit a Wide.
struct Domain {
  int digits, least, largest, spread;
  std::vector<int> scales;
};
Domain DomainOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return {11, -24, 16, 8, {-24, -18, -14, -10, -4}};
    case DType::kBFloat16: return {8, -133, 128, 30, {-133, -100, -84, -76, -40, 0, 40}};
    case DType::kFloat32: return {24, -149, 128, 25, {-149, -100, -84, -76, -40, 0, 40}};
    default: return {53, -1074, 1024, 3, {-1074, -560, -545, -537, -30, 0, 500}};
  }
}

enum class Pattern { kAny, kFewBits, kAlike, kOutliers };

// An integer of at most `digits` significant bits.
int64_t DrawInteger(Draw& draw, Pattern pattern, const Domain& domain) {
  const int64_t top = int64_t{1} << domain.digits;
  const int64_t sign = draw.OneIn(2) ? 1 : -1;
  switch (pattern) {
    case Pattern::kAny: return sign * (draw(0, top - 1) << draw(0, domain.spread));
    case Pattern::kFewBits: return sign * (draw(0, 7) << draw(0, domain.digits));
    case Pattern::kAlike:
      return sign * (top * 2 / 3 + draw(-1, 1));  // sums cancel to a few last places
    default:
      return draw.OneIn(9) ? sign * (draw(0, top - 1) << domain.spread) : sign * draw(0, top - 1);
  }
}

struct Operand {
  std::vector<int64_t> numbers;
  int scale = 0;
};

template <class Stored>
Operand DrawOperand(Draw& draw, Pattern pattern, const Domain& domain, Tensor& tensor) {
  Operand operand;
  operand.scale =
      domain.scales[static_cast<size_t>(draw(0, static_cast<int64_t>(domain.scales.size()) - 1))];
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    operand.numbers.push_back(DrawInteger(draw, pattern, domain));
    tensor.mutable_data<Stored>()[i] =
        Narrow<Stored>(std::ldexp(static_cast<double>(operand.numbers.back()), operand.scale));
  }
  return operand;
}

// sum * 2^scale, rounded to nearest even.
double Rounded(Wide sum, int scale, const Domain& domain) {
  if (sum == 0) return 0.0;
  const bool is_negative = sum < 0;
  auto size = static_cast<WideSize>(is_negative ? -sum : sum);
  const auto high = static_cast<uint64_t>(size >> 64), low = static_cast<uint64_t>(size);
  const int bits = high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(low);
  int dropped = bits - domain.digits;
  if (scale + dropped < domain.least) dropped = domain.least - scale;
  if (dropped > 127) {
    size = 0;
  } else if (dropped > 0) {
    const auto half = static_cast<WideSize>(1) << (dropped - 1);
    const auto rest = size & (2 * half - 1);
    size >>= dropped;
    if (rest > half || (rest == half && (size & 1) != 0)) ++size;
    scale += dropped;
  }
  double result = std::ldexp(static_cast<double>(size), scale);
  if (result >= std::ldexp(1.0, domain.largest)) result = std::numeric_limits<double>::infinity();
  return is_negative ? -result : result;
}

// The sizes of a problem, and where its numbers lie.
struct Sizes {
  bool is_depthwise, is_nchw;
  int64_t images, in_h, in_w, in_c, out_h, out_w, out_c, kernel_h, kernel_w, stride, dilation, top,
      left;

  int64_t InputAt(int64_t n, int64_t i, int64_t j, int64_t c) const {
    return is_nchw ? ((n * in_c + c) * in_h + i) * in_w + j
                   : ((n * in_h + i) * in_w + j) * in_c + c;
  }
  int64_t OutputAt(int64_t n, int64_t i, int64_t j, int64_t c) const {
    return is_nchw ? ((n * out_c + c) * out_h + i) * out_w + j
                   : ((n * out_h + i) * out_w + j) * out_c + c;
  }
  int64_t FilterAt(int64_t i, int64_t j, int64_t in, int64_t out) const {
    if (is_depthwise) return (i * kernel_w + j) * out_c + out;
    return ((i * kernel_w + j) * in_c + in) * out_c + out;
  }

  // Calls visit(input, filter, output) for every product of the forward pass.
  template <class Visit>
  void ForEachTerm(const Visit& visit) const {
    const int64_t multiplier = out_c / in_c;
    for (int64_t n = 0; n < images; ++n) {
      for (int64_t y = 0; y < out_h * out_w; ++y) {
        for (int64_t k = 0; k < kernel_h * kernel_w; ++k) {
          const int64_t i = y / out_w * stride + k / kernel_w * dilation - top;
          const int64_t j = y % out_w * stride + k % kernel_w * dilation - left;
          if (i < 0 || i >= in_h || j < 0 || j >= in_w) continue;
          for (int64_t out = 0; out < out_c; ++out) {
            const int64_t first = is_depthwise ? out / multiplier : 0;
            for (int64_t in = first; in < (is_depthwise ? first + 1 : in_c); ++in) {
              visit(InputAt(n, i, j, in), FilterAt(k / kernel_w, k % kernel_w, in, out),
                    OutputAt(n, y / out_w, y % out_w, out));
            }
          }
        }
      }
    }
  }
};

struct Drawn {
  Problem problem;
  Sizes sizes;
};

Drawn DrawProblem(Draw& draw) {
  Sizes s = {};
  s.is_depthwise = draw.OneIn(3);
  s.is_nchw = draw.OneIn(2);
  const bool is_product = draw.OneIn(2);  // of matrices: few terms, so more elements
  s.images = draw(1, 3);
  s.in_c = draw(1, 20);
  s.out_c = s.is_depthwise ? s.in_c * draw(1, 2) : draw(1, 24);
  s.kernel_h = is_product ? 1 : draw(1, 3);
  s.kernel_w = is_product ? 1 : draw(1, 5);
  s.stride = is_product ? 1 : draw(1, 2);
  s.dilation = draw(1, 2);
  s.top = is_product ? 0 : draw(0, 2);
  s.left = is_product ? 0 : draw(0, 2);
  const int64_t most = is_product ? 40 : 14;
  s.in_h = draw(s.kernel_h * 2, most);
  s.in_w = draw(s.kernel_w * 2, most);
  s.out_h = (s.in_h + 2 * s.top - (s.kernel_h - 1) * s.dilation - 1) / s.stride + 1;
  s.out_w = (s.in_w + 2 * s.left - (s.kernel_w - 1) * s.dilation - 1) / s.stride + 1;
  const std::string op = std::string(s.is_depthwise ? "depthwise_conv2d" : "conv2d") +
                         draw.OneOf({"", "_backprop_input", "_backprop_filter"});
  const std::string input = s.is_nchw ? testing::ListOf({s.images, s.in_c, s.in_h, s.in_w})
                                      : testing::ListOf({s.images, s.in_h, s.in_w, s.in_c});
  return {ParseProblem(fmt::format(
              "{} {} {} in={} filter={},{},{},{} strides={},{} dilations={},{} pads={},{},{},{} "
              "padding=EXPLICIT",
              op, draw.OneOf({"float16", "bfloat16", "float32", "float32", "float64"}),
              s.is_nchw ? "NCHW" : "NHWC", input, s.kernel_h, s.kernel_w, s.in_c,
              s.is_depthwise ? s.out_c / s.in_c : s.out_c, s.stride, s.stride, s.dilation,
              s.dilation, s.top, s.top, s.left, s.left)),
          s};
}

// The exact sums of all elements, in units of the product of both scales.
std::vector<Wide> SumsOf(const Drawn& drawn, const Operand& first, const Operand& second,
                         int64_t num_elements) {
  std::vector<Wide> sums(static_cast<size_t>(num_elements));
  const auto add = [&](int64_t to, int64_t a, int64_t b) {
    sums[static_cast<size_t>(to)] += static_cast<Wide>(first.numbers[static_cast<size_t>(a)]) *
                                     second.numbers[static_cast<size_t>(b)];
  };
  switch (InfoOf(drawn.problem.op).direction) {
    case Direction::kForward:
      drawn.sizes.ForEachTerm([&](int64_t x, int64_t w, int64_t y) { add(y, x, w); });
      break;
    case Direction::kBackpropInput:
      drawn.sizes.ForEachTerm([&](int64_t x, int64_t w, int64_t y) { add(x, w, y); });
      break;
    case Direction::kBackpropFilter:
      drawn.sizes.ForEachTerm([&](int64_t x, int64_t w, int64_t y) { add(w, x, y); });
      break;
  }
  return sums;
}

// How many elements were compared.
template <class Stored>
int64_t Compare(const Drawn& drawn, Pattern pattern, Draw& draw) {
  const Problem& problem = drawn.problem;
  const Domain domain = DomainOf(problem.dtype);
  Tensor first(problem.dtype, problem.ShapeOf(InfoOf(problem.op).operands[0]));
  Tensor second(problem.dtype, problem.ShapeOf(InfoOf(problem.op).operands[1]));
  const Operand a = DrawOperand<Stored>(draw, pattern, domain, first);
  const Operand b = DrawOperand<Stored>(draw, pattern, domain, second);
  Execution execution;
  execution.precision = Precision::kExact;
  execution.num_threads = static_cast<int>(draw(1, 2));
  const Tensor result = Compute(problem, first, second, execution);
  const std::vector<Wide> sums = SumsOf(drawn, a, b, result.num_elements());
  for (size_t i = 0; i < sums.size(); ++i) {
    const double actual = static_cast<double>(Widen(result.data<Stored>()[i]));
    const double expected = Rounded(sums[i], a.scale + b.scale, domain);
    if (std::bit_cast<uint64_t>(actual) == std::bit_cast<uint64_t>(expected)) continue;
    ADD_FAILURE() << problem.ToLine() << " element " << i << ": " << actual << " for " << expected;
    break;
  }
  return result.num_elements();
}

TEST(ExactFixedPoint, EveryElementIsTheSumRoundedOnce) {
  const auto num_elements = static_cast<int64_t>(
      FromEnvironment("CONVGRAD_EXACT_ELEMENTS", static_cast<uint64_t>(Rounds(1'500'000))));
  Draw draw(FromEnvironment("CONVGRAD_TEST_SEED", 1));
  int64_t compared = 0;
  while (compared < num_elements && !HasFailure()) {
    const Drawn drawn = DrawProblem(draw);
    const Pattern pattern =
        draw.OneOf({Pattern::kAny, Pattern::kFewBits, Pattern::kAlike, Pattern::kOutliers});
    VisitFloat(drawn.problem.dtype, [&](auto tag) {
      compared += Compare<typename decltype(tag)::Type>(drawn, pattern, draw);
    });
  }
  RecordProperty("elements", std::to_string(compared));
}

}  // namespace
}  // namespace convgrad
