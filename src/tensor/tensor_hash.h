// The data hash: SHA-256 over the ASCII line "DTYPE D0,D1,...\n" and the elements in C order,
// little-endian. It names the values, not the file: NumPy versions pad headers differently.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tensor/tensor.h"

namespace convgrad {

// For elements that come piece by piece.
class DataHasher {
 public:
  DataHasher(DType dtype, const Shape& shape);
  ~DataHasher();
  DataHasher(DataHasher&&) noexcept;
  DataHasher& operator=(DataHasher&&) noexcept;

  // The next `bytes` of the elements.
  void Update(const void* elements, int64_t bytes);

  // 64 lower-case hexadecimal digits; call it once, at the end.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string DataHash(const Tensor& tensor);

// SHA-256 of bytes as they are (of a file or a manifest), as 64 lower-case hexadecimal digits.
std::string Sha256(const void* from, int64_t bytes);

}  // namespace convgrad
