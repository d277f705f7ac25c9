// The micro-kernel on whole vectors of every instruction set, tile by tile, against its formula:
// bits, and no vector touched that is not the tile's.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/canonical_order.h"
#include "kernels/kernel_table.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

template <class Compute>
using Fold = std::conditional_t<std::is_same_v<Compute, double>, FoldDouble, FoldFloat>;

// The next terms of a chain: a pair's second product goes first.
template <class Compute>
Compute Chain(Compute a, Compute b, Compute sum) {
  return std::fma(a, b, sum);
}
float Chain(BFloat16Pair a, BFloat16Pair b, float sum) {
  sum = std::fma(Widen(a.second), Widen(b.second), sum);
  return std::fma(Widen(a.first), Widen(b.first), sum);
}

template <class Element>
class Product {
 public:
  using Compute = ComputeType<Element>;

  Product(uint64_t seed, const VectorTile<Element>& tile, int64_t lanes, int64_t num_blocks)
      : random_(seed), cols_(tile.cols), lanes_(lanes) {
    num_rows = 1 + Draw(tile.rows);
    num_cols = 1 + Draw(tile.cols);
    for (int64_t i = 0; i < num_blocks; ++i) {
      for (int64_t left = Draw(4); left > 0; --left) {
        segments_.push_back({Draw(20), Draw(50), Draw(9)});
      }
      block_ends_.push_back(static_cast<int64_t>(segments_.size()));
    }
    for (int i = 0; i < tile.rows; ++i) {
      a_rows_.push_back(i < num_rows ? Draw(30) : a_rows_.back());
      c_rows.push_back(int64_t{i} * (tile.cols + 1) + 1);
    }
    for (int64_t i = 0; i < 60 * lanes; ++i) a_.push_back(Value());
    for (int64_t i = 0; i < 60 + 9 * cols_; ++i) b_.push_back(Value());
    c.assign(static_cast<size_t>((tile.rows * (tile.cols + 1) + 1) * lanes), Compute{77});
  }

  void Run(const VectorTile<Element>& tile, double* sums, bool odd) {
    VectorTileArgs<Element> args{};
    args.a = a_.data();
    args.a_rows = a_rows_.data();
    args.b = b_.data();
    args.segments = segments_.data();
    args.block_ends = block_ends_.data();
    args.num_blocks = static_cast<int64_t>(block_ends_.size());
    args.sums = sums;
    args.c = c.data();
    args.c_rows = c_rows.data();
    args.num_rows = num_rows;
    args.num_cols = num_cols;
    args.odd = odd;
    tile.run(args);
  }

  // The unrounded sum of one lane of vector (row, col).
  double Expected(int64_t row, int64_t col, int64_t lane) const {
    Fold<Compute> fold;
    size_t segment = 0;
    for (const int64_t end : block_ends_) {
      Compute chain = 0;
      for (; segment < static_cast<size_t>(end); ++segment) {
        const GemmSegment& s = segments_[segment];
        for (int64_t k = 0; k < s.length; ++k) {
          const int64_t vector = a_rows_[static_cast<size_t>(row)] + s.a + k;
          chain = Chain(a_[static_cast<size_t>(vector * lanes_ + lane)],
                        b_[static_cast<size_t>(s.b + k * cols_ + col)], chain);
        }
      }
      fold.AddBlock(chain);
    }
    fold.EndRun();
    return fold.Result();
  }

  int64_t num_rows, num_cols;
  std::vector<int64_t> c_rows;
  std::vector<Compute> c;

 private:
  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  // Mostly ordinary numbers; sometimes an infinity, which makes NaNs, or zeros of both signs.
  Element Value() {
    if constexpr (std::is_same_v<Element, BFloat16Pair>) {
      return {Narrow<BFloat16>(Number()), Narrow<BFloat16>(Number())};
    } else {
      return Number();
    }
  }

  Compute Number() {
    switch (Draw(200)) {
      case 0: return std::numeric_limits<Compute>::infinity();
      case 1: return -std::numeric_limits<Compute>::quiet_NaN();
      case 2:
      case 3: return Compute{-0.0};
      default: return static_cast<Compute>(std::uniform_real_distribution<double>(-1, 1)(random_));
    }
  }

  std::mt19937_64 random_;
  int64_t cols_, lanes_;
  std::vector<GemmSegment> segments_;
  std::vector<int64_t> block_ends_, a_rows_;
  std::vector<Element> a_, b_;
};

// Rounded to odd: what a correct rounding to 16 bits can start from.
float ToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const float towards_zero = away ? std::nextafterf(nearest, 0) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(towards_zero) | 1u);
}

template <class Element>
void ExpectProduct(const Product<Element>& product, int64_t lanes, bool odd,
                   const std::string& where) {
  using Compute = ComputeType<Element>;
  std::vector<Compute> expected(product.c.size(), Compute{77});
  for (int64_t i = 0; i < product.num_rows; ++i) {
    for (int64_t j = 0; j < product.num_cols * lanes; ++j) {
      const double sum = product.Expected(i, j / lanes, j % lanes);
      // A single block meets no double: its sum is a number of the compute type already.
      Compute value = odd ? static_cast<Compute>(ToOdd(sum)) : static_cast<Compute>(sum);
      if (std::isnan(value)) value = std::numeric_limits<Compute>::quiet_NaN();
      expected[static_cast<size_t>(product.c_rows[static_cast<size_t>(i)] * lanes + j)] = value;
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::memcmp(&expected[i], &product.c[i], sizeof(Compute)), 0)
        << where << " element " << i << " is " << product.c[i] << ", expected " << expected[i];
  }
}

template <class Element>
void CheckTiles(const KernelTable& table) {
  const ScopedFpEnvironment environment;
  const VectorGemmKernels<Element>& kernels = table.VectorGemm<Element>();
  uint64_t seed = 0;
  for (const VectorTile<Element>& tile : kernels.tiles) {
    AlignedArray<double> sums(int64_t{tile.rows} * tile.cols * kernels.lanes * 2);
    for (int trial = 0; trial < 40; ++trial) {
      ++seed;
      Product<Element> product(seed, tile, kernels.lanes, 1 + trial % 4);
      const bool odd = sizeof(Element) == 4 && trial % 3 == 0;
      product.Run(tile, sums.data(), odd);
      ExpectProduct(product, kernels.lanes, odd,
                    std::string(NameOf(table.isa)) + " " + std::to_string(tile.rows) + "x" +
                        std::to_string(tile.cols) + " seed " + std::to_string(seed));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(VectorGemm, FollowsItsFormula) {
  for (const KernelTable& table : SupportedKernels()) {
    CheckTiles<float>(table);
    CheckTiles<double>(table);
    if (table.has_bf16_pairs) CheckTiles<BFloat16Pair>(table);
  }
}

// Every number of columns up to the most, most rows first: what choosing a tile relies on.
TEST(VectorGemm, ListsTilesInOrder) {
  for (const KernelTable& table : SupportedKernels()) {
    const auto tiles = table.VectorGemm<float>().tiles;
    EXPECT_EQ(tiles.front().cols, 1);
    for (size_t i = 1; i < tiles.size(); ++i) {
      const bool same = tiles[i].cols == tiles[i - 1].cols;
      EXPECT_TRUE(same ? tiles[i].rows < tiles[i - 1].rows
                       : tiles[i].cols == tiles[i - 1].cols + 1);
    }
  }
}

}  // namespace
}  // namespace convgrad
