// Dense tensors: a type, a shape, and elements in C order in this machine's byte order. Where the
// elements lie (our own memory or a mapped file) is the storage's business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace convgrad {

using Shape = std::vector<int64_t>;

// "[8,56,56,32]"; a 0-d shape is "[]".
std::string ToString(std::span<const int64_t> shape);

// The largest rank (NumPy 1.x's), dimension and element count that are accepted anywhere.
inline constexpr int kMaxRank = 32;
inline constexpr int64_t kMaxDimension = (int64_t{1} << 31) - 1;
inline constexpr int64_t kMaxElements = (int64_t{1} << 48) - 1;

class Tensor {
 public:
  Tensor() = default;
  // Uninitialised elements. The shape must have been checked (at most kMaxElements elements).
  Tensor(DType dtype, Shape shape);
  // Elements that lie in `storage` (a mapped file, say), 64-byte aligned or at least aligned for
  // the type, and stay valid as long as it lives. Such a tensor is read-only.
  Tensor(DType dtype, Shape shape, std::shared_ptr<const void> storage, const void* data);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return num_elements_; }
  int64_t num_bytes() const { return num_elements_ * InfoOf(dtype_).bytes; }
  bool is_mapped() const { return writable_ == nullptr && data_ != nullptr; }

  const void* raw() const { return data_; }
  void* mutable_raw() { return writable_; }
  // T must be the storage type of dtype().
  template <class T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  template <class T>
  T* mutable_data() {
    return static_cast<T*>(writable_);
  }

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_ = {0};
  int64_t num_elements_ = 0;
  std::shared_ptr<const void> storage_;
  const void* data_ = nullptr;
  void* writable_ = nullptr;
};

}  // namespace convgrad
