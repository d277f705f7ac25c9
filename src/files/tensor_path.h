// A path names a tensor: the file, and its name there. Must not look at the file.
#pragma once

#include <optional>
#include <string>

namespace convgrad {

enum class TensorFormat { kNpy, kNpz, kSafetensors };

struct TensorPath {
  std::string file;                 // "-": a standard stream
  std::optional<std::string> name;  // of the tensor in it; none: the only one
};

// "x.npz:NAME", "x.safetensors:NAME" and "-:NAME" name a tensor of a file, whatever follows the
// first such ending; any other text is a file.
TensorPath ParseTensorPath(const std::string& text);

// As it would be given.
std::string ToString(const TensorPath& path);

// The file alone.
std::string TensorFileOf(const std::string& text);

// "-", or a tensor of it.
bool IsStandardStream(const std::string& text);

// By the ending of a file's name; all but those of the others are .npy files.
TensorFormat FormatOfName(const std::string& file);

}  // namespace convgrad
