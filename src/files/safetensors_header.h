// The header of a .safetensors file: JSON that lists tensors, and where in the file they lie. Must
// not read tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/npy.h"
#include "tensor/tensor.h"

namespace convgrad {

// The format's own limit. The length field is checked against it before anything is read.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;
// The size of the length field.
inline constexpr int64_t kSafetensorsLengthBytes = 8;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as it is spelled there
  Shape shape;
  int64_t begin = 0, end = 0;  // in the data, which follow the header
};

// The entries in the order of the header. `data_bytes`: how many follow the header. Throws data
// errors "safetensors/..." unless the entries divide the data among them with no gap and no
// overlap (with options.allow_trailing, bytes may follow the last), each as its shape and type
// want.
std::vector<SafetensorsEntry> ParseSafetensorsHeader(const std::string& label,
                                                     std::string_view text, int64_t data_bytes,
                                                     const NpyReadOptions& options);

// The type that an entry's elements are read as. Throws "safetensors/dtype" for others.
DType ReadableType(const std::string& label, const SafetensorsEntry& entry,
                   const NpyReadOptions& options);

// The head of a file of one tensor, whose elements start at a multiple of 64 bytes. `name`
// is UTF-8.
std::string SafetensorsHeaderBytes(const std::string& name, DType dtype, const Shape& shape,
                                   BFloat16Form bfloat16_as);

// Throws usage "output/name" for a name that a file can't have.
void CheckSafetensorsName(const std::string& name);

}  // namespace convgrad
