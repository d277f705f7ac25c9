#include "conv/precise/product_sizes.h"

#include <utility>

namespace convgrad {
namespace {

// The positions of the source that a result's position of one axis meets.
std::vector<int64_t> MetBy(int64_t position, bool forward, int64_t stride, int64_t dilation,
                           int64_t pad, int64_t kernel, int64_t size) {
  std::vector<int64_t> met;
  for (int64_t k = 0; k < kernel; ++k) {
    const int64_t at =
        forward ? position * stride + k * dilation - pad : position + pad - k * dilation;
    if (at < 0 || (!forward && at % stride != 0)) continue;
    const int64_t source = forward ? at : at / stride;
    if (source < size) met.push_back(source);
  }
  return met;
}

bool IsForward(const Problem& problem) {
  return InfoOf(problem.op).direction == Direction::kForward;
}

void AddGroups(const double* squares, int64_t group_c, int64_t groups, double* sums) {
  if (group_c == 1) {
    for (int64_t group = 0; group < groups; ++group) sums[group] += squares[group];
    return;
  }
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t c = 0; c < group_c; ++c) sums[group] += *squares++;
  }
}

// A window of squares for each pixel takes a few additions; a small part of what its sums take.
bool ByPixels(const ConvGeometry& g) {
  constexpr int64_t kFewestProducts = 64;
  return g.group_in_c * g.group_out_c >= kFewestProducts;
}

}  // namespace

int64_t FilterNorms::Bytes(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return (g.group_in_c * g.out_c + g.in_c + g.out_c) * static_cast<int64_t>(sizeof(double));
}

// kernel[tap][q][o]: forward sums over taps and q, the input gradient over taps and the group's o.
template <class Stored>
FilterNorms::FilterNorms(const Problem& problem, const Stored* from, double* to,
                         const PreciseKernels<Stored>& kernels, const Parallel& parallel) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = IsForward(problem);
  const int64_t taps = g.kernel_h * g.kernel_w;
  std::vector<double> squares(static_cast<size_t>(g.group_in_c * g.out_c));
  parallel.For(g.group_in_c, [&](int64_t q) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t at = (tap * g.group_in_c + q) * g.out_c;
      kernels.widen(from + at, to + at, squares.data() + q * g.out_c, 1, g.out_c);
    }
  });
  norms_.resize(static_cast<size_t>(forward ? g.out_c : g.in_c));
  for (int64_t q = 0; q < g.group_in_c; ++q) {
    for (int64_t o = 0; o < g.out_c; ++o) {
      const int64_t channel = forward ? o : o / g.group_out_c * g.group_in_c + q;
      norms_[static_cast<size_t>(channel)] += squares[static_cast<size_t>(q * g.out_c + o)];
    }
  }
  for (double& norm : norms_) norm = NormOf(norm);
}

TapSizes::TapSizes(const Problem& slab, const FilterNorms& filter)
    : g_(slab.geometry),
      forward_(IsForward(slab)),
      source_(DataSizes::Of(slab, forward_ ? Role::kInput : Role::kOutBackprop)),
      result_(DataSizes::Of(slab, forward_ ? Role::kOutBackprop : Role::kInput)),
      group_c_(result_.c / g_.groups),
      filter_(filter),
      by_pixels_(ByPixels(g_)) {}

int64_t TapSizes::Bytes(const Problem& slab) {
  const ConvGeometry& g = slab.geometry;
  const DataSizes source = DataSizes::Of(slab, IsForward(slab) ? Role::kInput : Role::kOutBackprop);
  if (!ByPixels(g)) {
    // Squares; norms, for every row of results at most; and lists of these rows, which hold up to
    // twice what they need.
    const int64_t rows = IsForward(slab) ? g.out_h : g.in_h;
    return BandSquares::Bytes(source) + g.batch * rows * g.groups * int64_t{sizeof(double)} +
           2 * rows * int64_t{sizeof(std::pair<int64_t, int64_t>) + sizeof(int64_t)};
  }
  return g.batch * g.groups * (g.in_h * g.in_w + g.out_h * g.out_w) *
         static_cast<int64_t>(sizeof(double));
}

template <class Stored>
void TapSizes::WidenSource(const Stored* from, double* to, const PreciseKernels<Stored>& kernels,
                           const Parallel& parallel) {
  if (by_pixels_) {
    PixelSquares squares(source_, g_.groups);
    squares.Widen(from, to, kernels, parallel);
    MakePixelNorms(squares, parallel);
  } else {
    BandSquares squares(source_);
    squares.Widen(from, to, kernels, parallel);
    MakeBandNorms(squares);
  }
}

// Row by row: the sums of columns first, which windows that are neighbours share.
void TapSizes::MakePixelNorms(const PixelSquares& squares, const Parallel& parallel) {
  const int64_t plane = result_.h * result_.w;
  norms_.resize(static_cast<size_t>(result_.images * plane * g_.groups));
  std::vector<std::vector<int64_t>> cols;
  for (int64_t j = 0; j < result_.w; ++j) {
    cols.push_back(
        MetBy(j, forward_, g_.stride_w, g_.dilation_w, g_.pad_left, g_.kernel_w, source_.w));
  }
  parallel.For(result_.images * result_.h, [&](int64_t line) {
    const int64_t image = line / result_.h, row = line % result_.h;
    const std::vector<int64_t> rows =
        MetBy(row, forward_, g_.stride_h, g_.dilation_h, g_.pad_top, g_.kernel_h, source_.h);
    std::vector<double> col_sums(static_cast<size_t>(source_.w));
    for (int64_t group = 0; group < g_.groups; ++group) {
      for (int64_t j = 0; j < source_.w; ++j) {
        double sum = 0;
        for (const int64_t i : rows) sum += squares.At(image, i, j, group);
        col_sums[static_cast<size_t>(j)] = sum;
      }
      for (int64_t j = 0; j < result_.w; ++j) {
        double sum = 0;
        for (const int64_t col : cols[static_cast<size_t>(j)]) {
          sum += col_sums[static_cast<size_t>(col)];
        }
        const int64_t at = IsInside() ? (line * result_.w + j) * g_.groups + group
                                      : (image * g_.groups + group) * plane + row * result_.w + j;
        norms_[static_cast<size_t>(at)] = NormOf(sum);
      }
    }
  });
}

// Rows that meet the same bands, or bands between, share a norm.
void TapSizes::MakeBandNorms(const BandSquares& squares) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (int64_t row = 0; row < result_.h; ++row) {
    const std::vector<int64_t> rows =
        MetBy(row, forward_, g_.stride_h, g_.dilation_h, g_.pad_top, g_.kernel_h, source_.h);
    std::pair<int64_t, int64_t> range(0, 0);
    if (!rows.empty()) {
      const auto [least, most] = std::ranges::minmax(rows);
      range = {squares.BandOf(least), squares.BandOf(most) + 1};
    }
    if (ranges.empty() || ranges.back() != range) ranges.push_back(range);
    bands_of_row_.push_back(static_cast<int64_t>(ranges.size()) - 1);
  }
  num_bands_ = static_cast<int64_t>(ranges.size());
  const int64_t group_c = source_.c / g_.groups;
  norms_.assign(static_cast<size_t>(result_.images * num_bands_ * g_.groups), 0.0);
  double* norms = norms_.data();
  for (int64_t image = 0; image < result_.images; ++image) {
    for (const auto& [begin, end] : ranges) {
      for (int64_t band = begin; band < end; ++band) {
        const double* of_band = squares.Of(image, band);
        AddGroups(of_band, group_c, g_.groups, norms);
      }
      for (int64_t group = 0; group < g_.groups; ++group, ++norms) *norms = NormOf(*norms);
    }
  }
}

PixelSizes::PixelSizes(const Problem& problem)
    : g_(problem.geometry),
      input_(static_cast<size_t>(g_.in_c)),
      out_backprop_(static_cast<size_t>(g_.out_c)) {}

void PixelSizes::Add(const BandSquares& input, const BandSquares& out_backprop) {
  input.AddTo(input_);
  out_backprop.AddTo(out_backprop_);
}

void PixelSizes::Add(const PixelSizes& other) {
  for (size_t i = 0; i < input_.size(); ++i) input_[i] += other.input_[i];
  for (size_t i = 0; i < out_backprop_.size(); ++i) out_backprop_[i] += other.out_backprop_[i];
}

#define CONVGRAD_FOR_STORED(Stored)                                                          \
  template FilterNorms::FilterNorms(const Problem&, const Stored*, double*,                  \
                                    const PreciseKernels<Stored>&, const Parallel&);         \
  template void TapSizes::WidenSource(const Stored*, double*, const PreciseKernels<Stored>&, \
                                      const Parallel&);
CONVGRAD_FOR_STORED(Float16)
CONVGRAD_FOR_STORED(BFloat16)
CONVGRAD_FOR_STORED(float)
#undef CONVGRAD_FOR_STORED

}  // namespace convgrad
