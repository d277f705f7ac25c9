// The door to tensors in files: .npy, .npz and .safetensors, by what the path says and the file
// holds.
#pragma once

#include <memory>
#include <string>

#include "base/input_file.h"
#include "base/output_file.h"
#include "files/tensor_container.h"
#include "files/tensor_path.h"

namespace convgrad {

struct StoredTensor {
  TensorHeader header;
  Tensor tensor;
  std::shared_ptr<const InputFile> source;  // null: in memory

  // Throws "io/file-changed" if the file was changed or cut while its elements were in use. A
  // mapped file is read as it is computed with: call this after the computation, before its result
  // counts.
  void CheckUnchanged() const {
    if (source) source->CheckUnchanged();
  }
};

// A tensor that a caller in this process has, where files are asked for; it has no source.
StoredTensor StoredInMemory(Tensor tensor);

// A file that was opened for reading. What its first bytes are decides the format, not its name.
struct TensorFile {
  std::shared_ptr<InputFile> file;
  std::shared_ptr<const TensorContainer> container;  // null: a .npy, of which nothing is read yet
};

// `file` is a path or "-". Of standard input, what holds tensors by name is kept for the next that
// asks. Throws data and I/O errors.
TensorFile OpenTensorFile(const std::string& file, const NpyReadOptions& options = {});

// Reads the tensor: as ReadNpy, of a container by the path's name or, without one, the only tensor
// that there is. Errors: those of OpenTensorFile, data "tensor/name-needed" and
// "tensor/unknown-name".
StoredTensor ReadTensor(const TensorPath& path, const NpyReadOptions& options = {});
StoredTensor ReadTensor(const std::string& path, const NpyReadOptions& options = {});
// The same of a file that was opened, path.file; of a .npy once.
StoredTensor ReadTensor(const TensorFile& opened, const TensorPath& path,
                        const NpyReadOptions& options = {});

// The header alone, checked against the file as ReadTensor would.
TensorHeader ReadTensorHeader(const std::string& path, const NpyReadOptions& options = {});

// Where a tensor is written: a .npy, or a .safetensors with this one tensor.
struct TensorTarget {
  TensorPath path;  // "-": standard output
  TensorFormat format = TensorFormat::kNpy;
  std::string default_name;  // in a .safetensors, where the path has none

  const std::string& name() const { return path.name ? *path.name : default_name; }
};

// The target that a path names. Throws usage "output/format" for a .npz and a name that a .npy
// can't keep, "output/name" for one that no file can.
TensorTarget ParseTensorTarget(const std::string& path, const std::string& default_name);

// As WriteNpy.
std::string WriteTensor(const TensorTarget& target, const Tensor& tensor,
                        const NpyWriteOptions& options = {});
std::string WriteTensor(OutputFile& file, const TensorTarget& target, const Tensor& tensor,
                        const NpyWriteOptions& options = {});

}  // namespace convgrad
