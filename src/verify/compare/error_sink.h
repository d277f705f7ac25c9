// Takes each element's error while two tensors are compared, from several threads at once, and
// keeps what is asked for: the errors themselves, or a profile of them.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"
#include "verify/truth/bound.h"
#include "verify/truth/distance.h"
#include "verify/where/error_profile.h"

namespace convgrad {

// How large the rounding errors of a sum are in ULP of `arithmetic.stored`, before the last
// rounding: an eighth of the bound that is called usual (bound.cc).
double ModelUlps(const Truth& truth, const Arithmetic& arithmetic);

class ErrorSink {
 public:
  // `keep`: the errors; `profile`: what a profile needs, `model` with it. Else it takes nothing.
  ErrorSink(const Shape& shape, bool keep, bool profile, bool model);

  bool keeps_model() const { return !model_.empty(); }
  // `error` in the measure of the comparison; `is_below`: the number is less than it should be.
  void Keep(int64_t element, double error, const Distance& distance, bool is_below);
  void KeepModel(int64_t element, double ulps);

  // A float32 for each element; none unless they are kept.
  std::optional<Tensor> TakeErrors();
  // None unless asked for. `limit`: the largest error in `measure` that passes.
  std::optional<ErrorProfile> Profile(const Layout& layout, const char* measure,
                                      double limit) const;

 private:
  bool keeps_errors_;
  std::optional<Tensor> errors_;
  std::vector<float> ulps_, model_;
};

}  // namespace convgrad
