#include "conv/precise/squares.h"

#include "base/checked.h"

namespace convgrad {
namespace {

// Rows of a band: so many pixels that their numbers are worth a sum of squares of their own.
int64_t BandRows(const DataSizes& sizes) {
  constexpr int64_t kBandPixels = 128;
  return std::clamp<int64_t>(CeilDiv(kBandPixels, std::max<int64_t>(1, sizes.w)), 1,
                             std::max<int64_t>(1, sizes.h));
}

// body(i) for i < parts, a few of which make a task where they have few numbers.
template <class Body>
void ForParts(const Parallel& parallel, int64_t parts, int64_t numbers, const Body& body) {
  constexpr int64_t kTaskNumbers = 1 << 13;
  const int64_t together = std::max<int64_t>(1, kTaskNumbers / std::max<int64_t>(1, numbers));
  parallel.For(CeilDiv(parts, together), [&](int64_t task) {
    const int64_t end = std::min(parts, (task + 1) * together);
    for (int64_t i = task * together; i < end; ++i) body(i);
  });
}

}  // namespace

DataSizes DataSizes::Of(const Problem& problem, Role role) {
  const ConvGeometry& g = problem.geometry;
  const bool channels_inside = problem.data_format == DataFormat::kNHWC;
  if (role == Role::kInput) return {g.batch, g.in_h, g.in_w, g.in_c, channels_inside};
  return {g.batch, g.out_h, g.out_w, g.out_c, channels_inside};
}

BandSquares::BandSquares(const DataSizes& sizes)
    : sizes_(sizes),
      band_rows_(BandRows(sizes)),
      bands_(CeilDiv(sizes.h, band_rows_)),
      squares_(static_cast<size_t>(sizes.images * bands_ * sizes.c)) {}

int64_t BandSquares::Bytes(const DataSizes& sizes) {
  return sizes.images * CeilDiv(sizes.h, BandRows(sizes)) * sizes.c *
         static_cast<int64_t>(sizeof(double));
}

void BandSquares::AddTo(std::vector<double>& by_channel) const {
  const double* squares = squares_.data();
  for (int64_t i = 0; i < sizes_.images * bands_; ++i, squares += sizes_.c) {
    for (int64_t c = 0; c < sizes_.c; ++c) by_channel[static_cast<size_t>(c)] += squares[c];
  }
}

template <class Stored>
void BandSquares::Widen(const Stored* from, double* to, const PreciseKernels<Stored>& kernels,
                        const Parallel& parallel) {
  const bool inside = sizes_.channels_inside;
  const int64_t parts = inside ? bands_ : sizes_.c;
  const int64_t numbers = inside ? PixelsOf(0) * sizes_.c : sizes_.h * sizes_.w;
  ForParts(parallel, sizes_.images * parts, numbers, [&](int64_t i) {
    if (inside) return WidenBand(from, to, i / parts, i % parts, kernels);
    WidenPlane(from, to, i / parts, i % parts, kernels);
  });
}

// Few channels are taken for several pixels at once, so that vectors are full.
template <class Stored>
void BandSquares::WidenBand(const Stored* from, double* to, int64_t image, int64_t band,
                            const PreciseKernels<Stored>& kernels) {
  constexpr int64_t kFewest = 64;
  const int64_t channels = sizes_.c, pixels = PixelsOf(band);
  const int64_t together = std::min(pixels, CeilDiv(kFewest, channels));
  const int64_t begin = (image * sizes_.h + band * band_rows_) * sizes_.w * channels;
  double* sums = squares_.data() + (image * bands_ + band) * channels;
  std::fill_n(sums, channels, 0.0);
  if (together == 1) return kernels.widen(from + begin, to + begin, sums, pixels, channels);
  double some[2 * kFewest] = {};
  const int64_t row = together * channels, rows = pixels / together, rest = begin + rows * row;
  kernels.widen(from + begin, to + begin, some, rows, row);
  kernels.widen(from + rest, to + rest, some, 1, pixels * channels - rows * row);
  for (int64_t i = 0; i < row; ++i) sums[i % channels] += some[i];
}

template <class Stored>
void BandSquares::WidenPlane(const Stored* from, double* to, int64_t image, int64_t channel,
                             const PreciseKernels<Stored>& kernels) {
  constexpr int64_t kTogether = 32;
  for (int64_t band = 0; band < bands_; ++band) {
    const int64_t row = (image * sizes_.c + channel) * sizes_.h + band * band_rows_;
    const int64_t begin = row * sizes_.w, pixels = PixelsOf(band);
    const int64_t rest = begin + pixels / kTogether * kTogether;
    double some[kTogether] = {}, sum = 0;
    kernels.widen(from + begin, to + begin, some, pixels / kTogether, kTogether);
    kernels.widen(from + rest, to + rest, some, 1, begin + pixels - rest);
    for (const double squares : some) sum += squares;
    squares_[static_cast<size_t>((image * bands_ + band) * sizes_.c + channel)] = sum;
  }
}

PixelSquares::PixelSquares(const DataSizes& sizes, int64_t groups)
    : sizes_(sizes),
      groups_(groups),
      pixel_step_(sizes.channels_inside ? groups : 1),
      group_step_(sizes.channels_inside ? 1 : sizes.h * sizes.w),
      squares_(static_cast<size_t>(sizes.images * sizes.h * sizes.w * groups)) {}

template <class Stored>
void PixelSquares::Widen(const Stored* from, double* to, const PreciseKernels<Stored>& kernels,
                         const Parallel& parallel) {
  const int64_t plane = sizes_.h * sizes_.w, group_c = sizes_.c / groups_;
  if (sizes_.channels_inside) {
    return ForParts(parallel, sizes_.images * sizes_.h, sizes_.w * sizes_.c, [&](int64_t row) {
      const int64_t begin = row * sizes_.w * sizes_.c;
      kernels.widen_rows(from + begin, to + begin, squares_.data() + row * sizes_.w * groups_,
                         sizes_.w * groups_, group_c);
    });
  }
  ForParts(parallel, sizes_.images * groups_, plane * group_c, [&](int64_t i) {
    double* squares = squares_.data() + i * plane;
    std::fill_n(squares, plane, 0.0);
    kernels.widen(from + i * group_c * plane, to + i * group_c * plane, squares, group_c, plane);
  });
}

#define CONVGRAD_FOR_STORED(Stored)                                                        \
  template void BandSquares::Widen(const Stored*, double*, const PreciseKernels<Stored>&,  \
                                   const Parallel&);                                       \
  template void PixelSquares::Widen(const Stored*, double*, const PreciseKernels<Stored>&, \
                                    const Parallel&);
CONVGRAD_FOR_STORED(Float16)
CONVGRAD_FOR_STORED(BFloat16)
CONVGRAD_FOR_STORED(float)
#undef CONVGRAD_FOR_STORED

}  // namespace convgrad
