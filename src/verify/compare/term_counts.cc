#include "verify/compare/term_counts.h"

#include <cmath>

namespace convgrad {
namespace {

// Taps that meet both operands, by each position of the result along an axis.
std::vector<double> CountTaps(Direction direction, int64_t in, int64_t out, int64_t kernel,
                              int64_t stride, int64_t dilation, int64_t pad) {
  const int64_t size = direction == Direction::kForward         ? out
                       : direction == Direction::kBackpropInput ? in
                                                                : kernel;
  std::vector<double> counts(static_cast<size_t>(size));
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t i = o * stride + k * dilation - pad;
      if (i < 0 || i >= in) continue;
      const int64_t at = direction == Direction::kForward         ? o
                         : direction == Direction::kBackpropInput ? i
                                                                  : k;
      ++counts[static_cast<size_t>(at)];
    }
  }
  return counts;
}

double InverseRoot(double count) {
  return count > 0 ? 1 / std::sqrt(count) : 0;
}

}  // namespace

TermCounts::TermCounts(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Direction direction = InfoOf(problem.op).direction;
  const std::vector<double> rows =
      CountTaps(direction, g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top);
  const std::vector<double> cols =
      CountTaps(direction, g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left);
  if (direction == Direction::kBackpropFilter) {
    terms_.assign(static_cast<size_t>(g.out_c), 1.0);
    lines_together_ = g.group_in_c;
    for (const double row : rows) {
      for (const double col : cols) scales_.push_back(row * col * static_cast<double>(g.batch));
    }
  } else {
    const bool forward = direction == Direction::kForward;
    const int64_t channels = forward ? g.out_c : g.in_c;
    const auto terms_of_tap = static_cast<double>(forward ? g.group_in_c : g.group_out_c);
    if (problem.data_format == DataFormat::kNHWC) {
      for (const double col : cols) terms_.insert(terms_.end(), static_cast<size_t>(channels), col);
      for (const double row : rows) scales_.push_back(row * terms_of_tap);
    } else {
      for (const double row : rows) {
        for (const double col : cols) terms_.push_back(row * col);
      }
      scales_.push_back(terms_of_tap);
    }
  }
  for (const double count : terms_) roots_.push_back(InverseRoot(count));
}

TermCounts::Run TermCounts::From(int64_t element) const {
  const auto size = static_cast<int64_t>(terms_.size());
  const int64_t line = element / size, at = element % size;
  const double scale = scales_[static_cast<size_t>(line / lines_together_) % scales_.size()];
  return {terms_.data() + at, roots_.data() + at, scale, InverseRoot(scale), size - at};
}

}  // namespace convgrad
