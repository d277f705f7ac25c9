// A part of an image is copied into padded planes, where a tap is one fixed distance (PlaneAxis).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "conv/axes/padded_planes.h"
#include "conv/move/staging.h"
#include "kernels/pack/pack.h"

namespace convgrad {

// Elements of one plane, and from a channel's planes to the next one's.
struct PlaneSizes {
  int64_t plane, channel_stride;
};

// The planes lie in the order [source channel][row residue][column residue].
template <class Stored>
class PlanePacker {
 public:
  using Compute = ComputeType<Stored>;

  PlanePacker(const PackKernels<Stored>& kernels, const DataShape& shape, const PlaneAxis& rows,
              const PlaneAxis& cols, const PlaneSizes& size)
      : kernels_(kernels), shape_(shape), rows_(rows), cols_(cols), size_(size) {}

  // The first of `plane_rows` rows of each plane is that of a position.
  void Pack(const Stored* image, int64_t first_position, int64_t plane_rows, Compute* planes) const;

 private:
  // Rows of the source, each rows_.step behind the one before it.
  struct SourceRows {
    int64_t first, count;
  };
  void PackRows(const Stored* image, const SourceRows& rows, int64_t col_residue,
                Compute* to) const;

  const PackKernels<Stored>& kernels_;
  const DataShape& shape_;
  const PlaneAxis &rows_, &cols_;
  const PlaneSizes size_;
};

// Padding at the sides is never written: it stays zero.
template <class Stored>
void PlanePacker<Stored>::Pack(const Stored* image, int64_t first_position, int64_t plane_rows,
                               Compute* planes) const {
  for (const int64_t row_residue : rows_.residues) {
    const int64_t first = (rows_.low + first_position) * rows_.step + row_residue;
    const auto rows_below = [&](int64_t end) {  // of the part, above source row `end`
      return std::clamp<int64_t>(CeilDiv(std::max<int64_t>(0, end - first), rows_.step), 0,
                                 plane_rows);
    };
    const Range there = {rows_below(0), rows_below(shape_.h)};
    for (const int64_t col_residue : cols_.residues) {
      const auto clear = [&](int64_t begin, int64_t end) {
        for (int64_t q = 0; q < (begin < end ? shape_.c : 0); ++q) {
          std::fill(planes + q * size_.channel_stride + begin * cols_.extent,
                    planes + q * size_.channel_stride + end * cols_.extent, Compute{0});
        }
      };
      clear(0, there.begin);
      PackRows(image, {first + there.begin * rows_.step, there.size()}, col_residue,
               planes + there.begin * cols_.extent);
      clear(there.end, plane_rows);
      planes += size_.plane;
    }
  }
}

// Channel q of one column residue goes to `to` + q * channel_stride. Rows of a plane lie side by
// side, so that they come plane by plane.
template <class Stored>
void PlanePacker<Stored>::PackRows(const Stored* image, const SourceRows& rows, int64_t col_residue,
                                   Compute* to) const {
  const int64_t begin = std::max<int64_t>(0, cols_.low);
  const int64_t end =
      std::min(cols_.low + cols_.extent,
               shape_.w > col_residue ? CeilDiv(shape_.w - col_residue, cols_.step) : 0);
  if (begin >= end) return;
  const int64_t pixel = rows.first * shape_.w + begin * cols_.step + col_residue;
  const int64_t row_step = rows_.step * shape_.w;
  const Stored* from = image;
  to += begin - cols_.low;
  if (shape_.format == DataFormat::kNHWC) {
    for (int64_t i = 0; i < rows.count; ++i) {
      kernels_.transpose_widen(from + (pixel + i * row_step) * shape_.c, cols_.step * shape_.c,
                               to + i * cols_.extent, size_.channel_stride, end - begin, shape_.c,
                               0);
    }
    return;
  }
  from += pixel;
  for (int64_t q = 0; q < shape_.c; ++q, from += shape_.h * shape_.w, to += size_.channel_stride) {
    if (cols_.step == 1) {
      kernels_.copy_widen(from, row_step, to, cols_.extent, rows.count, end - begin);
      continue;
    }
    for (int64_t i = 0; i < rows.count; ++i) {
      kernels_.copy_widen(from + i * row_step, cols_.step, to + i * cols_.extent, 1, end - begin,
                          1);
    }
  }
}

}  // namespace convgrad
