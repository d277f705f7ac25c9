#include "files/tensor_path.h"

#include <algorithm>
#include <string_view>

namespace convgrad {
namespace {

constexpr std::string_view kNpzEnding = ".npz";
constexpr std::string_view kSafetensorsEnding = ".safetensors";

// Where the colon stands that ends the file's name, if any.
size_t FindColon(const std::string& text) {
  if (text.starts_with("-:")) return 1;
  size_t first = std::string::npos;
  for (const std::string_view ending : {kNpzEnding, kSafetensorsEnding}) {
    const size_t at = text.find(std::string(ending) + ":");
    if (at != std::string::npos) first = std::min(first, at + ending.size());
  }
  return first;
}

}  // namespace

TensorPath ParseTensorPath(const std::string& text) {
  const size_t colon = FindColon(text);
  if (colon == std::string::npos) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::string ToString(const TensorPath& path) {
  return path.name ? path.file + ":" + *path.name : path.file;
}

std::string TensorFileOf(const std::string& text) {
  return ParseTensorPath(text).file;
}

bool IsStandardStream(const std::string& text) {
  return TensorFileOf(text) == "-";
}

TensorFormat FormatOfName(const std::string& file) {
  if (file.ends_with(kNpzEnding)) return TensorFormat::kNpz;
  if (file.ends_with(kSafetensorsEnding)) return TensorFormat::kSafetensors;
  return TensorFormat::kNpy;
}

}  // namespace convgrad
