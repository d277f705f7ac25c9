// Sums of squares of data tensors, which widening their numbers to double brings along.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "conv/plan/plan.h"
#include "kernels/precise/precise.h"

namespace convgrad {

// The root of a sum of squares; finite, but beyond the root of any sum of finite squares, where
// numbers were infinite or NaN.
inline double NormOf(double squares) {
  return squares < 0x1p1000 ? std::sqrt(squares) : 0x1p500;
}

// A data tensor's sizes.
struct DataSizes {
  int64_t images, h, w, c;
  bool channels_inside;  // NHWC

  static DataSizes Of(const Problem& problem, Role role);
};

// By image, band of rows, and channel.
class BandSquares {
 public:
  explicit BandSquares(const DataSizes& sizes);

  int64_t BandOf(int64_t row) const { return row / band_rows_; }
  // The squares of a band, channel by channel.
  const double* Of(int64_t image, int64_t band) const {
    return squares_.data() + (image * bands_ + band) * sizes_.c;
  }
  // Adds up all images and bands.
  void AddTo(std::vector<double>& by_channel) const;

  template <class Stored>
  void Widen(const Stored* from, double* to, const PreciseKernels<Stored>& kernels,
             const Parallel& parallel);

  static int64_t Bytes(const DataSizes& sizes);

 private:
  template <class Stored>
  void WidenBand(const Stored* from, double* to, int64_t image, int64_t band,
                 const PreciseKernels<Stored>& kernels);
  template <class Stored>
  void WidenPlane(const Stored* from, double* to, int64_t image, int64_t channel,
                  const PreciseKernels<Stored>& kernels);
  // Pixels of a band.
  int64_t PixelsOf(int64_t band) const {
    return std::min(band_rows_, sizes_.h - band * band_rows_) * sizes_.w;
  }

  DataSizes sizes_;
  int64_t band_rows_, bands_;
  std::vector<double> squares_;
};

// By pixel and group of channels.
class PixelSquares {
 public:
  PixelSquares(const DataSizes& sizes, int64_t groups);

  double At(int64_t image, int64_t row, int64_t col, int64_t group) const {
    return squares_[static_cast<size_t>(image * sizes_.h * sizes_.w * groups_ +
                                        (row * sizes_.w + col) * pixel_step_ +
                                        group * group_step_)];
  }
  template <class Stored>
  void Widen(const Stored* from, double* to, const PreciseKernels<Stored>& kernels,
             const Parallel& parallel);

 private:
  DataSizes sizes_;
  int64_t groups_, pixel_step_, group_step_;
  std::vector<double> squares_;
};

}  // namespace convgrad
