// A slow kernel of all six operations that can be told to make a mistake: the makers of wrong
// goldens. Its loops are its own, so that it shares none with the library.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "problem/geometry.h"
#include "support/operands.h"
#include "tensor/tensor.h"

namespace convgrad::testing {

using Index4 = std::array<int64_t, 4>;

// Where a tensor's number at (image, row, column, channel), or (kernel row, kernel column, input
// channel, output channel or multiplier), is taken from.
using Misplace = std::function<Index4(Index4)>;
using Misround = std::function<double(double)>;

struct Mistake {
  ConvGeometry geometry;           // that the loops go by; sizes are those of the problem
  Misplace input, filter, output;  // null: where it belongs
  Misround operand;                // of each number that is read
  Misround sum;                    // after each addition
  Misround result;                 // of each number that is stored
  std::function<double(int64_t)> image_weight;
  // Functions of the element's number before `result`, and of what is stored at last.
  std::function<double(int64_t element, double sum)> finish, stored;
  // True if a product is left out, by the places of its input, filter and output.
  std::function<bool(const Index4& x, const Index4& w, const Index4& y)> is_left_out;
  // Where a row or column beyond the input is taken from; null: there is a zero.
  int64_t (*beyond)(int64_t at, int64_t size) = nullptr;

  explicit Mistake(const Problem& problem) : geometry(problem.geometry) {}
};

class MistakenKernel {
 public:
  MistakenKernel(const Problem& problem, const Operands& operands, const Mistake& mistake)
      : problem_(problem),
        operands_(operands),
        mistake_(mistake),
        direction_(InfoOf(problem.op).direction),
        depthwise_(InfoOf(problem.op).depthwise) {}

  Tensor Run() {
    const Shape shape = problem_.ResultShape();
    Tensor result(problem_.dtype, shape);
    sums_.assign(static_cast<size_t>(result.num_elements()), 0);
    const ConvGeometry& g = problem_.geometry;
    for (int64_t n = 0; n < g.batch; ++n) {
      for (int64_t i = 0; i < g.out_h; ++i) {
        for (int64_t j = 0; j < g.out_w; ++j) AddPixel(n, i, j);
      }
    }
    VisitFloat(problem_.dtype, [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      for (int64_t e = 0; e < result.num_elements(); ++e) {
        double number = sums_[static_cast<size_t>(From(e))];
        if (mistake_.finish) number = mistake_.finish(e, number);
        if (mistake_.result) number = mistake_.result(number);
        if (mistake_.stored) number = mistake_.stored(e, number);
        result.mutable_data<Stored>()[e] = Narrow<Stored>(number);
      }
    });
    return result;
  }

 private:
  void AddPixel(int64_t n, int64_t i, int64_t j) {
    const ConvGeometry& g = mistake_.geometry;
    for (int64_t r = 0; r < g.kernel_h; ++r) {
      const int64_t h = Inside(i * g.stride_h + r * g.dilation_h - g.pad_top, g.in_h);
      if (h < 0) continue;
      for (int64_t t = 0; t < g.kernel_w; ++t) {
        const int64_t w = Inside(j * g.stride_w + t * g.dilation_w - g.pad_left, g.in_w);
        if (w < 0) continue;
        for (int64_t o = 0; o < g.out_c; ++o) {
          for (int64_t q = 0; q < g.group_in_c; ++q) {
            const int64_t c = o / g.group_out_c * g.group_in_c + q;
            AddTerm({n, h, w, c}, FilterIndex(r, t, q, o), {n, i, j, o});
          }
        }
      }
    }
  }

  // -1 where there is nothing.
  int64_t Inside(int64_t at, int64_t size) const {
    if (at >= 0 && at < size) return at;
    return mistake_.beyond == nullptr ? -1 : mistake_.beyond(at, size);
  }

  Index4 FilterIndex(int64_t r, int64_t t, int64_t q, int64_t o) const {
    const int64_t multiplier = problem_.geometry.group_out_c;
    return depthwise_ ? Index4{r, t, o / multiplier, o % multiplier} : Index4{r, t, q, o};
  }

  void AddTerm(const Index4& x, const Index4& w, const Index4& y) {
    if (mistake_.is_left_out && mistake_.is_left_out(x, w, y)) return;
    switch (direction_) {
      case Direction::kForward: return Add(At(Role::kOutBackprop, y), Input(x) * Filter(w), y[0]);
      case Direction::kBackpropInput: return Add(At(Role::kInput, x), Filter(w) * Output(y), x[0]);
      case Direction::kBackpropFilter: return Add(At(Role::kFilter, w), Input(x) * Output(y), x[0]);
    }
  }

  void Add(int64_t element, double product, int64_t image) {
    double& sum = sums_[static_cast<size_t>(element)];
    if (mistake_.image_weight) product *= mistake_.image_weight(image);
    if (mistake_.sum) {
      sum = mistake_.sum(sum + mistake_.sum(product));
    } else {
      sum = problem_.dtype == DType::kFloat64
                ? sum + product
                : static_cast<float>(sum + static_cast<float>(product));
    }
  }

  double Input(const Index4& at) const { return Operand(Role::kInput, mistake_.input, at); }
  double Filter(const Index4& at) const { return Operand(Role::kFilter, mistake_.filter, at); }
  double Output(const Index4& at) const { return Operand(Role::kOutBackprop, mistake_.output, at); }

  double Operand(Role role, const Misplace& misplace, Index4 at) const {
    if (misplace) at = misplace(at);
    if (at[0] < 0) return 0;
    const bool is_first = InfoOf(problem_.op).operands[0] == role;
    const Tensor& tensor = is_first ? operands_.first : operands_.second;
    const double value = VisitFloat(problem_.dtype, [&](auto tag) {
      return Widen(tensor.data<typename decltype(tag)::Type>()[At(role, at)]);
    });
    return mistake_.operand ? mistake_.operand(value) : value;
  }

  bool IsChannelsFirst(Role role) const {
    return role != Role::kFilter && problem_.data_format == DataFormat::kNCHW;
  }
  int64_t At(Role role, const Index4& at) const {
    const Shape shape = problem_.ShapeOf(role);
    const Index4 in_order = IsChannelsFirst(role) ? Index4{at[0], at[3], at[1], at[2]} : at;
    int64_t element = 0;
    for (size_t axis = 0; axis < 4; ++axis) element = element * shape[axis] + in_order[axis];
    return element;
  }
  // The element of the sums that the result shows at `element`.
  int64_t From(int64_t element) const {
    const Role role = direction_ == Direction::kForward         ? Role::kOutBackprop
                      : direction_ == Direction::kBackpropInput ? Role::kInput
                                                                : Role::kFilter;
    const Misplace& misplace = role == Role::kInput    ? mistake_.input
                               : role == Role::kFilter ? mistake_.filter
                                                       : mistake_.output;
    if (!misplace) return element;
    const Shape shape = problem_.ShapeOf(role);
    Index4 at{};
    for (size_t axis = 4; axis-- > 0; element /= shape[axis]) at[axis] = element % shape[axis];
    if (IsChannelsFirst(role)) at = {at[0], at[2], at[3], at[1]};
    return At(role, misplace(at));
  }

  const Problem& problem_;
  const Operands& operands_;
  const Mistake& mistake_;
  Direction direction_;
  bool depthwise_;
  std::vector<double> sums_;
};

inline Tensor MakeMistake(const Problem& problem, const Operands& operands,
                          const Mistake& mistake) {
  return MistakenKernel(problem, operands, mistake).Run();
}

}  // namespace convgrad::testing
