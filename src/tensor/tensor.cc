#include "tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/checked.h"
#include "base/memory.h"

namespace convgrad {
namespace {

int64_t CountElements(const Shape& shape) {
  const std::optional<int64_t> count = CheckedProduct(shape);
  if (!count || *count > kMaxElements) ThrowInternal("tensor shape was not checked");
  return *count;
}

}  // namespace

std::string ToString(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), num_elements_(CountElements(shape_)) {
  std::shared_ptr<std::byte[]> memory = AllocateBytes(static_cast<size_t>(num_bytes()));
  writable_ = memory.get();
  data_ = writable_;
  storage_ = std::move(memory);
}

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<const void> storage, const void* data)
    : dtype_(dtype),
      shape_(std::move(shape)),
      num_elements_(CountElements(shape_)),
      storage_(std::move(storage)),
      data_(data) {}

}  // namespace convgrad
