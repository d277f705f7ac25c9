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
  // Without that line: of bytes as they are.
  DataHasher();
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

// The same of a sample, cheap for a tensor of any size: of the first 4 KiB of each of 1,024 pieces
// as equal as can be, of all elements where these are no less. Tells apart tensors of other origin;
// a change between the samples it does not see.
std::string SampleHash(const Tensor& tensor);

// SHA-256 of bytes as they are (of a file or a manifest), as 64 lower-case hexadecimal digits.
std::string Sha256(const void* from, int64_t bytes);

}  // namespace convgrad
