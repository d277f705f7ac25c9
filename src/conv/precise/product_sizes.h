// Bounds of how large the terms of sums are, S = sum of |x*y| of every element of a result, at next
// to no cost: by Cauchy-Schwarz no S exceeds the root of the sum of squares of all x that may be
// met times that of all y. Must not know what the bounds are for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "conv/precise/squares.h"

namespace convgrad {

// The norms of what each of the result's channels meets of the filter, in a forward pass or an
// input gradient.
class FilterNorms {
 public:
  template <class Stored>
  FilterNorms(const Problem& problem, const Stored* from, double* to,
              const PreciseKernels<Stored>& kernels, const Parallel& parallel);
  double operator[](int64_t channel) const { return norms_[static_cast<size_t>(channel)]; }
  const double* data() const { return norms_.data(); }

  static int64_t Bytes(const Problem& problem);

 private:
  std::vector<double> norms_;
};

// Bounds for a slab of a forward pass or an input gradient. They are made of the filter's norms and
// of norms of the source: by pixels of the result and groups; or, where groups are so small that
// this is as much work as the sums, by bands of the source's rows.
class TapSizes {
 public:
  TapSizes(const Problem& slab, const FilterNorms& filter);

  template <class Stored>
  void WidenSource(const Stored* from, double* to, const PreciseKernels<Stored>& kernels,
                   const Parallel& parallel);

  // Parts of the result: its rows, or planes.
  int64_t NumLines() const { return result_.images * (IsInside() ? result_.h : result_.c); }
  // visit(begin, count, sizes, scale) for runs that make up the lines [begin, end): element begin +
  // i is bounded by sizes[i] * scale.
  template <class Visit>
  void VisitRuns(int64_t begin, int64_t end, const Visit& visit) const;

  static int64_t Bytes(const Problem& slab);

 private:
  bool IsInside() const { return result_.channels_inside; }
  void MakePixelNorms(const PixelSquares& squares, const Parallel& parallel);
  void MakeBandNorms(const BandSquares& squares);
  // The bands of the source that the results of a row meet, and more: a place in norms_.
  int64_t BandsOf(int64_t row) const { return bands_of_row_[static_cast<size_t>(row)]; }
  template <class Visit>
  void VisitRowByPixels(int64_t line, const Visit& visit) const;
  template <class Visit>
  void VisitRowByBands(int64_t line, std::vector<double>& sizes, int64_t& known,
                       const Visit& visit) const;
  template <class Visit>
  void VisitPlane(int64_t image, int64_t channel, std::vector<double>& sizes,
                  const Visit& visit) const;

  const ConvGeometry g_;
  const bool forward_;
  const DataSizes source_, result_;
  const int64_t group_c_;  // of the result
  const FilterNorms& filter_;
  const bool by_pixels_;
  std::vector<double> norms_;  // as the result's pixels and groups lie; or by bands and groups
  std::vector<int64_t> bands_of_row_;
  int64_t num_bands_ = 0;
};

// Bounds for a filter gradient, of norms of each channel of both operands.
class PixelSizes {
 public:
  explicit PixelSizes(const Problem& problem);

  void Add(const BandSquares& input, const BandSquares& out_backprop);
  void Add(const PixelSizes& other);
  int64_t NumLines() const { return g_.group_in_c; }
  template <class Visit>
  void VisitRuns(int64_t begin, int64_t end, const Visit& visit) const;

 private:
  const ConvGeometry g_;
  std::vector<double> input_, out_backprop_;  // squares by channels
};

// --- implementation of the visits ---

// Numbers of a run, at least, where there are as many: short ones cost more than their numbers.
inline constexpr int64_t kShortestRun = 64;

template <class Visit>
void TapSizes::VisitRuns(int64_t begin, int64_t end, const Visit& visit) const {
  std::vector<double> sizes;
  int64_t known = -1;
  for (int64_t line = begin; line < end; ++line) {
    if (!IsInside()) {
      VisitPlane(line / result_.c, line % result_.c, sizes, visit);
    } else if (by_pixels_) {
      VisitRowByPixels(line, visit);
    } else {
      VisitRowByBands(line, sizes, known, visit);
    }
  }
}

template <class Visit>
void TapSizes::VisitRowByPixels(int64_t line, const Visit& visit) const {
  const double* norm = norms_.data() + line * result_.w * g_.groups;
  int64_t first = line * result_.w * result_.c;
  for (int64_t pixel = 0; pixel < result_.w; ++pixel) {
    for (int64_t c = 0; c < result_.c; c += group_c_, first += group_c_) {
      visit(first, group_c_, filter_.data() + c, *norm++);
    }
  }
}

// `known`: the bands of which `sizes` are, which rows that are neighbours share.
template <class Visit>
void TapSizes::VisitRowByBands(int64_t line, std::vector<double>& sizes, int64_t& known,
                               const Visit& visit) const {
  const int64_t channels = result_.c, row = result_.w * channels;
  const int64_t run = std::min(result_.w, CeilDiv(kShortestRun, channels)) * channels;
  const int64_t bands = line / result_.h * num_bands_ + BandsOf(line % result_.h);
  sizes.resize(static_cast<size_t>(run));
  if (std::exchange(known, bands) != bands) {
    const double* norms = norms_.data() + bands * g_.groups;
    double* size = sizes.data();
    for (int64_t group = 0; group < g_.groups; ++group) {
      for (int64_t c = 0; c < group_c_; ++c) *size++ = norms[group];
    }
    for (int64_t c = 0; c < channels; ++c) sizes[static_cast<size_t>(c)] *= filter_[c];
    for (int64_t i = channels; i < run; ++i) {
      sizes[static_cast<size_t>(i)] = sizes[static_cast<size_t>(i - channels)];
    }
  }
  for (int64_t at = 0; at < row; at += run) {
    visit(line * row + at, std::min(run, row - at), sizes.data(), 1.0);
  }
}

template <class Visit>
void TapSizes::VisitPlane(int64_t image, int64_t channel, std::vector<double>& sizes,
                          const Visit& visit) const {
  const int64_t plane = result_.h * result_.w, group = channel / group_c_;
  const int64_t first = (image * result_.c + channel) * plane;
  if (by_pixels_) {
    return visit(first, plane, norms_.data() + (image * g_.groups + group) * plane,
                 filter_[channel]);
  }
  for (int64_t row = 0; row < result_.h;) {
    const int64_t bands = BandsOf(row);
    int64_t end = row;
    while (end < result_.h && BandsOf(end) == bands) ++end;
    const double norm =
        norms_[static_cast<size_t>((image * num_bands_ + bands) * g_.groups + group)];
    sizes.assign(static_cast<size_t>((end - row) * result_.w), norm);
    visit(first + row * result_.w, (end - row) * result_.w, sizes.data(), filter_[channel]);
    row = end;
  }
}

template <class Visit>
void PixelSizes::VisitRuns(int64_t begin, int64_t end, const Visit& visit) const {
  std::vector<double> sizes(static_cast<size_t>(g_.out_c));
  for (int64_t q = begin; q < end; ++q) {
    for (int64_t o = 0; o < g_.out_c; ++o) {
      const int64_t channel = o / g_.group_out_c * g_.group_in_c + q;
      sizes[static_cast<size_t>(o)] = NormOf(input_[static_cast<size_t>(channel)]) *
                                      NormOf(out_backprop_[static_cast<size_t>(o)]);
    }
    for (int64_t tap = 0; tap < g_.kernel_h * g_.kernel_w; ++tap) {
      visit((tap * g_.group_in_c + q) * g_.out_c, g_.out_c, sizes.data(), 1.0);
    }
  }
}

}  // namespace convgrad
