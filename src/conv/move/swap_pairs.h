// Terms that the canonical order takes in pairs, the second first, put into ascending order, for
// kernels that take them so.
#pragma once

#include <cstdint>

#include "kernels/pack/pack.h"

namespace convgrad {

// Returns where term i of `count` is in ascending order: the last of an odd count stays.
inline int64_t SwappedPlace(int64_t i, int64_t count) {
  return (i ^ 1) < count ? i ^ 1 : i;
}

// Exchanges the neighbours 2i and 2i + 1 of every run of `count` rows of `width` numbers.
template <class Stored>
void SwapPairs(const PackKernels<Stored>& kernels, ComputeType<Stored>* data, int64_t runs,
               int64_t count, int64_t width) {
  if (count % 2 == 0) return kernels.swap_pairs(data, runs * count / 2, width);
  for (int64_t run = 0; run < runs; ++run, data += count * width) {
    kernels.swap_pairs(data, count / 2, width);
  }
}

}  // namespace convgrad
