// .safetensors files: a header of JSON, then the elements of all tensors. Must not know other
// formats.
#pragma once

#include <memory>

#include "files/file_bytes.h"
#include "files/tensor_container.h"

namespace convgrad {

// The file in these bytes; its header is checked whole, tensors are used as they lie where they are
// aligned. Throws data errors "safetensors/...".
std::shared_ptr<const TensorContainer> OpenSafetensors(std::shared_ptr<const FileBytes> bytes,
                                                       const NpyReadOptions& options);

}  // namespace convgrad
