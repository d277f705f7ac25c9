// A forward convolution by Winograd's transforms, in an arithmetic that the library does not share.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "support/arithmetic_testing.h"

namespace convgrad::testing {

// F(2x2, 3x3) as its formulas have it, with sums over channels in so many lanes.
class WinogradByHand {
 public:
  WinogradByHand(const Layer& layer, double (*round)(double), size_t lanes)
      : layer_(layer), g_(layer.problem.geometry), round_(round), lanes_(lanes) {}

  Tensor Run() const {
    Tensor result(layer_.problem.dtype, layer_.problem.ResultShape());
    for (int64_t n = 0; n < g_.batch; ++n) {
      for (int64_t i = 0; i < g_.out_h; i += 2) {
        for (int64_t j = 0; j < g_.out_w; j += 2) {
          for (int64_t o = 0; o < g_.out_c; ++o) AddTile(n, i, j, o, result);
        }
      }
    }
    return result;
  }

 private:
  using Four = std::array<float, 4>;

  static Four OfInput(const Four& d) {
    return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  }
  static Four OfFilter(const Four& g) {
    return {g[0], (g[0] + g[1] + g[2]) / 2, (g[0] - g[1] + g[2]) / 2, g[2]};
  }
  static Four OfOutput(const Four& m) { return {m[0] + m[1] + m[2], m[1] - m[2] - m[3], 0, 0}; }

  // Along each column, then along each row.
  template <class Transform>
  static std::array<Four, 4> Both(std::array<Four, 4> square, const Transform& transform) {
    for (size_t col = 0; col < 4; ++col) {
      const Four along =
          transform({square[0][col], square[1][col], square[2][col], square[3][col]});
      for (size_t row = 0; row < 4; ++row) square[row][col] = along[row];
    }
    for (Four& row : square) row = transform(row);
    return square;
  }

  void AddTile(int64_t n, int64_t i, int64_t j, int64_t o, Tensor& result) const {
    std::vector<std::array<Four, 4>> sums(lanes_);
    for (int64_t c = 0; c < g_.in_c; ++c) {
      std::array<Four, 4> patch{}, taps{};
      for (size_t r = 0; r < 4; ++r) {
        for (size_t t = 0; t < 4; ++t) {
          const int64_t h = i + static_cast<int64_t>(r) - g_.pad_top;
          const int64_t w = j + static_cast<int64_t>(t) - g_.pad_left;
          if (h >= 0 && h < g_.in_h && w >= 0 && w < g_.in_w) {
            patch[r][t] = layer_.operands.first
                              .data<float>()[((n * g_.in_h + h) * g_.in_w + w) * g_.in_c + c];
          }
          if (r < 3 && t < 3) {
            taps[r][t] = layer_.operands.second.data<
                float>()[((static_cast<int64_t>(r) * 3 + static_cast<int64_t>(t)) * g_.in_c + c) *
                             g_.out_c +
                         o];
          }
        }
      }
      const auto inputs = Both(patch, OfInput), filters = Both(taps, OfFilter);
      auto& lane = sums[static_cast<size_t>(c) % lanes_];
      for (size_t p = 0; p < 16; ++p) {
        lane[p / 4][p % 4] += static_cast<float>(round_(inputs[p / 4][p % 4])) *
                              static_cast<float>(round_(filters[p / 4][p % 4]));
      }
    }
    for (size_t lane = 1; lane < lanes_; ++lane) {
      for (size_t p = 0; p < 16; ++p) sums[0][p / 4][p % 4] += sums[lane][p / 4][p % 4];
    }
    const auto outputs = Both(sums[0], OfOutput);
    for (int64_t r = 0; r < 2 && i + r < g_.out_h; ++r) {
      for (int64_t t = 0; t < 2 && j + t < g_.out_w; ++t) {
        result.mutable_data<float>()[((n * g_.out_h + i + r) * g_.out_w + j + t) * g_.out_c + o] =
            outputs[static_cast<size_t>(r)][static_cast<size_t>(t)];
      }
    }
  }

  const Layer& layer_;
  const ConvGeometry& g_;
  double (*round_)(double);
  size_t lanes_;
};

}  // namespace convgrad::testing
