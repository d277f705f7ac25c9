// Slow kernels with an arithmetic of their own: every element's terms, gathered by loops that the
// library does not share, and summed as a test says.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "problem/geometry.h"
#include "support/operands.h"
#include "tensor/tensor.h"

namespace convgrad::testing {

// A product of a sum. `at` is image, row and column of a filter gradient's pixel, else tap row, tap
// column and channel.
struct MadeTerm {
  double x, y;
  std::array<int64_t, 3> at;
};
using MadeSum = std::function<double(const std::vector<MadeTerm>&)>;

class ArithmeticKernel {
 public:
  ArithmeticKernel(const Problem& problem, const Operands& operands)
      : problem_(problem), g_(problem.geometry), operands_(operands) {}

  // Terms come image by image, row by row, column by column; or tap by tap, then channel by
  // channel.
  Tensor Run(DType stored, const MadeSum& sum) {
    Tensor result(stored, problem_.ResultShape());
    VisitFloat(stored, [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      for (int64_t e = 0; e < result.num_elements(); ++e) {
        result.mutable_data<Stored>()[e] = Narrow<Stored>(sum(TermsOf(e)));
      }
    });
    return result;
  }

 private:
  // The tensors are NHWC, without groups.
  std::vector<MadeTerm> TermsOf(int64_t element) {
    terms_.clear();
    switch (InfoOf(problem_.op).direction) {
      case Direction::kForward: AddForward(element); break;
      case Direction::kBackpropInput: AddInputGradient(element); break;
      case Direction::kBackpropFilter: AddFilterGradient(element); break;
    }
    return terms_;
  }

  // In a tensor whose axes behind the first have these sizes.
  static std::array<int64_t, 4> PlaceOf(int64_t element, int64_t b, int64_t c, int64_t d) {
    return {element / d / c / b, element / d / c % b, element / d % c, element % d};
  }

  void AddForward(int64_t element) {
    const auto [n, i, j, o] = PlaceOf(element, g_.out_h, g_.out_w, g_.out_c);
    for (int64_t r = 0; r < g_.kernel_h; ++r) {
      for (int64_t t = 0; t < g_.kernel_w; ++t) {
        const int64_t h = i * g_.stride_h + r * g_.dilation_h - g_.pad_top;
        const int64_t w = j * g_.stride_w + t * g_.dilation_w - g_.pad_left;
        if (h < 0 || h >= g_.in_h || w < 0 || w >= g_.in_w) continue;
        for (int64_t c = 0; c < g_.in_c; ++c) {
          Add(((n * g_.in_h + h) * g_.in_w + w) * g_.in_c + c,
              ((r * g_.kernel_w + t) * g_.in_c + c) * g_.out_c + o, {r, t, c});
        }
      }
    }
  }

  void AddInputGradient(int64_t element) {
    const auto [n, h, w, c] = PlaceOf(element, g_.in_h, g_.in_w, g_.in_c);
    for (int64_t r = 0; r < g_.kernel_h; ++r) {
      for (int64_t t = 0; t < g_.kernel_w; ++t) {
        const int64_t i = h + g_.pad_top - r * g_.dilation_h;
        const int64_t j = w + g_.pad_left - t * g_.dilation_w;
        if (i < 0 || i % g_.stride_h != 0 || i / g_.stride_h >= g_.out_h) continue;
        if (j < 0 || j % g_.stride_w != 0 || j / g_.stride_w >= g_.out_w) continue;
        for (int64_t o = 0; o < g_.out_c; ++o) {
          Add(((r * g_.kernel_w + t) * g_.in_c + c) * g_.out_c + o,
              ((n * g_.out_h + i / g_.stride_h) * g_.out_w + j / g_.stride_w) * g_.out_c + o,
              {r, t, o});
        }
      }
    }
  }

  void AddFilterGradient(int64_t element) {
    const auto [r, t, c, o] = PlaceOf(element, g_.kernel_w, g_.in_c, g_.out_c);
    for (int64_t n = 0; n < g_.batch; ++n) {
      for (int64_t i = 0; i < g_.out_h; ++i) {
        for (int64_t j = 0; j < g_.out_w; ++j) {
          const int64_t h = i * g_.stride_h + r * g_.dilation_h - g_.pad_top;
          const int64_t w = j * g_.stride_w + t * g_.dilation_w - g_.pad_left;
          if (h < 0 || h >= g_.in_h || w < 0 || w >= g_.in_w) continue;
          Add(((n * g_.in_h + h) * g_.in_w + w) * g_.in_c + c,
              ((n * g_.out_h + i) * g_.out_w + j) * g_.out_c + o, {n, i, j});
        }
      }
    }
  }

  void Add(int64_t first, int64_t second, const std::array<int64_t, 3>& at) {
    VisitFloat(problem_.dtype, [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      terms_.push_back({Widen(operands_.first.data<Stored>()[first]),
                        Widen(operands_.second.data<Stored>()[second]), at});
    });
  }

  const Problem& problem_;
  const ConvGeometry& g_;
  const Operands& operands_;
  std::vector<MadeTerm> terms_;
};

}  // namespace convgrad::testing
