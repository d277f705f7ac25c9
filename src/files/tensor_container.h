// A file that holds tensors by name, whatever its format.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tensor/npy.h"
#include "tensor/tensor.h"

namespace convgrad {

// A tensor as its file describes it.
struct TensorHeader {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool swapped = false;  // big-endian elements
  bool fortran_order = false;
  bool is_copied = false;   // the elements can't be mapped as they lie
  std::string stored_type;  // as the file spells it: "descr '<f4'", "BF16"
  std::string stored_in;    // "format 1.0, data at byte 128"
  std::vector<std::string> warnings;
};

class TensorContainer {
 public:
  virtual ~TensorContainer() = default;

  // In the file's order, each once.
  const std::vector<std::string>& names() const { return names_; }

  // That of names()[at], checked against the file: errors "npz/...", "safetensors/..." and
  // "npy/...".
  virtual TensorHeader Header(size_t at, const NpyReadOptions& options) const = 0;

  // The tensor itself, as its header says. Allocates nothing that the file does not bear out.
  virtual Tensor Read(size_t at, const NpyReadOptions& options) const = 0;

  // For messages: "x.npz:weights".
  std::string LabelOf(size_t at) const { return label_ + ":" + names_[at]; }

 protected:
  // `label`: how messages call the file.
  explicit TensorContainer(std::string label) : label_(std::move(label)) {}
  const std::string& label() const { return label_; }
  void SetNames(std::vector<std::string> names) { names_ = std::move(names); }

 private:
  std::string label_;
  std::vector<std::string> names_;
};

// As a .npy header says it, of format and `stored_in`.
TensorHeader HeaderOfNpy(const NpyHeader& header, const std::string& stored_in);

}  // namespace convgrad
