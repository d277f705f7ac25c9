// A random product for tests of the matrix micro-kernel, and what comes out by its formula.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "kernels/gemm/indirect_gemm.h"
#include "order/canonical_order.h"
#include "support/round_to_odd.h"

namespace convgrad {

template <class Compute>
using Fold = std::conditional_t<std::is_same_v<Compute, double>, FoldDouble, FoldFloat>;

// A product with random offsets: operands, blocks of segments, rows of the result in one tile or
// several.
template <class Compute>
struct Product {
  // Of a segment: several at once, half as many, some; far apart so many that later ones are
  // fetched.
  static constexpr int64_t kMostTerms = 27, kMostFarTerms = 70;

  Product(uint64_t seed, const GemmTile<Compute>& tile, int64_t num_rows_in, int64_t num_cols_in,
          int64_t num_blocks)
      : random(seed),
        num_rows(num_rows_in),
        num_cols(num_cols_in),
        num_tiles((num_rows_in + tile.rows - 1) / tile.rows),
        rows_of_last(num_rows_in - (num_tiles - 1) * tile.rows) {
    const int64_t far = Draw(10), far_step = 2048 / int64_t{sizeof(Compute)};
    b_step = (far == 0 ? far_step : tile.cols) + Draw(3);
    a_step = (far == 1 ? far_step : 1) + Draw(4);
    const int64_t most_terms = far <= 1 ? kMostFarTerms : kMostTerms;
    in_pairs = sizeof(Compute) == 4 && Draw(3) == 0;
    for (int64_t i = 0; i < num_blocks; ++i) {
      for (int64_t left = Draw(4); left > 0; --left) {
        const int64_t length = Draw(most_terms + 1);
        segments.push_back({Draw(100), Draw(100), in_pairs && length > 1 ? length & ~1 : length});
      }
      block_ends.push_back(static_cast<int64_t>(segments.size()));
    }
    for (int i = 0; i < num_tiles * tile.rows; ++i) {
      a_rows.push_back(i < num_rows ? Draw(200) : a_rows.back());
    }
    for (int64_t i = 0; i < 300 + a_step * most_terms; ++i) a.push_back(Value());
    const int64_t cols = std::max<int64_t>(tile.cols, num_cols);
    for (int64_t i = 0; i < 100 + b_step * most_terms + cols; ++i) b.push_back(Value());
    stream = Draw(3) == 0;
    masked = Draw(2) == 0;
    constexpr int64_t kLine = 64 / int64_t{sizeof(Compute)};
    const int64_t row = stream ? RoundUp(cols + 1, kLine) : cols + 5;
    c.assign(static_cast<size_t>(num_tiles * tile.rows * row + kLine), Compute{77});
    const int64_t to_line = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(c.data()) % 64);
    const int64_t first = stream ? to_line / int64_t{sizeof(Compute)} : 3;
    for (int64_t i = 0; i < num_tiles * tile.rows; ++i) c_rows.push_back(first + i * row);
  }

  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  }

  // Mostly ordinary numbers; sometimes an infinity, which makes NaNs, or zeros of both signs.
  Compute Value() {
    switch (Draw(200)) {
      case 0: return std::numeric_limits<Compute>::infinity();
      case 1: return -std::numeric_limits<Compute>::quiet_NaN();
      case 2:
      case 3: return Compute{-0.0};
      default: return static_cast<Compute>(std::uniform_real_distribution<double>(-1, 1)(random));
    }
  }

  // Blocks [begin, end).
  GemmTileArgs<Compute> Args(int64_t begin, int64_t end, double* sums) {
    GemmTileArgs<Compute> args{};
    const int64_t first = begin == 0 ? 0 : block_ends[static_cast<size_t>(begin - 1)];
    ends_from_first.clear();
    for (int64_t i = begin; i < end; ++i) {
      ends_from_first.push_back(block_ends[static_cast<size_t>(i)] - first);
    }
    args.a = a.data();
    args.num_tiles = num_tiles;
    args.a_rows = a_rows.data();
    args.a_step = a_step;
    args.b = b.data();
    args.b_step = b_step;
    args.in_pairs = in_pairs;
    args.segments = segments.data() + first;
    args.block_ends = ends_from_first.data();
    args.num_blocks = end - begin;
    args.sums = sums;
    args.c = c.data();
    args.c_rows = c_rows.data();
    args.num_rows = rows_of_last;
    args.num_cols = num_cols;
    args.stream = stream;
    args.masked = masked;
    return args;
  }

  // The unrounded sum of one element.
  double Expected(int64_t row, int64_t col) const {
    Fold<Compute> fold;
    size_t segment = 0;
    for (const int64_t end : block_ends) {
      Compute chain = 0;
      for (; segment < static_cast<size_t>(end); ++segment) {
        const GemmSegment& s = segments[segment];
        for (int64_t i = 0; i < s.length; ++i) {
          const int64_t k = in_pairs && s.length > 1 ? i ^ 1 : i;
          chain =
              std::fma(a[static_cast<size_t>(a_rows[static_cast<size_t>(row)] + s.a + k * a_step)],
                       b[static_cast<size_t>(s.b + k * b_step + col)], chain);
        }
      }
      fold.AddBlock(chain);
    }
    fold.EndRun();
    return fold.Result();
  }

  std::mt19937_64 random;
  int64_t num_rows, num_cols, num_tiles, rows_of_last, a_step, b_step;
  bool in_pairs, stream, masked;
  std::vector<GemmSegment> segments;
  std::vector<int64_t> block_ends, ends_from_first, a_rows, c_rows;
  std::vector<Compute> a, b, c;
};

template <class Compute>
void ExpectProduct(const Product<Compute>& product, const GemmTile<Compute>& tile, bool odd,
                   const char* isa, uint64_t seed) {
  std::vector<Compute> expected(product.c.size(), Compute{77});
  for (int64_t i = 0; i < product.num_rows; ++i) {
    for (int64_t j = 0; j < product.num_cols; ++j) {
      const double sum = product.Expected(i, j);
      Compute value =
          odd ? static_cast<Compute>(testing::RoundedToOdd(sum)) : static_cast<Compute>(sum);
      if (std::isnan(value)) value = std::numeric_limits<Compute>::quiet_NaN();
      expected[static_cast<size_t>(product.c_rows[static_cast<size_t>(i)] + j)] = value;
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::memcmp(&expected[i], &product.c[i], sizeof(Compute)), 0)
        << isa << " seed " << seed << " element " << i << " is " << product.c[i] << ", expected "
        << expected[i] << " (tile of " << tile.rows << "x" << tile.cols << ")";
  }
}

}  // namespace convgrad
