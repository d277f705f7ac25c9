// The matrix micro-kernel of every instruction set, tile by tile, against its formula: bits, and no
// element touched that is not the tile's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "conv/gemm/tiles.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "support/round_to_odd.h"

namespace convgrad {
namespace {

template <class Compute>
using Fold = std::conditional_t<std::is_same_v<Compute, double>, FoldDouble, FoldFloat>;

// A product with random offsets: operands, blocks of segments, rows of the result in one tile or
// several.
template <class Compute>
struct Product {
  static constexpr int64_t kMostTerms = 27;  // of a segment: several at once, half as many, some

  Product(uint64_t seed, const GemmTile<Compute>& tile, int64_t num_rows_in, int64_t num_cols_in,
          int64_t num_blocks)
      : random(seed),
        num_rows(num_rows_in),
        num_cols(num_cols_in),
        num_tiles((num_rows_in + tile.rows - 1) / tile.rows),
        rows_of_last(num_rows_in - (num_tiles - 1) * tile.rows) {
    b_step = tile.cols + Draw(3);
    a_step = 1 + Draw(4);
    in_pairs = sizeof(Compute) == 4 && Draw(3) == 0;
    for (int64_t i = 0; i < num_blocks; ++i) {
      for (int64_t left = Draw(4); left > 0; --left) {
        const int64_t length = Draw(kMostTerms + 1);
        segments.push_back({Draw(100), Draw(100), in_pairs && length > 1 ? length & ~1 : length});
      }
      block_ends.push_back(static_cast<int64_t>(segments.size()));
    }
    for (int i = 0; i < num_tiles * tile.rows; ++i) {
      a_rows.push_back(i < num_rows ? Draw(200) : a_rows.back());
    }
    for (int64_t i = 0; i < 300 + 4 * kMostTerms; ++i) a.push_back(Value());
    const int64_t cols = std::max<int64_t>(tile.cols, num_cols);
    for (int64_t i = 0; i < 100 + kMostTerms * b_step + cols; ++i) b.push_back(Value());
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
                   const std::string& where) {
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
        << where << " element " << i << " is " << product.c[i] << ", expected " << expected[i]
        << " (tile of " << tile.cols << " columns)";
  }
}

// Every tile of one type on one instruction set.
template <class Compute>
void CheckTiles(const KernelTable& table) {
  const ScopedFpEnvironment environment;
  uint64_t seed = 0;
  for (const GemmTile<Compute>& tile : table.Gemm<Compute>().tiles) {
    // Tiles' sums may lie further apart than they are long.
    const int64_t length = SumsOfTile(tile), apart = length + tile.cols;
    AlignedArray<double> sums(3 * apart);
    for (int trial = 0; trial < 40; ++trial) {
      ++seed;
      const int64_t num_rows = trial % 3 * tile.rows + tile.rows - trial % tile.rows;
      const int64_t num_cols = tile.cols - trial * 3 % tile.cols;
      const int64_t num_blocks = 1 + trial % 6;  // more than wait for each other, too
      Product<Compute> product(seed, tile, num_rows, num_cols, num_blocks);
      const bool odd = sizeof(Compute) == 4 && trial % 3 == 0;
      const int64_t cut = trial % 2 == 0 ? 0 : num_blocks / 2;  // in one call, or in two
      if (cut > 0) {
        auto first = product.Args(0, cut, sums.data());
        first.keep = true;
        first.sums_step = apart;
        tile.run(first);
        for (int64_t i = 1; i < 3; ++i) std::copy_n(&sums[i * apart], length, &sums[i * length]);
      }
      auto args = product.Args(cut, num_blocks, sums.data());
      args.resume = cut > 0;
      args.sums_step = cut > 0 ? length : 0;
      args.odd = odd;
      tile.run(args);
      ExpectProduct(product, tile, odd,
                    std::string(NameOf(table.isa)) + " " + std::to_string(tile.rows) + "x" +
                        std::to_string(tile.cols) + " seed " + std::to_string(seed));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Panels side by side in one call.
template <class Compute>
void CheckPanels(const KernelTable& table) {
  const ScopedFpEnvironment environment;
  uint64_t seed = 0;
  for (const GemmTile<Compute>& tile : table.Gemm<Compute>().tiles) {
    AlignedArray<double> sums(int64_t{tile.rows} * tile.cols * 2);
    for (int num_blocks = 1; num_blocks <= 2; ++num_blocks) {
      Product<Compute> product(++seed, tile, 2 * tile.rows, 3 * int64_t{tile.cols}, num_blocks);
      auto args = product.Args(0, num_blocks, sums.data());
      args.num_cols = tile.cols;
      args.num_panels = 3;
      args.ahead = num_blocks == 1 ? product.a.data() : nullptr;
      tile.run(args);
      ExpectProduct(product, tile, false,
                    std::string(NameOf(table.isa)) + " " + std::to_string(tile.rows) + " rows");
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// A chain in two calls, the second of which goes on from what the first one stored.
template <class Compute>
void CheckChainsThatGoOn(const KernelTable& table) {
  const ScopedFpEnvironment environment;
  const auto& kernels = table.Gemm<Compute>();
  uint64_t seed = 0;
  for (const GemmTile<Compute>& tile : kernels.tiles) {
    AlignedArray<double> sums(SumsOfTile(tile));
    for (int trial = 0; trial < 12; ++trial) {
      const int64_t num_rows = 2 * tile.rows - trial % tile.rows;
      const int64_t num_cols = tile.cols - trial * 3 % kernels.lanes;
      Product<Compute> product(++seed, tile, num_rows, num_cols, 1);
      const int64_t all = product.block_ends[0], some = product.Draw(all + 1);
      auto args = product.Args(0, 1, sums.data());
      args.block_ends = &some;
      tile.run(args);
      const int64_t rest = all - some;
      args.segments += some;
      args.block_ends = &rest;
      args.goes_on = true;
      tile.run(args);
      ExpectProduct(product, tile, false,
                    std::string(NameOf(table.isa)) + " seed " + std::to_string(seed));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Sums of blocks that lie a distance apart.
template <class Compute>
void CheckFolds(const KernelTable& table) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> value;
  for (const int64_t num_blocks : {0, 1, 2, 7}) {
    for (const int64_t count : {1, 15, 16, 37}) {
      constexpr int64_t kStep = 70;
      AlignedArray<Compute> sums((num_blocks + 1) * kStep);
      for (int64_t i = 0; i < sums.size(); ++i) {
        sums.data()[i] = i % 29 == 0 ? Compute{-0.0} : static_cast<Compute>(value(random));
      }
      std::vector<Compute> to(static_cast<size_t>(count) + 1, Compute{77});
      table.Gemm<Compute>().fold_blocks(sums.data(), kStep, num_blocks, to.data(), count);
      for (int64_t j = 0; j < count; ++j) {
        Fold<Compute> fold;
        for (int64_t i = 0; i < num_blocks; ++i) fold.AddBlock(sums.data()[i * kStep + j]);
        fold.EndRun();
        const auto expected = static_cast<Compute>(fold.Result());
        EXPECT_EQ(std::memcmp(&to[static_cast<size_t>(j)], &expected, sizeof(Compute)), 0)
            << NameOf(table.isa) << " " << num_blocks << " blocks, element " << j;
      }
      EXPECT_EQ(to.back(), Compute{77});
    }
  }
}

// Rows of an even tile: those whose sums, or, of 16 registers, addresses have a register each;
// single vectors of float, AVX-512, are taken in two parts of seven.
template <class Compute>
int64_t EvenTileRows(Isa isa, int64_t vectors) {
  if (isa == Isa::kAvx512 && vectors == 1 && sizeof(Compute) == 4) return 14;
  if (isa == Isa::kAvx512 || isa == Isa::kNeon) return vectors == 4 ? 6 : 8;
  if (vectors == 1) return isa == Isa::kAvx2 ? 10 : 6;
  return vectors == 2 && isa == Isa::kAvx2 ? 6 : 4;
}

// Even rows: as many as fill tiles, and those alone.
template <class Compute>
void CheckEvenRows(const KernelTable& table) {
  int last_cols = 0;
  const ScopedFpEnvironment environment;
  const auto& kernels = table.Gemm<Compute>();
  uint64_t seed = 0;
  for (const GemmTile<Compute>& tile : kernels.tiles) {
    if (tile.cols == last_cols) continue;
    last_cols = tile.cols;
    AlignedArray<double> sums(SumsOfTile(tile));
    for (int trial = 0; trial < 20; ++trial) {
      const int64_t num_cols = tile.cols - trial * 3 % kernels.lanes;
      const int64_t num_blocks = trial % 3 == 0 ? 1 : trial % 7 + 1;
      const bool odd = sizeof(Compute) == 4 && trial % 4 == 0;
      Product<Compute> product(++seed, tile, trial + 5, num_cols, num_blocks);
      product.a_step = 1;
      product.in_pairs = false;
      EvenRows rows{product.num_rows, product.Draw(50), product.Draw(6), product.c_rows[0],
                    product.c_rows[1] - product.c_rows[0]};
      for (int64_t i = 0; i < product.num_rows; ++i) {
        product.a_rows[static_cast<size_t>(i)] = rows.a_row + i * rows.a_step;
      }
      auto args = product.Args(0, num_blocks, sums.data());
      args.a_rows = args.c_rows = nullptr;
      args.odd = odd;
      product.num_rows = kernels.even_rows(args, rows);
      EXPECT_EQ(
          product.num_rows,
          rows.count - rows.count % EvenTileRows<Compute>(table.isa, tile.cols / kernels.lanes));
      ExpectProduct(product, tile, odd,
                    std::string(NameOf(table.isa)) + " seed " + std::to_string(seed));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

class IndirectGemm : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    table_ = FindKernels(GetParam());
    if (table_ == nullptr) GTEST_SKIP() << "this machine has no " << NameOf(GetParam());
  }
  const KernelTable* table_ = nullptr;
};

TEST_P(IndirectGemm, FollowsItsFormula) {
  CheckTiles<float>(*table_);
  CheckTiles<double>(*table_);
}

TEST_P(IndirectGemm, TakesPanelsSideBySide) {
  CheckPanels<float>(*table_);
  CheckPanels<double>(*table_);
}

TEST_P(IndirectGemm, TakesEvenRows) {
  CheckEvenRows<float>(*table_);
  CheckEvenRows<double>(*table_);
}

TEST_P(IndirectGemm, GoesOnWithChains) {
  CheckChainsThatGoOn<float>(*table_);
  CheckChainsThatGoOn<double>(*table_);
}

TEST_P(IndirectGemm, FoldsBlocks) {
  CheckFolds<float>(*table_);
  CheckFolds<double>(*table_);
}

// Tiles are listed by width, most rows first, down to a single row: what choosing one relies on.
TEST_P(IndirectGemm, ListsTilesInOrder) {
  const auto tiles = table_->Gemm<float>().tiles;
  for (size_t i = 1; i < tiles.size(); ++i) {
    const bool same_width = tiles[i].cols == tiles[i - 1].cols;
    EXPECT_TRUE(same_width ? tiles[i].rows < tiles[i - 1].rows : tiles[i].cols > tiles[i - 1].cols);
    EXPECT_TRUE(same_width || tiles[i - 1].rows == 1);
  }
  EXPECT_EQ(tiles.front().cols, table_->Gemm<float>().lanes);
  EXPECT_EQ(tiles.back().rows, 1);
}

// Runs of blocks: sums kept run by run, added to a total, finished.
template <class Compute>
void CheckRuns(const KernelTable& table) {
  const auto& kernels = table.Gemm<Compute>();
  const GemmTile<Compute>& tile = kernels.tiles.front();
  const int64_t count = int64_t{tile.rows} * tile.cols;
  AlignedArray<double> sums(2 * count), total(2 * count);
  std::fill_n(total.data(), 2 * count, 0.0);
  std::vector<Product<Compute>> runs;
  for (uint64_t run = 0; run < 3; ++run) {
    runs.emplace_back(run, tile, tile.rows, tile.cols, 3);
    auto args = runs.back().Args(0, 3, sums.data());
    args.keep = true;
    tile.run(args);
    kernels.add_run(sums.data(), total.data(), count);
  }
  Product<Compute>& last = runs.back();
  kernels.finish(last.Args(0, 3, total.data()), tile.rows, tile.cols);
  for (int64_t i = 0; i < tile.rows; ++i) {
    for (int64_t j = 0; j < tile.cols; ++j) {
      double expected = 0;
      for (const auto& run : runs) expected += run.Expected(i, j);
      const double actual = last.c[static_cast<size_t>(last.c_rows[static_cast<size_t>(i)] + j)];
      if (std::isfinite(expected)) {
        EXPECT_NEAR(actual, expected, std::fabs(expected) * 1e-6 + 1e-6) << NameOf(table.isa);
      } else {
        EXPECT_EQ(std::isnan(actual), std::isnan(expected)) << NameOf(table.isa);
      }
    }
  }
}

TEST_P(IndirectGemm, AddsRuns) {
  CheckRuns<float>(*table_);
  CheckRuns<double>(*table_);
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, IndirectGemm, ::testing::ValuesIn(kAllIsas),
                         [](const auto& instance) { return std::string(NameOf(instance.param)); });

}  // namespace
}  // namespace convgrad
