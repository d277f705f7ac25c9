// Elements from column-major (Fortran) to row-major (C) order, and from the other byte order to
// ours. Must not know files.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/tensor.h"

namespace convgrad {

// Copies the elements (of 2, 4 or 8 bytes) of an array of `shape` from `source`, which holds them
// in Fortran order, to `target` in C order. `swap_bytes` reverses the bytes of each. Neither
// pointer need be aligned for the elements.
void CopyFromFortranOrder(std::span<const int64_t> shape, int element_bytes, bool swap_bytes,
                          const std::byte* source, std::byte* target);

// Reverses the bytes of each of `count` elements in place.
void SwapBytes(int element_bytes, int64_t count, std::byte* elements);

}  // namespace convgrad
