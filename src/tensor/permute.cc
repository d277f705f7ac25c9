#include "tensor/permute.h"

#include <utility>

#include "base/error.h"

namespace convgrad {
namespace {

// The two inner loops of a copy; strides are the source's, in elements.
struct Plane {
  int64_t rows, columns, row_stride, column_stride;
};

template <class Word>
void CopyPlane(const Plane& plane, const Word* from, Word* to) {
  for (int64_t row = 0; row < plane.rows; ++row) {
    const Word* element = from + row * plane.row_stride;
    for (int64_t column = 0; column < plane.columns; ++column, element += plane.column_stride) {
      *to++ = *element;
    }
  }
}

}  // namespace

Tensor Permuted(const Tensor& tensor, const std::array<int64_t, 4>& sizes,
                const std::array<int, 4>& order, Shape shape, const Parallel& parallel) {
  const std::array<int64_t, 4> source_strides = {sizes[1] * sizes[2] * sizes[3],
                                                 sizes[2] * sizes[3], sizes[3], 1};
  std::array<int64_t, 4> size{}, stride{};  // in the result's order
  for (size_t i = 0; i < 4; ++i) {
    size[i] = sizes[static_cast<size_t>(order[i])];
    stride[i] = source_strides[static_cast<size_t>(order[i])];
  }
  Tensor result(tensor.dtype(), std::move(shape));
  if (result.num_elements() == 0) return result;
  const Plane plane = {size[2], size[3], stride[2], stride[3]};
  const auto copy = [&](auto word) {
    using Word = decltype(word);
    const Word* from = static_cast<const Word*>(tensor.raw());
    Word* to = static_cast<Word*>(result.mutable_raw());
    parallel.For(size[0] * size[1], [&](int64_t i) {
      const int64_t offset = i / size[1] * stride[0] + i % size[1] * stride[1];
      CopyPlane(plane, from + offset, to + i * size[2] * size[3]);
    });
  };
  switch (InfoOf(tensor.dtype()).bytes) {
    case 2: copy(uint16_t{}); break;
    case 4: copy(uint32_t{}); break;
    case 8: copy(uint64_t{}); break;
    default: ThrowInternal("elements that are not 2, 4 or 8 bytes");
  }
  return result;
}

}  // namespace convgrad
