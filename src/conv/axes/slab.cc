#include "conv/axes/slab.h"

#include <algorithm>

#include "base/checked.h"
#include "base/range.h"

namespace convgrad {

SlabCuts::SlabCuts(const Slab& whole, int64_t width, int64_t max_pixels, int64_t multiple)
    : whole_(whole) {
  const int64_t images = whole.num_images(), num_rows = whole.num_rows();
  const int64_t rows = std::max<int64_t>(1, max_pixels / width);  // of one slab
  if (rows >= num_rows) {
    image_parts_ = RoundUp(CeilDiv(images, rows / num_rows), multiple);
    if (image_parts_ <= images) return;
  }
  image_parts_ = images;
  row_parts_ = std::max<int64_t>(1, CeilDiv(num_rows, rows));
  while (row_parts_ < num_rows && images * row_parts_ % multiple != 0) ++row_parts_;
}

Slab SlabCuts::Rows(int64_t row_part) const {
  const Range rows = ShareOf(whole_.num_rows(), row_parts_, row_part);
  return {whole_.image_begin, whole_.image_end, whole_.row_begin + rows.begin,
          whole_.row_begin + rows.end};
}

Slab SlabCuts::operator[](int64_t index) const {
  const Range images = ShareOf(whole_.num_images(), image_parts_, index / row_parts_);
  Slab slab = Rows(index % row_parts_);
  slab.image_end = slab.image_begin + images.end;
  slab.image_begin += images.begin;
  return slab;
}

}  // namespace convgrad
