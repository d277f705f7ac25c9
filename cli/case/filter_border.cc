#include "cli/case/filter_border.h"

#include "tensor/permute.h"

namespace convgrad::cli {

FilterBorder::FilterBorder(const Problem& problem, FilterFormat format)
    : format_(format),
      depthwise_(InfoOf(problem.op).depthwise),
      is_result_(InfoOf(problem.op).direction == Direction::kBackpropFilter),
      result_(problem.ResultShape()),
      filter_(problem.FilterShape()) {}

Tensor FilterBorder::Ours(const Tensor& given, const Parallel& parallel) const {
  if (format_ == FilterFormat::kHWIO) return given;
  const std::array<int, 4> order = OrderOf(format_, depthwise_);
  std::array<int64_t, 4> sizes{};
  std::array<int, 4> back{};
  for (size_t i = 0; i < 4; ++i) {
    const size_t axis = static_cast<size_t>(order[i]);
    sizes[i] = filter_[axis];
    back[axis] = static_cast<int>(i);
  }
  return Permuted(given, sizes, back, filter_, parallel);
}

Tensor FilterBorder::Given(const Tensor& ours, const Parallel& parallel) const {
  const std::array<int64_t, 4> sizes = {filter_[0], filter_[1], filter_[2], filter_[3]};
  return Permuted(ours, sizes, OrderOf(format_, depthwise_), ResultShape(), parallel);
}

Shape FilterBorder::ResultShape() const {
  return is_result_ ? ShapeIn(format_, depthwise_, result_) : result_;
}

Tensor FilterBorder::Result(const Tensor& ours, const Parallel& parallel) const {
  return ChangesResult() ? Given(ours, parallel) : ours;
}

Tensor FilterBorder::OurResult(const Tensor& file, const Parallel& parallel) const {
  return ChangesResult() && file.shape() == ResultShape() ? Ours(file, parallel) : file;
}

void FilterBorder::Turn(CheckResult& check, const Parallel& parallel) const {
  if (!ChangesResult()) return;
  for (auto* worst : {&check.worst.bound, &check.worst.abs, &check.worst.rel, &check.worst.ulp}) {
    if (*worst) (*worst)->index = IndexIn(format_, depthwise_, result_, (*worst)->index);
  }
  for (WorstElement& worst : check.worst_elements) {
    worst.index = IndexIn(format_, depthwise_, result_, worst.index);
  }
  if (check.errors) check.errors = Given(*check.errors, parallel);
}

}  // namespace convgrad::cli
