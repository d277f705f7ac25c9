// Reading and writing .npy files (versions 1.0 to 3.0). Must not know what the tensors are for.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/output_file.h"
#include "tensor/tensor.h"

namespace convgrad {

// The part of a tensor's first dimension that will be read.
struct ReadRows {
  int64_t begin = 0, end = INT64_MAX;

  struct Stretch {
    int64_t offset, bytes;
  };
  // Where it lies among elements in C order.
  Stretch BytesOf(const Shape& shape, int64_t bytes) const {
    const int64_t rows = shape.empty() ? 1 : shape[0];
    const int64_t of_row = bytes / std::max<int64_t>(1, rows);
    const int64_t first = std::min(begin, rows);
    return {first * of_row, (std::min(end, rows) - first) * of_row};
  }
};

struct NpyReadOptions {
  // The type of '<V2', '|V2', '<u2' and '<i2' elements; without it they are "npy/dtype-ambiguous".
  // A typed file of another dtype is not an error here: the caller compares.
  std::optional<DType> view_as = {};
  bool allow_trailing = false;  // accept bytes after the array
  // The most memory that elements may take that can't be mapped (0: no limit); a file that needs
  // more is "memory/limit". Mapped ones take none.
  int64_t max_copied_bytes = 0;
  ReadRows ahead = {};  // of a mapped file
};

// A header's facts. `descr` is as written; `data_offset` is where the elements start.
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
  std::shared_ptr<const InputFile> source;

  // Throws "io/file-changed" if the file was changed or cut while its elements were in use. A
  // mapped file is read as it is computed with: call this after the computation, before its result
  // counts.
  void CheckUnchanged() const { source->CheckUnchanged(); }
};

// Reads `path`, or standard input for "-". A regular file in C order and native byte order is
// mapped (unless so small that copying is cheaper), anything else is read; the elements come in C
// order either way. Only regular files. Allocates nothing that the file's size does not bear out.
// Errors: data "npy/..." (malformed, with the byte offset), I/O "io/..." (missing, unreadable,
// changed while read).
NpyArray ReadNpy(const std::string& path, const NpyReadOptions& options = {});

// The header alone, checked against the file's size as ReadNpy would.
NpyHeader ReadNpyHeader(const std::string& path, const NpyReadOptions& options = {});

enum class BFloat16Form { kV2, kU2, kF4 };

// The bytes NumPy 1.24+ would write before the elements of a C-order array of this type and shape.
std::string NpyHeaderBytes(DType dtype, const Shape& shape,
                           BFloat16Form bfloat16_as = BFloat16Form::kV2);

struct NpyWriteOptions {
  BFloat16Form bfloat16_as = BFloat16Form::kV2;
  bool no_clobber = false;  // an existing file is an error (io/exists)
  bool hash = false;        // compute the data hash while writing
};

// Writes `tensor` to `path` (whole or not at all; an existing file is replaced) or to standard
// output for "-". Returns the data hash (tensor_hash.h) if asked for, else "".
std::string WriteNpy(const std::string& path, const Tensor& tensor,
                     const NpyWriteOptions& options = {});

// The same to an output that was opened before the computation; commits it.
std::string WriteNpy(OutputFile& file, const Tensor& tensor, const NpyWriteOptions& options = {});

}  // namespace convgrad
