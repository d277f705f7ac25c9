// Each usual mistake, made by a kernel of the test's own, must be named by the diagnosis.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "support/diagnosis_testing.h"
#include "support/mistaken_kernel.h"

namespace convgrad::testing {
namespace {

double Truncated(double value, int bits, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), least_exponent) - bits);
  return std::trunc(value / unit) * unit;
}

// The tensor's number that a layout mix-up brings to `at`: its place in the order of axes `order`.
Index4 Reread(const Index4& at, const Index4& sizes, const std::array<size_t, 4>& ours,
              const std::array<size_t, 4>& order) {
  int64_t element = 0;
  for (const size_t axis : order) element = element * sizes[axis] + at[axis];
  Index4 from{};
  for (size_t k = 4; k-- > 0; element /= sizes[ours[k]]) from[ours[k]] = element % sizes[ours[k]];
  return from;
}

Index4 FilterSizes(const Problem& problem) {
  const Shape shape = problem.FilterShape();
  return {shape[0], shape[1], shape[2], shape[3]};
}

bool SwapPads(const Problem& problem, Mistake& mistake) {
  ConvGeometry& g = mistake.geometry;
  if (problem.padding == Padding::kValid) return false;
  std::swap(g.pad_top, g.pad_bottom);
  std::swap(g.pad_left, g.pad_right);
  return true;
}

bool Transpose(const Problem& problem, Mistake& mistake) {
  if (problem.geometry.kernel_h != problem.geometry.kernel_w) return false;
  mistake.filter = [](Index4 at) { return Index4{at[1], at[0], at[2], at[3]}; };
  return true;
}

bool ReadFilterAs(const Problem& problem, Mistake& mistake, std::array<size_t, 4> order) {
  const Index4 sizes = FilterSizes(problem);
  mistake.filter = [=](Index4 at) { return Reread(at, sizes, {0, 1, 2, 3}, order); };
  return true;
}

bool ReadInputAsOther(const Problem& problem, Mistake& mistake) {
  const ConvGeometry& g = problem.geometry;
  const Index4 sizes = {g.batch, g.in_h, g.in_w, g.in_c};
  const std::array<size_t, 4> nhwc = {0, 1, 2, 3}, nchw = {0, 3, 1, 2};
  const bool is_nhwc = problem.data_format == DataFormat::kNHWC;
  mistake.input = [=](Index4 at) {
    return is_nhwc ? Reread(at, sizes, nhwc, nchw) : Reread(at, sizes, nchw, nhwc);
  };
  return is_nhwc;
}

bool Interleave(const Problem& problem, Mistake& mistake) {
  const int64_t groups = problem.geometry.groups, members = problem.geometry.group_out_c;
  if (groups < 2 || members < 2) return false;
  mistake.output = [=](Index4 at) {
    at[3] = at[3] % members * groups + at[3] / members;
    return at;
  };
  return true;
}

bool ShiftRows(const Problem& problem, Mistake& mistake) {
  const int64_t rows = problem.geometry.in_h;
  mistake.input = [=](Index4 at) {
    at[1] = (at[1] + 1) % rows;
    return at;
  };
  return true;
}

bool IsFilterGradient(const Problem& problem) {
  return InfoOf(problem.op).direction == Direction::kBackpropFilter;
}

bool WeighImage(const Problem& problem, Mistake& mistake, double weight) {
  if (!IsFilterGradient(problem) || problem.geometry.batch < 2) return false;
  const int64_t last = problem.geometry.batch - 1;
  mistake.image_weight = [=](int64_t image) { return image == last ? weight : 1; };
  return true;
}

bool Scale(const Problem&, Mistake& mistake, double factor) {
  mistake.result = [=](double sum) { return factor * sum; };
  return true;
}

bool RoundOperands(const Problem& problem, Mistake& mistake) {
  if (problem.dtype == DType::kFloat32) {
    mistake.operand = [](double value) { return Widen(Narrow<BFloat16>(value)); };
  } else if (problem.dtype == DType::kFloat64) {
    mistake.operand = [](double value) { return Widen(Narrow<float>(value)); };
  } else {
    return false;
  }
  return true;
}

bool SumInBFloat16(const Problem& problem, Mistake& mistake) {
  if (problem.dtype == DType::kFloat64 || problem.dtype == DType::kFloat16) return false;
  mistake.sum = [](double sum) { return Widen(Narrow<BFloat16>(sum)); };
  return true;
}

bool SumInFloat16(const Problem& problem, Mistake& mistake) {
  if (problem.dtype == DType::kFloat64 || problem.dtype == DType::kBFloat16) return false;
  mistake.sum = [](double sum) { return Widen(Narrow<Float16>(sum)); };
  return true;
}

const Mishap kMishaps[] = {
    {"filter-flipped",
     [](const Problem& problem, Mistake& mistake) {
       const ConvGeometry g = problem.geometry;
       mistake.filter = [g](Index4 at) {
         return Index4{g.kernel_h - 1 - at[0], g.kernel_w - 1 - at[1], at[2], at[3]};
       };
       return true;
     }},
    {"taps-transposed", Transpose},
    {"channels-transposed",
     [](const Problem& problem, Mistake& mistake) {
       const Index4 sizes = FilterSizes(problem);
       if (InfoOf(problem.op).depthwise || sizes[2] != sizes[3]) return false;
       mistake.filter = [](Index4 at) { return Index4{at[0], at[1], at[3], at[2]}; };
       return true;
     }},
    {"filter-oihw",
     [](const Problem& problem, Mistake& mistake) {
       return ReadFilterAs(problem, mistake, {3, 2, 0, 1});
     }},
    {"filter-depthwise-oihw",
     [](const Problem& problem, Mistake& mistake) {
       return InfoOf(problem.op).depthwise && ReadFilterAs(problem, mistake, {2, 3, 0, 1});
     }},
    {"filter-multiplier-order",
     [](const Problem& problem, Mistake& mistake) {
       return InfoOf(problem.op).depthwise && ReadFilterAs(problem, mistake, {0, 1, 3, 2});
     }},
    {"multiplier-order", Interleave},
    {"input-nchw", ReadInputAsOther},
    {"pads-swapped", SwapPads},
    {"padding-ignored",
     [](const Problem&, Mistake& mistake) {
       mistake.geometry.pad_top = mistake.geometry.pad_left = 0;
       return true;
     }},
    {"window-offset",
     [](const Problem&, Mistake& mistake) {
       ++mistake.geometry.pad_top;
       ++mistake.geometry.pad_left;
       return true;
     }},
    {"dilation-ignored",
     [](const Problem&, Mistake& mistake) {
       mistake.geometry.dilation_h = mistake.geometry.dilation_w = 1;
       return true;
     }},
    {"dilations-swapped",
     [](const Problem&, Mistake& mistake) {
       std::swap(mistake.geometry.dilation_h, mistake.geometry.dilation_w);
       return true;
     }},
    {"strides-swapped",
     [](const Problem&, Mistake& mistake) {
       std::swap(mistake.geometry.stride_h, mistake.geometry.stride_w);
       return true;
     }},
    {"shifted", ShiftRows},
    {"image-missing",
     [](const Problem& problem, Mistake& mistake) { return WeighImage(problem, mistake, 0); }},
    {"image-twice",
     [](const Problem& problem, Mistake& mistake) { return WeighImage(problem, mistake, 2); }},
    {"counted-twice",
     [](const Problem& problem, Mistake& mistake) { return Scale(problem, mistake, 2); }},
    {"sign-flipped",
     [](const Problem& problem, Mistake& mistake) { return Scale(problem, mistake, -1); }},
    {"batch-mean",
     [](const Problem& problem, Mistake& mistake) {
       return Scale(problem, mistake, 1 / static_cast<double>(problem.geometry.batch));
     }},
    {"rectified",
     [](const Problem& problem, Mistake& mistake) {
       mistake.result = [](double sum) { return std::max(sum, 0.0); };
       return InfoOf(problem.op).direction == Direction::kForward;
     }},
    {"operands-rounded", RoundOperands},
    {"result-rounded",
     [](const Problem& problem, Mistake& mistake) {
       mistake.result = [](double sum) { return Widen(Narrow<BFloat16>(sum)); };
       return problem.dtype == DType::kFloat32;
     }},
    {"result-truncated",
     [](const Problem& problem, Mistake& mistake) {
       const bool is_half = problem.dtype == DType::kFloat16;
       mistake.result = [=](double sum) {
         return is_half ? Truncated(sum, 10, -14) : Truncated(sum, 7, -126);
       };
       return problem.dtype == DType::kBFloat16 || is_half;
     }},
    {"narrow-sums", SumInBFloat16},
    {"narrow-sums", SumInFloat16},
};

TEST(Diagnosis, NamesTheUsualMistakes) {
  ExpectNamed(kMishaps, 20261121);
}

}  // namespace
}  // namespace convgrad::testing
