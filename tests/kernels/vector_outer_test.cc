// The micro-kernel of outer products of every instruction set, tile by tile, against its formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/memory.h"
#include "kernels/kernel_table.h"

namespace convgrad {
namespace {

template <class Compute>
class OuterProducts {
 public:
  OuterProducts(uint64_t seed, const OuterTile<Compute>& tile, int64_t lanes)
      : random_(seed),
        tile_(tile),
        lanes_(lanes),
        a_step_(1 + Draw(4)),
        b_step_(Draw(12)),
        a_(Vectors(64)),
        b_(Vectors(160)),
        // One surplus vector on either side stays as it is.
        sums_((tile.rows * tile.cols + 2) * lanes) {
    for (int i = 0; i < tile.rows; ++i) rows_.push_back(Draw(10));
    for (int64_t left = Draw(4); left > 0; --left) {
      segments_.push_back({Draw(15), Draw(20), Draw(9)});
    }
    std::fill_n(sums_.data(), sums_.size(), Compute{77});
  }

  void Run() {
    OuterTileArgs<Compute> args{};
    args.a = a_.data();
    args.a_rows = rows_.data();
    args.a_step = a_step_;
    args.b = b_.data();
    args.b_step = b_step_;
    args.segments = segments_;
    args.sums = sums_.data() + lanes_;
    tile_.run(args);
  }

  void Check() const {
    for (int64_t at = 0; at < sums_.size(); ++at) {
      const int64_t vector = at / lanes_ - 1;
      const bool beside = vector < 0 || vector >= int64_t{tile_.rows} * tile_.cols;
      const Compute expected = beside ? Compute{77} : Expected(vector, at % lanes_);
      ASSERT_EQ(std::memcmp(&expected, &sums_[at], sizeof(Compute)), 0)
          << "vector " << vector << " is " << sums_[at] << ", expected " << expected;
    }
  }

 private:
  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  AlignedArray<Compute> Vectors(int64_t count) {
    AlignedArray<Compute> numbers(count * lanes_);
    std::uniform_real_distribution<Compute> distribution(-1, 1);
    std::generate_n(numbers.data(), numbers.size(), [&] { return distribution(random_); });
    return numbers;
  }

  Compute Expected(int64_t vector, int64_t lane) const {
    const int64_t row = rows_[static_cast<size_t>(vector / tile_.cols)];
    Compute sum = 0;
    for (const GemmSegment& segment : segments_) {
      for (int64_t k = 0; k < segment.length; ++k) {
        const int64_t a = row + segment.a + k * a_step_;
        const int64_t b = segment.b + vector % tile_.cols + k * b_step_;
        sum = std::fma(a_[a * lanes_ + lane], b_[b * lanes_ + lane], sum);
      }
    }
    return sum;
  }

  std::mt19937_64 random_;
  const OuterTile<Compute>& tile_;
  const int64_t lanes_, a_step_, b_step_;
  AlignedArray<Compute> a_, b_, sums_;
  std::vector<int64_t> rows_;
  std::vector<GemmSegment> segments_;
};

template <class Compute>
void CheckOuterTiles(const KernelTable& table) {
  const VectorOuterKernels<Compute>& kernels = table.VectorOuter<Compute>();
  for (const OuterTile<Compute>& tile : kernels.tiles) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(std::string(NameOf(table.isa)) + " " + std::to_string(tile.rows) + "x" +
                   std::to_string(tile.cols) + " seed " + std::to_string(seed));
      OuterProducts<Compute> products(seed, tile, kernels.lanes);
      products.Run();
      products.Check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(VectorOuter, FollowsItsFormula) {
  for (const KernelTable& table : SupportedKernels()) {
    CheckOuterTiles<float>(table);
    CheckOuterTiles<double>(table);
  }
}

}  // namespace
}  // namespace convgrad
