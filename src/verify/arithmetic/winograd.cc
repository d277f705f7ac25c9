#include "verify/arithmetic/winograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "order/term_walk.h"
#include "verify/arithmetic/made.h"
#include "verify/arithmetic/terms.h"

namespace convgrad {
namespace {

constexpr ModelKind kWinograd = {
    "winograd",
    "Its errors are larger than those of sums; where that matters, choose a direct "
    "algorithm there",
    /*is_mistake=*/false};

constexpr size_t kMostPoints = 6;
using Square = std::array<float, kMostPoints * kMostPoints>;  // rows of kMostPoints

// F(m x m, 3 x 3) with the matrices that all libraries have (A. Lavin and S. Gray, "Fast algorithms
// for convolutional neural networks", CVPR 2016): n = m + 2 points.
struct Transform {
  size_t outputs, points;
  float input[6][6], filter[6][3], output[4][6];
};
constexpr Transform kTransforms[] = {
    {2,
     4,
     {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
     {{1, 0, 0}, {.5F, .5F, .5F}, {.5F, -.5F, .5F}, {0, 0, 1}},
     {{1, 1, 1, 0}, {0, 1, -1, -1}}},
    {4,
     6,
     {{4, 0, -5, 0, 1, 0},
      {0, -4, -4, 1, 1, 0},
      {0, 4, -4, -1, 1, 0},
      {0, -2, -1, 2, 1, 0},
      {0, 2, -1, -2, 1, 0},
      {0, 4, 0, -5, 0, 1}},
     {{1 / 4.F, 0, 0},
      {-1 / 6.F, -1 / 6.F, -1 / 6.F},
      {-1 / 6.F, 1 / 6.F, -1 / 6.F},
      {1 / 24.F, 1 / 12.F, 1 / 6.F},
      {1 / 24.F, -1 / 12.F, 1 / 6.F},
      {0, 0, 1}},
     {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}},
};

// How it is carried out.
struct Manner {
  const Transform& transform;
  Format transformed;  // to which operands are rounded once they are transformed
  bool fused;          // sums over channels
  bool columns_first;  // of each transform
};

// matrix * square * matrix^T, each sum in float32 and in order.
template <size_t kColumns>
Square Sandwich(const float (*matrix)[kColumns], size_t rows, size_t columns, const Square& square,
                bool columns_first) {
  const auto at = [](const Square& s, size_t i, size_t j, bool swapped) {
    return swapped ? s[j * kMostPoints + i] : s[i * kMostPoints + j];
  };
  // One side: matrix * square, or square * matrix^T where `from_right`.
  const auto side = [&](const Square& s, size_t others, bool from_right) {
    Square product{};
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < others; ++j) {
        float sum = 0;
        for (size_t k = 0; k < columns; ++k) {
          if (matrix[i][k] != 0) sum += matrix[i][k] * at(s, k, j, from_right);
        }
        product[from_right ? j * kMostPoints + i : i * kMostPoints + j] = sum;
      }
    }
    return product;
  };
  return side(side(square, columns, columns_first), rows, !columns_first);
}

// A convolution of the one kind that Winograd's is, in numbers of float32: input gradients are
// convolutions of out_backprop with the filter turned round.
class PlainConvolution {
 public:
  PlainConvolution(const Problem& problem, const Tensor& first, const Tensor& second)
      : g_(problem.geometry), is_forward_(InfoOf(problem.op).direction == Direction::kForward) {
    const Tensor& source = is_forward_ ? first : second;
    const Tensor& filter = is_forward_ ? second : first;
    in_h_ = is_forward_ ? g_.in_h : g_.out_h;
    in_w_ = is_forward_ ? g_.in_w : g_.out_w;
    in_c_ = is_forward_ ? g_.in_c : g_.out_c;
    out_h_ = is_forward_ ? g_.out_h : g_.in_h;
    out_w_ = is_forward_ ? g_.out_w : g_.in_w;
    out_c_ = is_forward_ ? g_.out_c : g_.in_c;
    pad_top_ = is_forward_ ? g_.pad_top : 2 - g_.pad_top;
    pad_left_ = is_forward_ ? g_.pad_left : 2 - g_.pad_left;
    from_ = DataStrides::Of(problem.data_format, in_h_, in_w_, in_c_);
    to_ = DataStrides::Of(problem.data_format, out_h_, out_w_, out_c_);
    source_ = Numbers(source);
    filter_ = Numbers(filter);
  }

  float Source(int64_t n, int64_t i, int64_t j, int64_t c) const {
    if (i < 0 || i >= in_h_ || j < 0 || j >= in_w_) return 0;
    return source_[static_cast<size_t>(from_.At(n, i, j, c))];
  }
  float Filter(int64_t r, int64_t t, int64_t c, int64_t o) const {
    if (is_forward_) {
      return filter_[static_cast<size_t>(((r * 3 + t) * in_c_ + c) * out_c_ + o)];
    }
    return filter_[static_cast<size_t>((((2 - r) * 3 + 2 - t) * out_c_ + o) * in_c_ + c)];
  }

  int64_t in_h_, in_w_, in_c_, out_h_, out_w_, out_c_, pad_top_, pad_left_;
  DataStrides from_{}, to_{};

 private:
  static std::vector<float> Numbers(const Tensor& tensor) {
    std::vector<float> numbers(static_cast<size_t>(tensor.num_elements()));
    VisitFloat(tensor.dtype(), [&](auto tag) {
      const auto* elements = tensor.data<typename decltype(tag)::Type>();
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<float>(Widen(elements[i]));
      }
    });
    return numbers;
  }

  const ConvGeometry& g_;
  bool is_forward_;
  std::vector<float> source_, filter_;
};

// The first `images` images of the result.
class WinogradKernel {
 public:
  WinogradKernel(const PlainConvolution& conv, const Manner& manner)
      : conv_(conv), manner_(manner) {
    for (int64_t c = 0; c < conv.in_c_; ++c) {
      for (int64_t o = 0; o < conv.out_c_; ++o) filters_.push_back(TransformedFilter(c, o));
    }
  }

  std::vector<float> Run(int64_t images, int64_t num_elements, const Parallel& parallel) const {
    std::vector<float> result(static_cast<size_t>(num_elements));
    const auto step = static_cast<int64_t>(manner_.transform.outputs);
    const int64_t rows = (conv_.out_h_ + step - 1) / step;
    parallel.For(images * rows, [&](int64_t index) {
      for (int64_t j = 0; j < conv_.out_w_; j += step) {
        AddTile(index / rows, index % rows * step, j, result);
      }
    });
    return result;
  }

 private:
  Square Rounded(Square square) const {
    for (float& number : square) number = static_cast<float>(Round(manner_.transformed, number));
    return square;
  }
  Square TransformedFilter(int64_t c, int64_t o) const {
    Square taps{};
    for (size_t r = 0; r < 3; ++r) {
      for (size_t t = 0; t < 3; ++t) {
        taps[r * kMostPoints + t] =
            conv_.Filter(static_cast<int64_t>(r), static_cast<int64_t>(t), c, o);
      }
    }
    const Transform& transform = manner_.transform;
    return Rounded(Sandwich<3>(transform.filter, transform.points, 3, taps, manner_.columns_first));
  }
  Square TransformedInput(int64_t n, int64_t i, int64_t j, int64_t c) const {
    const Transform& transform = manner_.transform;
    Square patch{};
    for (size_t r = 0; r < transform.points; ++r) {
      for (size_t t = 0; t < transform.points; ++t) {
        patch[r * kMostPoints + t] = conv_.Source(n, i - conv_.pad_top_ + static_cast<int64_t>(r),
                                                  j - conv_.pad_left_ + static_cast<int64_t>(t), c);
      }
    }
    return Rounded(Sandwich<6>(transform.input, transform.points, transform.points, patch,
                               manner_.columns_first));
  }

  void AddTile(int64_t n, int64_t i, int64_t j, std::vector<float>& result) const {
    std::vector<Square> inputs;
    for (int64_t c = 0; c < conv_.in_c_; ++c) inputs.push_back(TransformedInput(n, i, j, c));
    const Transform& transform = manner_.transform;
    for (int64_t o = 0; o < conv_.out_c_; ++o) {
      Square sums{};
      for (size_t c = 0; c < inputs.size(); ++c) {
        const Square& filter =
            filters_[c * static_cast<size_t>(conv_.out_c_) + static_cast<size_t>(o)];
        for (size_t p = 0; p < transform.points * kMostPoints; ++p) {
          sums[p] = manner_.fused ? std::fma(inputs[c][p], filter[p], sums[p])
                                  : sums[p] + inputs[c][p] * filter[p];
        }
      }
      const Square outputs = Sandwich<6>(transform.output, transform.outputs, transform.points,
                                         sums, manner_.columns_first);
      for (size_t r = 0; r < transform.outputs; ++r) {
        for (size_t t = 0; t < transform.outputs; ++t) {
          const int64_t row = i + static_cast<int64_t>(r), col = j + static_cast<int64_t>(t);
          if (row >= conv_.out_h_ || col >= conv_.out_w_) continue;
          result[static_cast<size_t>(conv_.to_.At(n, row, col, o))] = outputs[r * kMostPoints + t];
        }
      }
    }
  }

  const PlainConvolution& conv_;
  const Manner manner_;
  std::vector<Square> filters_;
};

// The numbers, and what they should be.
struct Held {
  int64_t element;
  double value, exact, norm;
};

// Errors without their mean and without what grows with the exact sum, which a wrong factor
// or a bias of any origin has too.
std::vector<double> Centred(std::vector<double> errors, const std::vector<double>& sizes) {
  const auto count = static_cast<double>(errors.size());
  double mean = 0, mean_size = 0, product = 0, square = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    mean += errors[i] / count;
    mean_size += sizes[i] / count;
  }
  for (size_t i = 0; i < errors.size(); ++i) {
    product += (errors[i] - mean) * (sizes[i] - mean_size);
    square += (sizes[i] - mean_size) * (sizes[i] - mean_size);
  }
  const double slope = square > 0 ? product / square : 0;
  for (size_t i = 0; i < errors.size(); ++i) errors[i] -= mean + slope * (sizes[i] - mean_size);
  return errors;
}

// How alike two kinds of errors are, in units of each element's norm.
class Likeness {
 public:
  Likeness(const std::vector<double>& made, const std::vector<double>& simulated) {
    for (size_t i = 0; i < made.size(); ++i) {
      products_ += made[i] * simulated[i];
      made_ += made[i] * made[i];
      simulated_ += simulated[i] * simulated[i];
    }
    count_ = static_cast<double>(made.size());
  }
  double Correlation() const {
    const double size = std::sqrt(made_ * simulated_);
    return size > 0 ? products_ / size : 0;
  }
  // Errors that have nothing in common correlate as much once in 2^Bits() (their correlation is
  // nearly normal, of variance 1 / count).
  double Bits() const {
    const double r = std::max(0.0, Correlation());
    return count_ * r * r / 2 * std::log2(std::exp(1.0));
  }
  // They must be of the same size, too. Right results have less than 0.1 in common, the last
  // rounding; Winograd's own with sums over channels in another order, 0.3 to 0.9.
  bool AreAlike() const {
    return Correlation() >= 0.25 && made_ <= 4 * simulated_ && simulated_ <= 4 * made_;
  }

 private:
  double products_ = 0, made_ = 0, simulated_ = 0, count_ = 0;
};

bool Applies(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return InfoOf(problem.op).direction != Direction::kBackpropFilter && g.groups == 1 &&
         problem.dtype != DType::kFloat64 && g.kernel_h == 3 && g.kernel_w == 3 &&
         g.stride_h == 1 && g.stride_w == 1 && g.dilation_h == 1 && g.dilation_w == 1;
}

class WinogradSearch {
 public:
  WinogradSearch(const Problem& problem, const Tensor& first, const Tensor& second,
                 const Tensor& made, const Parallel& parallel)
      : conv_(problem, first, second), made_(made), parallel_(parallel) {
    // As many images as can be held against exact sums in a second.
    constexpr int64_t kMostTerms = int64_t{1} << 26;
    const int64_t batch = problem.geometry.batch;
    const int64_t of_one = std::max<int64_t>(1, problem.ValidTerms() / batch);
    images_ = std::clamp<int64_t>(kMostTerms / of_one, 1, batch);
    if (of_one > 8 * kMostTerms) images_ = 0;
    Hold(TermSource(problem, first, second));
  }

  std::optional<Fingerprint> Run() {
    // Where most of the error is the last rounding, right results have it in common.
    if (held_.empty() || !errors_show_) return std::nullopt;
    for (const Transform& transform : kTransforms) {
      for (const Format format :
           {Format::kFloat32, Format::kTf32, Format::kBFloat16, Format::kFloat16}) {
        for (const bool fused : {true, false}) {
          for (const bool columns_first : {false, true}) {
            Try({transform, format, fused, columns_first});
            if (found_ && found_->bit_for_bit) return found_;
          }
        }
      }
    }
    return found_;
  }

 private:
  void Hold(const TermSource& source) {
    const int64_t of_image = conv_.out_h_ * conv_.out_w_ * conv_.out_c_;
    held_.resize(static_cast<size_t>(images_ * of_image));
    parallel_.For(images_ * conv_.out_h_, [&](int64_t row) {
      const int64_t begin = row * conv_.out_w_ * conv_.out_c_;
      for (int64_t e = begin; e < begin + conv_.out_w_ * conv_.out_c_; ++e) {
        const Terms terms = source.Of(e);
        held_[static_cast<size_t>(e)] = {e, made_.At(e), terms.exact, terms.norm};
      }
    });
    double roundings = 0;
    for (const Held& held : held_) {
      if (held.norm == 0) continue;
      const double error = (held.value - held.exact) / held.norm;
      const double unit = InfoOf(made_.format()).Ulp(std::fabs(held.exact)) / held.norm;
      errors_.push_back(error);
      sizes_.push_back(held.exact / held.norm);
      roundings += unit * unit / 12;
    }
    errors_ = Centred(std::move(errors_), sizes_);
    const double errors = std::inner_product(errors_.begin(), errors_.end(), errors_.begin(), 0.0);
    errors_show_ = std::isfinite(errors) && errors > 16 * roundings;
  }

  // Keeps the manner that is most alike, or gives the bits.
  void Try(const Manner& manner) {
    const std::vector<float> simulated =
        WinogradKernel(conv_, manner).Run(images_, made_.size(), parallel_);
    bool is_exact = true;
    std::vector<double> errors;
    for (const Held& held : held_) {
      const double sum = simulated[static_cast<size_t>(held.element)];
      is_exact = is_exact && made_.Is(sum, held.value);
      if (held.norm == 0) continue;
      errors.push_back((Round(made_.format(), sum) - held.exact) / held.norm);
    }
    const Likeness likeness(errors_, Centred(std::move(errors), sizes_));
    constexpr double kLikenessBits = 38;  // 32, and 6 for the manners that are tried
    if (likeness.Bits() < kLikenessBits || !likeness.AreAlike()) return;
    if (!is_exact && likeness.Correlation() <= correlation_) return;
    correlation_ = likeness.Correlation();
    found_ = Fingerprint{Words(manner, is_exact, likeness), kWinograd, is_exact, std::nullopt};
  }

  std::string Words(const Manner& manner, bool is_exact, const Likeness& likeness) const {
    const std::string name = fmt::format("Winograd F({},3)", manner.transform.outputs) +
                             (manner.transformed == Format::kFloat32
                                  ? " in float32"
                                  : fmt::format(" on operands rounded to {} once transformed",
                                                InfoOf(manner.transformed).name));
    const auto count = static_cast<int64_t>(held_.size());
    const std::string which = count == made_.size()
                                  ? fmt::format("{} elements", count)
                                  : fmt::format("{} of {} elements", count, made_.size());
    if (is_exact) return fmt::format("{}{}: {}", count == made_.size() ? "All " : "", which, name);
    return fmt::format("The errors of {} look like those of {} (correlation {:.2f})", which, name,
                       likeness.Correlation());
  }

  PlainConvolution conv_;
  MadeNumbers made_;
  const Parallel& parallel_;
  int64_t images_ = 0;
  bool errors_show_ = false;
  std::vector<Held> held_;
  // Elements with terms have an error, centred, and an exact sum, both in units of the norm.
  std::vector<double> errors_, sizes_;
  double correlation_ = 0;  // of what was found
  std::optional<Fingerprint> found_;
};

}  // namespace

std::optional<Fingerprint> FindWinograd(const Problem& problem, const Tensor& first,
                                        const Tensor& second, const Tensor& made,
                                        const Parallel& parallel) {
  if (!Applies(problem) || made.num_elements() == 0) return std::nullopt;
  return WinogradSearch(problem, first, second, made, parallel).Run();
}

}  // namespace convgrad
