// Columns of the padded planes of a part (PlaneAxis), copied a few at a time: what one panel meets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/range.h"
#include "conv/axes/padded_planes.h"
#include "conv/move/staging.h"
#include "kernels/pack/pack.h"

namespace convgrad {

// The columns of some channels of an image, for taps a step of one apart. Column q of a part is
// column q % extent of its row q / extent; padding is zero.
template <class Stored>
class PlaneColumns {
 public:
  using Compute = ComputeType<Stored>;

  // The part's first row is that of a position.
  PlaneColumns(const PackKernels<Stored>& kernels, const DataShape& shape, const PlaneAxis& rows,
               const PlaneAxis& cols, const Stored* image, const Range& channels,
               int64_t first_position)
      : kernels_(kernels),
        shape_(shape),
        source_(image + channels.begin * (plane() == 0 ? 1 : plane())),
        channels_(channels.size()),
        extent_(cols.extent),
        first_row_(rows.low + first_position),
        first_col_(cols.low) {}

  // to[channel * stride + i]: column first + i, for i < count.
  void Copy(int64_t first, int64_t count, Compute* to, int64_t stride) const {
    for (int64_t done = 0; done < count;) {
      const int64_t row = (first + done) / extent_, col = (first + done) % extent_;
      const int64_t taken = std::min(count - done, extent_ - col);
      CopyOfRow(first_row_ + row, first_col_ + col, taken, to + done, stride);
      done += taken;
    }
  }

  // The number of the first channel that column `first` is, or the nearest one, in NCHW.
  const Stored* At(int64_t first) const {
    const int64_t row = std::clamp<int64_t>(first_row_ + first / extent_, 0, shape_.h - 1);
    const int64_t col = std::clamp<int64_t>(first_col_ + first % extent_, 0, shape_.w - 1);
    return source_ + row * shape_.w + col;
  }
  // From one channel to the next, 0 where they lie side by side.
  int64_t plane() const { return shape_.format == DataFormat::kNHWC ? 0 : shape_.h * shape_.w; }

 private:
  void CopyOfRow(int64_t row, int64_t col, int64_t count, Compute* to, int64_t stride) const {
    const bool there = row >= 0 && row < shape_.h;
    const int64_t begin = there ? std::clamp<int64_t>(-col, 0, count) : count;
    const int64_t end = there ? std::clamp<int64_t>(shape_.w - col, begin, count) : count;
    if (begin < end) {
      const int64_t pixel = row * shape_.w + col + begin;
      if (shape_.format == DataFormat::kNHWC) {
        kernels_.transpose_widen(source_ + pixel * shape_.c, shape_.c, to + begin, stride,
                                 end - begin, channels_, 0);
      } else {
        kernels_.copy_widen(source_ + pixel, shape_.h * shape_.w, to + begin, stride, channels_,
                            end - begin);
      }
    }
    Clear(to, stride, begin);
    Clear(to + end, stride, count - end);
  }

  // `count` numbers of each channel. One call for all of them: they are few.
  void Clear(Compute* to, int64_t stride, int64_t count) const {
    constexpr int64_t kTogether = 16;
    static constexpr Stored kZeros[kTogether] = {};
    for (int64_t done = 0; done < count; done += kTogether) {
      kernels_.copy_widen(kZeros, 0, to + done, stride, channels_,
                          std::min(kTogether, count - done));
    }
  }

  const PackKernels<Stored>& kernels_;
  const DataShape& shape_;
  const Stored* const source_;
  const int64_t channels_, extent_;
  const int64_t first_row_, first_col_;
};

}  // namespace convgrad
