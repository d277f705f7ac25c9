// Parts of a data tensor, for working through it piece by piece.
#pragma once

#include <cstdint>
#include <vector>

namespace convgrad {

// These rows of these images, all columns.
struct Slab {
  int64_t image_begin, image_end;
  int64_t row_begin, row_end;

  int64_t num_images() const { return image_end - image_begin; }
  int64_t num_rows() const { return row_end - row_begin; }
};

// `whole` in balanced slabs of about max_pixels pixels (at least one row), for planes of `width`
// columns. A slab of more than one image has all rows of `whole`. More and smaller ones where their
// number is else no multiple of `multiple`, if there are rows enough.
std::vector<Slab> SplitSlab(const Slab& whole, int64_t width, int64_t max_pixels,
                            int64_t multiple = 1);

}  // namespace convgrad
