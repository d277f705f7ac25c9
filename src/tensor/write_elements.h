// A file of one tensor: a header, whatever its format, and the elements. Must not know formats.
#pragma once

#include <string>
#include <string_view>

#include "base/output_file.h"
#include "tensor/npy.h"
#include "tensor/tensor.h"

namespace convgrad {

// Writes `header` and the elements of `tensor` in C order, little-endian, bfloat16 as the options
// say, and commits the file. Returns the data hash if asked for, else "".
std::string WriteElements(OutputFile& file, std::string_view header, const Tensor& tensor,
                          const NpyWriteOptions& options);

}  // namespace convgrad
