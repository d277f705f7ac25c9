// The micro-kernel on whole vectors of every instruction set, tile by tile, against its formula:
// bits, and no vector touched that is not the tile's.
#include <gtest/gtest.h>

#include <algorithm>
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
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "support/round_to_odd.h"
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
class RandomElements {
 public:
  using Compute = ComputeType<Element>;

  explicit RandomElements(uint64_t seed) : random_(seed) {}

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

 private:
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
};

template <class Element>
class VectorProduct : private RandomElements<Element> {
 public:
  using Compute = ComputeType<Element>;

  VectorProduct(uint64_t seed, const VectorTile<Element>& tile, int64_t lanes, int64_t num_blocks)
      : RandomElements<Element>(seed), cols_(tile.cols), lanes_(lanes) {
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
  using RandomElements<Element>::Draw;
  using RandomElements<Element>::Value;

  int64_t cols_, lanes_;
  std::vector<GemmSegment> segments_;
  std::vector<int64_t> block_ends_, a_rows_;
  std::vector<Element> a_, b_;
};

template <class Compute>
Compute RoundedAs(double sum, bool odd) {
  if (std::isnan(sum)) return std::numeric_limits<Compute>::quiet_NaN();
  return odd ? static_cast<Compute>(testing::RoundedToOdd(sum)) : static_cast<Compute>(sum);
}

template <class Element>
void ExpectVectorProduct(const VectorProduct<Element>& product, int64_t lanes, bool odd,
                         const std::string& where) {
  using Compute = ComputeType<Element>;
  std::vector<Compute> expected(product.c.size(), Compute{77});
  for (int64_t i = 0; i < product.num_rows; ++i) {
    for (int64_t j = 0; j < product.num_cols * lanes; ++j) {
      const double sum = product.Expected(i, j / lanes, j % lanes);
      // A single block meets no double: its sum is a number of the compute type already.
      const Compute value = RoundedAs<Compute>(sum, odd);
      expected[static_cast<size_t>(product.c_rows[static_cast<size_t>(i)] * lanes + j)] = value;
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::memcmp(&expected[i], &product.c[i], sizeof(Compute)), 0)
        << where << " element " << i << " is " << product.c[i] << ", expected " << expected[i];
  }
}

template <class Element>
void CheckVectorTiles(const KernelTable& table) {
  const ScopedFpEnvironment environment;
  const VectorGemmKernels<Element>& kernels = table.VectorGemm<Element>();
  uint64_t seed = 0;
  for (const VectorTile<Element>& tile : kernels.tiles) {
    AlignedArray<double> sums(int64_t{tile.rows} * tile.cols * kernels.lanes * 2);
    for (int trial = 0; trial < 40; ++trial) {
      ++seed;
      VectorProduct<Element> product(seed, tile, kernels.lanes, 1 + trial % 4);
      const bool odd = sizeof(Element) == 4 && trial % 3 == 0;
      product.Run(tile, sums.data(), odd);
      ExpectVectorProduct(product, kernels.lanes, odd,
                          std::string(NameOf(table.isa)) + " " + std::to_string(tile.rows) + "x" +
                              std::to_string(tile.cols) + " seed " + std::to_string(seed));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Sums that slide over some lines, computed in two calls.
template <class Element>
class SlidingProduct : private RandomElements<Element> {
 public:
  using Compute = ComputeType<Element>;

  SlidingProduct(uint64_t seed, const SlidingTile<Element>& tile, int64_t lanes)
      : RandomElements<Element>(seed), tile_(tile), lanes_(lanes) {
    num_results = 1 + Draw(9);
    line_begin_ = Draw(4);
    line_end_ = line_begin_ + Draw(12);
    for (int64_t left = Draw(4); left > 0; --left) {
      pieces_.push_back({{Draw(20), Draw(50), Draw(9)},
                         seed % 3 == 0 ? 0 : static_cast<uint32_t>(Draw(1 << tile.cols))});
    }
    pieces_.push_back({{Draw(20), Draw(50), Draw(9)}, uint32_t{1} << (tile.cols - 1)});
    for (int64_t i = 0; i < (kLine * 16 + 8 * kStep + 30) * lanes; ++i) a_.push_back(Value());
    for (int64_t i = 0; i < 50 + 9 * tile.cols; ++i) b_.push_back(Value());
    c.assign(static_cast<size_t>((num_results * (tile.rows + 1) * 2 + 1) * lanes), Compute{77});
  }

  void Run(bool odd) {
    AlignedArray<Compute> chains(int64_t{tile_.rows} * tile_.cols * lanes_);
    AlignedArray<double> sums(int64_t{tile_.rows} * tile_.cols * lanes_ * 2);
    std::fill_n(chains.data(), chains.size(), Compute{0});
    std::fill_n(sums.data(), sums.size(), 0.0);
    SlidingTileArgs<Element> args{};
    args.a_line = kLine;
    args.a_step = kStep;
    args.b = b_.data();
    args.pieces = pieces_;
    args.num_blocks = NumBlocks();
    args.line_begin = line_begin_;
    args.line_end = line_end_;
    args.chains = chains.data();
    args.sums = sums.data();
    args.c_line = (tile_.rows + 1) * 2;
    args.c_step = 2;
    args.odd = odd;
    const int64_t steps = num_results + tile_.cols - 1, first = Draw(steps + 1);
    for (const int64_t begin : {int64_t{0}, first}) {
      args.step_begin = begin;
      args.step_end = begin == 0 && first > 0 ? first : steps;
      args.a = a_.data() + begin * kLine * lanes_;
      args.c = c.data() + PlaceOf(std::max<int64_t>(0, begin - (tile_.cols - 1)), 0);
      tile_.run(args);
      if (args.step_end == steps) break;
    }
  }

  // The place of a result, among c.
  int64_t PlaceOf(int64_t result, int64_t row) const {
    return (result * (tile_.rows + 1) * 2 + row * 2 + 1) * lanes_;
  }

  double Expected(int64_t result, int64_t row, int64_t lane) const {
    Fold<Compute> fold;
    Compute chain = 0;
    for (int64_t j = 0; j < tile_.cols; ++j) {
      const int64_t line = result + j;
      for (const auto& [segment, ends] : pieces_) {
        for (int64_t k = 0; k < segment.length && line >= line_begin_ && line < line_end_; ++k) {
          const int64_t vector = line * kLine + row * kStep + segment.a + k;
          chain = Chain(a_[static_cast<size_t>(vector * lanes_ + lane)],
                        b_[static_cast<size_t>(segment.b + k * tile_.cols + j)], chain);
        }
        if ((ends >> j & 1) == 0) continue;
        fold.AddBlock(chain);
        chain = 0;
      }
    }
    fold.EndRun();
    return fold.Result();
  }

  int64_t num_results;
  std::vector<Compute> c;

 private:
  static constexpr int64_t kLine = 30, kStep = 3;
  using RandomElements<Element>::Draw;
  using RandomElements<Element>::Value;

  int64_t NumBlocks() const {
    int64_t ends = 0;
    for (const SlidingPiece& piece : pieces_) ends += std::popcount(piece.ends);
    return ends;
  }

  const SlidingTile<Element> tile_;
  const int64_t lanes_;
  int64_t line_begin_, line_end_;
  std::vector<SlidingPiece> pieces_;
  std::vector<Element> a_, b_;
};

template <class Element>
void CheckSliding(const KernelTable& table) {
  using Compute = ComputeType<Element>;
  const ScopedFpEnvironment environment;
  const VectorGemmKernels<Element>& kernels = table.VectorGemm<Element>();
  uint64_t seed = 0;
  for (const SlidingTile<Element>& tile : kernels.sliding) {
    for (int trial = 0; trial < 40; ++trial) {
      SlidingProduct<Element> product(++seed, tile, kernels.lanes);
      const bool odd = sizeof(Element) == 4 && trial % 4 == 0;
      product.Run(odd);
      std::vector<Compute> expected(product.c.size(), Compute{77});
      for (int64_t i = 0; i < product.num_results * tile.rows * kernels.lanes; ++i) {
        const int64_t lane = i % kernels.lanes, row = i / kernels.lanes % tile.rows;
        const int64_t result = i / kernels.lanes / tile.rows;
        expected[static_cast<size_t>(product.PlaceOf(result, row) + lane)] =
            RoundedAs<Compute>(product.Expected(result, row, lane), odd);
      }
      ASSERT_EQ(std::memcmp(expected.data(), product.c.data(), expected.size() * sizeof(Compute)),
                0)
          << NameOf(table.isa) << " " << tile.rows << "x" << tile.cols << " seed " << seed;
    }
  }
}

TEST(VectorGemm, SlidesByItsFormula) {
  for (const KernelTable& table : SupportedKernels()) {
    CheckSliding<float>(table);
    CheckSliding<double>(table);
    if (table.has_bf16_pairs) CheckSliding<BFloat16Pair>(table);
  }
}

TEST(VectorGemm, FollowsItsFormula) {
  for (const KernelTable& table : SupportedKernels()) {
    CheckVectorTiles<float>(table);
    CheckVectorTiles<double>(table);
    if (table.has_bf16_pairs) CheckVectorTiles<BFloat16Pair>(table);
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
    const auto sliding = table.VectorGemm<float>().sliding;
    EXPECT_EQ(sliding.front().cols, 2);
    for (size_t i = 0; i < sliding.size(); ++i) {
      const bool last = i + 1 == sliding.size() || sliding[i + 1].cols > sliding[i].cols;
      EXPECT_TRUE(last ? sliding[i].rows == 1 : sliding[i + 1].rows < sliding[i].rows);
    }
  }
}

}  // namespace
}  // namespace convgrad
