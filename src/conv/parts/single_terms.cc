#include "conv/parts/single_terms.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "base/deadline.h"
#include "order/term_walk.h"

namespace convgrad {
namespace {

// Rows (tap, input channel of the group) and columns (output channels) of the filter that one task
// has alone.
struct Block {
  int64_t row_begin, row_end, col_begin, col_end;
};

// Enough blocks for all threads, of rows as long as there are.
class Blocks {
 public:
  Blocks(int64_t rows, int64_t cols, int num_threads) : rows_(rows), cols_(cols) {
    const int64_t wanted = num_threads == 1 ? 1 : 4 * num_threads;
    down_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, rows));
    across_ = std::clamp<int64_t>(wanted / down_, 1, std::max<int64_t>(1, cols));
  }
  int64_t count() const { return down_ * across_; }
  Block operator[](int64_t i) const {
    const int64_t row = i / across_, col = i % across_;
    return {rows_ * row / down_, rows_ * (row + 1) / down_, cols_ * col / across_,
            cols_ * (col + 1) / across_};
  }

 private:
  int64_t rows_, cols_, down_ = 1, across_ = 1;
};

struct Place {
  int64_t image, row, col, channel;
};

// It lists the terms that a number of an operand has a part in.
class TermPlaces {
 public:
  explicit TermPlaces(const Problem& problem)
      : g_(problem.geometry),
        format_(problem.data_format),
        in_(DataStrides::Of(format_, g_.in_h, g_.in_w, g_.in_c)),
        out_(DataStrides::Of(format_, g_.out_h, g_.out_w, g_.out_c)) {}

  int64_t rows() const { return g_.kernel_h * g_.kernel_w * g_.group_in_c; }
  int64_t cols() const { return g_.out_c; }

  // visit(element, other) for each term in the block of the input's number `at`: `other` is the
  // index of its partner in out_backprop.
  template <class Visit>
  void OfInput(int64_t at, const Block& block, const Visit& visit) const {
    const Place x = PlaceOf(at, g_.in_h, g_.in_w, g_.in_c);
    const int64_t group = x.channel / g_.group_in_c, q = x.channel % g_.group_in_c;
    const int64_t begin = std::max(block.col_begin, group * g_.group_out_c);
    const int64_t end = std::min(block.col_end, (group + 1) * g_.group_out_c);
    for (int64_t r = 0; r < g_.kernel_h && begin < end; ++r) {
      const auto i = OutputOf(x.row + g_.pad_top - r * g_.dilation_h, g_.stride_h, g_.out_h);
      for (int64_t t = 0; t < g_.kernel_w && i; ++t) {
        const int64_t row = (r * g_.kernel_w + t) * g_.group_in_c + q;
        if (row < block.row_begin || row >= block.row_end) continue;
        const auto j = OutputOf(x.col + g_.pad_left - t * g_.dilation_w, g_.stride_w, g_.out_w);
        if (!j) continue;
        for (int64_t o = begin; o < end; ++o) {
          visit(row * g_.out_c + o, out_.At(x.image, *i, *j, o));
        }
      }
    }
  }

  // The same of out_backprop's number `at`, with partners in the input.
  template <class Visit>
  void OfOutBackprop(int64_t at, const Block& block, const Visit& visit) const {
    const Place y = PlaceOf(at, g_.out_h, g_.out_w, g_.out_c);
    if (y.channel < block.col_begin || y.channel >= block.col_end) return;
    const int64_t base = y.channel / g_.group_out_c * g_.group_in_c;
    for (int64_t tap = block.row_begin / g_.group_in_c; tap < CeilDiv(block.row_end, g_.group_in_c);
         ++tap) {
      const int64_t row = y.row * g_.stride_h + tap / g_.kernel_w * g_.dilation_h - g_.pad_top;
      const int64_t col = y.col * g_.stride_w + tap % g_.kernel_w * g_.dilation_w - g_.pad_left;
      if (row < 0 || row >= g_.in_h || col < 0 || col >= g_.in_w) continue;
      const int64_t first = tap * g_.group_in_c;
      const int64_t begin = std::max(block.row_begin - first, int64_t{0});
      const int64_t end = std::min(block.row_end - first, g_.group_in_c);
      for (int64_t q = begin; q < end; ++q) {
        visit((first + q) * g_.out_c + y.channel, in_.At(y.image, row, col, base + q));
      }
    }
  }

 private:
  // The output whose tap reads `position`, counted from the tap's first; none where a stride skips
  // it.
  static std::optional<int64_t> OutputOf(int64_t position, int64_t stride, int64_t size) {
    if (position < 0 || position % stride != 0 || position / stride >= size) return std::nullopt;
    return position / stride;
  }
  Place PlaceOf(int64_t at, int64_t h, int64_t w, int64_t c) const {
    if (format_ == DataFormat::kNHWC) return {at / c / w / h, at / c / w % h, at / c % w, at % c};
    return {at / w / h / c, at / w % h, at % w, at / w / h % c};
  }

  const ConvGeometry g_;
  const DataFormat format_;
  const DataStrides in_, out_;
};

template <class Stored>
class SingleTerms {
 public:
  SingleTerms(const Problem& problem, const CutOperands<Stored>& operands, FixedPointSums& sums)
      : places_(problem),
        operands_(operands),
        input_slicer_(operands.input_slices.cuts()),
        has_slices_(operands.input_slices.cuts().slices > 0),
        sums_(sums) {}

  const TermPlaces& places() const { return places_; }

  void AddInput(const Leftover& leftover, const Block& block) const {
    const double number = Widen(operands_.input[leftover.at]);
    const bool is_finite = std::isfinite(number);
    places_.OfInput(leftover.at, block, [&](int64_t element, int64_t other) {
      const double partner = Widen(operands_.out_backprop[other]);
      if (!is_finite || !std::isfinite(partner)) return Mark(element, number * partner);
      sums_.AddProduct(element, leftover.rest, partner);
    });
  }
  // Terms of two infinite or NaN numbers are marked by the input's.
  void AddOutBackprop(const Leftover& leftover, const Block& block) const {
    const bool is_finite = std::isfinite(leftover.rest);
    if (is_finite && !has_slices_) return;
    places_.OfOutBackprop(leftover.at, block, [&](int64_t element, int64_t other) {
      const double partner = Widen(operands_.input[other]);
      if (!std::isfinite(partner)) return;
      if (!is_finite) return Mark(element, leftover.rest * partner);
      sums_.AddProduct(element, partner - input_slicer_.Rest(partner), leftover.rest);
    });
  }

 private:
  void Mark(int64_t element, double product) const {
    sums_.MarkSpecial(element, SpecialSumOf(product));
  }

  const TermPlaces places_;
  const CutOperands<Stored>& operands_;
  const Slicer input_slicer_;
  const bool has_slices_;
  FixedPointSums& sums_;
};

// visit(leftover) for all. Where all numbers are left over they have billions of terms: a request
// to stop is heard between them.
template <class Visit>
void ForEach(const std::vector<Leftover>& leftovers, const Visit& visit) {
  constexpr size_t kBetweenLooks = 64;
  for (size_t i = 0; i < leftovers.size(); ++i) {
    if (i % kBetweenLooks == 0 && MustEnd()) throw Stopped{};
    visit(leftovers[i]);
  }
}

}  // namespace

template <class Stored>
void AddSingleTerms(const Problem& problem, const CutOperands<Stored>& operands,
                    const Parallel& parallel, FixedPointSums& sums) {
  const std::vector<Leftover>& of_input = operands.input_slices.leftovers();
  const std::vector<Leftover>& of_out = operands.out_slices.leftovers();
  if (of_input.empty() && of_out.empty()) return;
  const SingleTerms<Stored> terms(problem, operands, sums);
  const Blocks blocks(terms.places().rows(), terms.places().cols(), parallel.num_threads());
  parallel.For(blocks.count(), [&](int64_t i) {
    ForEach(of_input, [&](const Leftover& leftover) { terms.AddInput(leftover, blocks[i]); });
    ForEach(of_out, [&](const Leftover& leftover) { terms.AddOutBackprop(leftover, blocks[i]); });
  });
}

template void AddSingleTerms(const Problem&, const CutOperands<Float16>&, const Parallel&,
                             FixedPointSums&);
template void AddSingleTerms(const Problem&, const CutOperands<BFloat16>&, const Parallel&,
                             FixedPointSums&);
template void AddSingleTerms(const Problem&, const CutOperands<float>&, const Parallel&,
                             FixedPointSums&);
template void AddSingleTerms(const Problem&, const CutOperands<double>&, const Parallel&,
                             FixedPointSums&);

}  // namespace convgrad
