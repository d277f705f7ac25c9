// The matrix micro-kernel of every instruction set, tile by tile, against its formula: bits, and no
// element touched that is not the tile's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/gemm/tiles.h"
#include "kernels/gemm_product.h"
#include "kernels/kernel_table.h"

namespace convgrad {
namespace {

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
      ExpectProduct(product, tile, odd, NameOf(table.isa), seed);
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
      ExpectProduct(product, tile, false, NameOf(table.isa), seed);
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
      ExpectProduct(product, tile, false, NameOf(table.isa), seed);
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
      ExpectProduct(product, tile, odd, NameOf(table.isa), seed);
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
