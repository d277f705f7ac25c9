#include "conv/axes/slab.h"

#include <algorithm>

#include "base/checked.h"

namespace convgrad {

std::vector<Slab> SplitSlab(const Slab& whole, int64_t width, int64_t max_pixels) {
  std::vector<Slab> slabs;
  const int64_t rows = std::max<int64_t>(1, max_pixels / width);  // of one slab
  if (rows >= whole.num_rows()) {
    const int64_t parts = CeilDiv(whole.num_images(), rows / whole.num_rows());
    for (int64_t i = 0; i < parts; ++i) {
      slabs.push_back({whole.image_begin + whole.num_images() * i / parts,
                       whole.image_begin + whole.num_images() * (i + 1) / parts, whole.row_begin,
                       whole.row_end});
    }
    return slabs;
  }
  const int64_t parts = CeilDiv(whole.num_rows(), rows);
  for (int64_t n = whole.image_begin; n < whole.image_end; ++n) {
    for (int64_t i = 0; i < parts; ++i) {
      slabs.push_back({n, n + 1, whole.row_begin + whole.num_rows() * i / parts,
                       whole.row_begin + whole.num_rows() * (i + 1) / parts});
    }
  }
  return slabs;
}

}  // namespace convgrad
