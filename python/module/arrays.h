// Arrays of Python as tensors, and tensors as arrays of NumPy; neither copies what lies in C order.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "tensor/tensor.h"

namespace convgrad::python {

// An array that someone else owns, and the tensor that it is for as long as this lives.
class BorrowedArray {
 public:
  // Anything with __dlpack__ or a buffer, in the memory of the CPU; one that is not in C order is
  // copied. `is_bfloat16`: its 16-bit integers are bfloat16 numbers. `name` is for messages. Throws
  // data "operand/array" and "dtype/unsupported".
  BorrowedArray(const std::string& name, nanobind::handle array, bool is_bfloat16);

  const Tensor& tensor() const { return tensor_; }

 private:
  nanobind::ndarray<nanobind::ro, nanobind::device::cpu, nanobind::c_contig> array_;
  Tensor tensor_;
};

// An array of NumPy that owns `tensor`; bfloat16 numbers are 16-bit unsigned integers there.
nanobind::object ToNumpy(Tensor tensor);

}  // namespace convgrad::python
