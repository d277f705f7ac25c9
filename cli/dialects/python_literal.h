// Python's literals, and the tensors that PyTorch's logs write among them: T([2, 3], f32,
// stride=(3, 1)). Must not know operators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convgrad::cli {

struct PythonValue {
  // kWord: None, True, False, or a name that is not quoted (f32). kOther: numbers with a point,
  // strings, dictionaries.
  enum class Kind { kInteger, kWord, kList, kTensor, kOther };
  Kind kind = Kind::kOther;
  int64_t number = 0;
  std::string word;                // of a tensor: its type
  std::vector<PythonValue> items;  // of a list or a tuple
  std::vector<int64_t> shape;      // of a tensor
  std::vector<int64_t> strides;    // likewise; empty: contiguous

  bool Is(std::string_view name) const { return kind == Kind::kWord && word == name; }
};

// Reads the value that `text` begins with, up to its end. Throws Refusal.
PythonValue ParsePythonValue(std::string_view text);

}  // namespace convgrad::cli
