// .npz files: zip archives of .npy files, stored or deflated. Must not know other formats.
#pragma once

#include <memory>

#include "files/file_bytes.h"
#include "files/tensor_container.h"

namespace convgrad {

// The archive in these bytes. Its names are those of the members without ".npy". Reads no member:
// what is wrong with one is told when it is asked for. Throws data errors "npz/malformed" and
// "npz/duplicate-name".
std::shared_ptr<const TensorContainer> OpenNpz(std::shared_ptr<const FileBytes> bytes);

}  // namespace convgrad
