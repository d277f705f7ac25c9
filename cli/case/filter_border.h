// Where filters of a case's format become ours, and ours become the case's: at reading and writing.
// Code that computes and compares never sees another format.
#pragma once

#include "base/parallel.h"
#include "problem/filter_format.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

class FilterBorder {
 public:
  FilterBorder(const Problem& problem, FilterFormat format);

  // The filter `given`, whose shape is that of the problem's filter in the format.
  Tensor Ours(const Tensor& given, const Parallel& parallel) const;

  // The rest is for results. Those that are no filter stay as they are.
  bool ChangesResult() const { return is_result_ && format_ != FilterFormat::kHWIO; }
  Shape ResultShape() const;
  Tensor Result(const Tensor& ours, const Parallel& parallel) const;
  // The opposite, of a file; one of another shape stays as it is, for nothing is compared with it.
  Tensor OurResult(const Tensor& file, const Parallel& parallel) const;
  // Its indices and its error map.
  void Turn(CheckResult& check, const Parallel& parallel) const;

 private:
  Tensor Given(const Tensor& ours, const Parallel& parallel) const;

  FilterFormat format_;
  bool depthwise_;
  bool is_result_;
  Shape result_;  // ours
  Shape filter_;  // ours
};

}  // namespace convgrad::cli
