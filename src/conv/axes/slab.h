// Parts of a data tensor, for working through it piece by piece.
#pragma once

#include <cstdint>

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
// number is else no multiple of `multiple`, if there are rows enough. None is listed: a tensor of
// any size is cut as soon as a small one.
class SlabCuts {
 public:
  SlabCuts(const Slab& whole, int64_t width, int64_t max_pixels, int64_t multiple = 1);

  int64_t size() const { return image_parts_ * row_parts_; }
  Slab operator[](int64_t index) const;

  // Calls visit(slab, count) for slabs that together are like all of them: count others have as
  // many images and the same rows.
  template <class Visit>
  void ForEachKind(const Visit& visit) const {
    const int64_t images = whole_.num_images() / image_parts_;
    const int64_t larger = whole_.num_images() % image_parts_;  // slabs of one image more
    for (int64_t row_part = 0; row_part < row_parts_; ++row_part) {
      Slab slab = Rows(row_part);
      slab.image_end = slab.image_begin + images;
      visit(slab, image_parts_ - larger);
      ++slab.image_end;
      if (larger > 0) visit(slab, larger);
    }
  }

 private:
  // The rows of one row part, of all images.
  Slab Rows(int64_t row_part) const;

  Slab whole_;
  int64_t image_parts_ = 1;  // as many as images, where these are cut into parts of their rows
  int64_t row_parts_ = 1;
};

}  // namespace convgrad
