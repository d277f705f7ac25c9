// Someone's numbers, element by element, and how much each tells of how it was summed.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"
#include "verify/truth/float_format.h"

namespace convgrad {

class MadeNumbers {
 public:
  // `tensor` must outlive it.
  explicit MadeNumbers(const Tensor& tensor);

  double At(int64_t element) const;
  int64_t size() const { return tensor_.num_elements(); }
  // The narrowest format that has all the numbers, the tensor's own or a shorter one.
  Format format() const { return format_; }

  // True if a sum, once it is stored, is the number of `element`.
  bool Is(double sum, double value) const;
  // How unlikely it is, in bits, that a sum with errors of this size hit `value` by chance: errors
  // have a density that falls to both sides of the exact sum, so a number d units off is hit with
  // probability 1 / (2d + 1) at most. 0 where the exact sum itself is stored as `value`.
  double Surprise(double value, double exact) const;

 private:
  template <class Stored>
  bool AllAre() const;

  const Tensor& tensor_;
  Format format_;
};

}  // namespace convgrad
