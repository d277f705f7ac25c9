#include "conv/axes/slab.h"

#include <algorithm>

#include "base/checked.h"

namespace convgrad {

std::vector<Slab> SplitSlab(const Slab& whole, int64_t width, int64_t max_pixels,
                            int64_t multiple) {
  std::vector<Slab> slabs;
  const int64_t images = whole.num_images(), num_rows = whole.num_rows();
  const int64_t rows = std::max<int64_t>(1, max_pixels / width);  // of one slab
  if (rows >= num_rows) {
    const int64_t parts = RoundUp(CeilDiv(images, rows / num_rows), multiple);
    for (int64_t i = 0; parts <= images && i < parts; ++i) {
      slabs.push_back({whole.image_begin + images * i / parts,
                       whole.image_begin + images * (i + 1) / parts, whole.row_begin,
                       whole.row_end});
    }
    if (!slabs.empty()) return slabs;
  }
  int64_t parts = std::max<int64_t>(1, CeilDiv(num_rows, rows));
  while (parts < num_rows && images * parts % multiple != 0) ++parts;
  for (int64_t n = whole.image_begin; n < whole.image_end; ++n) {
    for (int64_t i = 0; i < parts; ++i) {
      slabs.push_back({n, n + 1, whole.row_begin + num_rows * i / parts,
                       whole.row_begin + num_rows * (i + 1) / parts});
    }
  }
  return slabs;
}

}  // namespace convgrad
