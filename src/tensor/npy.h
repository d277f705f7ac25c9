// Reading and writing .npy files (versions 1.0 to 3.0). Must not know what the tensors are for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace convgrad {

struct NpyReadOptions {
  // What '<V2', '|V2', '<u2' and '<i2' elements mean; without it they are "npy/dtype-ambiguous".
  // A typed file of another dtype is not an error here: the caller compares.
  std::optional<DType> view_as;
  bool allow_trailing = false;  // accept bytes after the array
};

// What a header says. `descr` is as written; `data_offset` is where the elements start.
struct NpyHeader {
  int major = 1;
  std::string descr;
  DType dtype = DType::kFloat32;
  bool swapped = false;  // big-endian elements
  bool fortran_order = false;
  Shape shape;
  int64_t data_offset = 0;
  std::vector<std::string> warnings;
};

struct NpyArray {
  NpyHeader header;
  Tensor tensor;
};

// Reads `path`, or standard input for "-". A regular file in C order and native byte order is
// mapped, anything else is read; the elements come in C order either way. Only regular files.
// Errors: data "npy/..." (malformed, with the byte offset), I/O "io/..." (missing, unreadable,
// changed while read).
NpyArray ReadNpy(const std::string& path, const NpyReadOptions& options = {});

enum class BFloat16Form { kV2, kU2, kF4 };

// The bytes NumPy 1.24+ would write before the elements of a C-order array of this type and shape.
std::string NpyHeaderBytes(DType dtype, const Shape& shape,
                           BFloat16Form bfloat16_as = BFloat16Form::kV2);

struct NpyWriteOptions {
  BFloat16Form bfloat16_as = BFloat16Form::kV2;
  bool no_clobber = false;  // an existing file is an error (io/exists)
};

// Writes `tensor` to `path` (whole or not at all; an existing file is replaced) or to standard
// output for "-".
void WriteNpy(const std::string& path, const Tensor& tensor, const NpyWriteOptions& options = {});

}  // namespace convgrad
