// The packing kernels of every table against one number at a time: all 16-bit values, sums rounded
// to odd, odd sizes and strides.
#include "kernels/pack/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "kernels/kernel_table.h"
#include "support/round_to_odd.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

template <class Number>
auto BitsOf(Number value) {
  if constexpr (sizeof(Number) == 2) {
    return value.bits;
  } else if constexpr (sizeof(Number) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return std::bit_cast<uint64_t>(value);
  }
}

// Widening may quieten a NaN.
template <class Number>
bool SameNumber(Number a, Number b) {
  return BitsOf(a) == BitsOf(b) || (a != a && b != b);
}

template <class Stored>
struct PackTest : ::testing::Test {};
using StoredTypes = ::testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(PackTest, StoredTypes);

// Doubles of every magnitude that matters, many of them halfway between two 16-bit numbers.
std::vector<double> SomeDoubles(int64_t count) {
  std::mt19937_64 random(7);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const double magnitude = std::ldexp(1.0 + static_cast<double>(random() % 4096) / 4096,
                                        static_cast<int>(random() % 300) - 160);
    const double nudge = std::ldexp(magnitude, -30) * (static_cast<double>(random() % 3) - 1);
    values.push_back((random() % 2 != 0 ? 1 : -1) * (magnitude + nudge));
  }
  for (const double special :
       {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), -std::nan("1"), 65504.0, 65519.999, 65520.0,
        0x1p-24, 0x1p-25, 0x1.8p-25, 3.4e38, 0x1p-133}) {
    values.push_back(special);
  }
  return values;
}

template <class Stored>
std::vector<Stored> SomeStored(int64_t count) {
  std::vector<Stored> values;
  for (const double value : SomeDoubles(count)) values.push_back(Narrow<Stored>(value));
  values.resize(static_cast<size_t>(count));
  return values;
}

template <class Stored>
std::vector<ComputeType<Stored>> SomeComputed(int64_t count) {
  std::vector<ComputeType<Stored>> values;
  for (const double value : SomeDoubles(count)) {
    values.push_back(std::is_same_v<Stored, double>
                         ? static_cast<ComputeType<Stored>>(value)
                         : static_cast<ComputeType<Stored>>(testing::RoundedToOdd(value)));
  }
  std::rotate(values.begin(), values.end() - 14, values.end());  // the special ones first
  values.resize(static_cast<size_t>(count));
  return values;
}

TEST(Pack, WidensEvery16BitValue) {
  std::vector<Float16> halves(65536);
  std::vector<BFloat16> brains(65536);
  for (int i = 0; i < 65536; ++i) halves[i].bits = brains[i].bits = static_cast<uint16_t>(i);
  std::vector<float> wide(65536);
  for (const KernelTable& table : SupportedKernels()) {
    table.pack_f16.widen(halves.data(), wide.data(), 65536);
    for (int i = 0; i < 65536; ++i) ASSERT_TRUE(SameNumber(wide[i], ToFloat(halves[i]))) << i;
    table.pack_bf16.widen(brains.data(), wide.data(), 65536);
    for (int i = 0; i < 65536; ++i) ASSERT_TRUE(SameNumber(wide[i], ToFloat(brains[i]))) << i;
  }
}

// Through odd, then narrowed, is the double rounded once.
TYPED_TEST(PackTest, NarrowRoundsOnce) {
  using Compute = ComputeType<TypeParam>;
  const std::vector<double> exact = SomeDoubles(200000);
  std::vector<Compute> sums;
  for (const double value : exact) {
    sums.push_back(sizeof(TypeParam) == 2 ? static_cast<Compute>(testing::RoundedToOdd(value))
                                          : static_cast<Compute>(value));
  }
  const int64_t count = static_cast<int64_t>(sums.size());
  std::vector<TypeParam> narrow(sums.size());
  for (const KernelTable& table : SupportedKernels()) {
    table.Pack<TypeParam>().narrow(sums.data(), narrow.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      const TypeParam want = std::isnan(exact[i])
                                 ? Narrow<TypeParam>(std::numeric_limits<double>::quiet_NaN())
                                 : Narrow<TypeParam>(exact[i]);
      ASSERT_EQ(BitsOf(narrow[i]), BitsOf(want)) << NameOf(table.isa) << ' ' << exact[i];
    }
  }
}

// Rows of any width, neighbours of each other where it is one.
TYPED_TEST(PackTest, SwapsPairsOfRows) {
  using Compute = ComputeType<TypeParam>;
  for (const KernelTable& table : SupportedKernels()) {
    for (const int64_t width : {1, 2, 15, 16, 40}) {
      for (const int64_t pairs : {0, 1, 3, 8, 21}) {
        const int64_t count = (2 * pairs + 1) * width;
        std::vector<Compute> numbers(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<Compute>(i);
        table.Pack<TypeParam>().swap_pairs(numbers.data(), pairs, width);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = i / width, from = row == 2 * pairs ? row : row ^ 1;
          ASSERT_EQ(numbers[i], static_cast<Compute>(from * width + i % width))
              << NameOf(table.isa) << ' ' << width << ' ' << pairs << ' ' << i;
        }
      }
    }
  }
}

// Places side by side and apart again: null places, any count, nothing behind a place's numbers.
TYPED_TEST(PackTest, GathersAndScattersPlaces) {
  using Compute = ComputeType<TypeParam>;
  constexpr int64_t kMost = 40;
  for (const KernelTable& table : SupportedKernels()) {
    const auto& kernels = table.Pack<TypeParam>();
    const int64_t lanes = table.Gemm<Compute>().lanes;
    const auto stored = SomeStored<TypeParam>(lanes * kMost);
    for (const int64_t count : {1, 2, 15, 16, 17, 33, 39}) {
      const int64_t step = lanes * 3;
      std::vector<const TypeParam*> from(static_cast<size_t>(lanes));
      std::vector<Compute> wide(static_cast<size_t>(kMost * step), Compute{77});
      for (int64_t i = 0; i < lanes; ++i) from[i] = i % 5 == 3 ? nullptr : &stored[i * kMost];
      kernels.gather_widen(from.data(), count, wide.data(), step, count % 2 * 100);
      for (int64_t i = 0; i < kMost * step; ++i) {
        const int64_t k = i / step, lane = i % step;
        Compute want{77};
        if (k < count && lane < lanes) {
          want = from[lane] == nullptr ? Compute{0} : Widen(from[lane][k]);
        }
        ASSERT_TRUE(SameNumber(wide[i], want)) << NameOf(table.isa) << ' ' << count << ' ' << i;
      }
      const TypeParam untouched = Narrow<TypeParam>(77.0);
      std::vector<TypeParam> back(static_cast<size_t>(lanes * kMost), untouched);
      std::vector<TypeParam*> to(static_cast<size_t>(lanes));
      for (int64_t i = 0; i < lanes; ++i) to[i] = i % 5 == 3 ? nullptr : &back[i * kMost];
      kernels.scatter_narrow(wide.data(), step, count, to.data());
      for (int64_t i = 0; i < lanes * kMost; ++i) {
        const bool written = i % kMost < count && i / kMost % 5 != 3;
        TypeParam want = written ? stored[i] : untouched;
        if (std::isnan(Widen(want))) {
          want = Narrow<TypeParam>(std::numeric_limits<double>::quiet_NaN());
        }
        ASSERT_EQ(BitsOf(back[i]), BitsOf(want)) << NameOf(table.isa) << ' ' << count << ' ' << i;
      }
    }
  }
}

TYPED_TEST(PackTest, TailsStayInside) {
  using Compute = ComputeType<TypeParam>;
  const auto stored = SomeStored<TypeParam>(70);
  const auto computed = SomeComputed<TypeParam>(70);
  for (const KernelTable& table : SupportedKernels()) {
    for (int64_t count = 0; count <= 66; ++count) {
      std::vector<Compute> wide(70, 42);
      std::vector<TypeParam> narrow(70, Narrow<TypeParam>(42));
      table.Pack<TypeParam>().widen(stored.data() + 1, wide.data() + 1, count);
      table.Pack<TypeParam>().narrow(computed.data() + 1, narrow.data() + 1, count);
      for (int64_t i = 0; i < 70; ++i) {
        const bool inside = i >= 1 && i <= count;
        const double want = inside ? Widen(stored[i]) : 42;
        ASSERT_TRUE(SameNumber<Compute>(wide[i], static_cast<Compute>(want)));
        const double before = computed[i] != computed[i] ? std::numeric_limits<double>::quiet_NaN()
                                                         : static_cast<double>(computed[i]);
        ASSERT_EQ(BitsOf(narrow[i]), BitsOf(Narrow<TypeParam>(inside ? before : 42)));
      }
    }
  }
}

struct Extent {
  int64_t rows, cols, from_stride, to_stride;
};
const Extent kExtents[] = {{1, 1, 1, 1},     {3, 5, 7, 4},     {16, 16, 16, 16}, {16, 49, 49, 64},
                           {17, 33, 40, 19}, {2, 100, 101, 2}, {100, 2, 3, 105}, {31, 15, 15, 32},
                           {8, 24, 25, 9},   {13, 14, 14, 13}, {48, 1, 1, 48},   {50, 37, 40, 64},
                           {1, 70, 71, 1},   {3, 53, 53, 3},   {4, 37, 40, 4}};

TYPED_TEST(PackTest, TransposesWidening) {
  using Compute = ComputeType<TypeParam>;
  for (const KernelTable& table : SupportedKernels()) {
    for (const Extent& e : kExtents) {
      const auto from = SomeStored<TypeParam>(e.rows * e.from_stride);
      std::vector<Compute> to(static_cast<size_t>(e.cols * e.to_stride), 42);
      table.Pack<TypeParam>().transpose_widen(from.data(), e.from_stride, to.data(), e.to_stride,
                                              e.rows, e.cols, e.from_stride);
      for (int64_t col = 0; col < e.cols; ++col) {
        for (int64_t row = 0; row < e.to_stride; ++row) {
          const double want = row < e.rows ? Widen(from[row * e.from_stride + col]) : 42;
          ASSERT_TRUE(SameNumber<Compute>(to[col * e.to_stride + row], static_cast<Compute>(want)))
              << NameOf(table.isa) << ' ' << e.rows << 'x' << e.cols << " at " << row << ',' << col;
        }
      }
    }
  }
}

// Nothing is read behind the last column.
TYPED_TEST(PackTest, TransposesColumnsAStepApart) {
  using Compute = ComputeType<TypeParam>;
  for (const KernelTable& table : SupportedKernels()) {
    for (const Extent& e : kExtents) {
      for (const int64_t step : {1, 2, 3}) {
        const int64_t from_stride = (e.cols - 1) * step + 1;
        const auto from = SomeStored<TypeParam>(e.rows * from_stride);
        std::vector<Compute> to(static_cast<size_t>(e.cols * e.to_stride), 42);
        table.Pack<TypeParam>().transpose_every(from.data(), from_stride, step, to.data(),
                                                e.to_stride, e.rows, e.cols, step % 2 * 100);
        for (int64_t i = 0; i < e.cols * e.to_stride; ++i) {
          const int64_t row = i % e.to_stride, col = i / e.to_stride;
          const double want = row < e.rows ? Widen(from[row * from_stride + col * step]) : 42;
          ASSERT_TRUE(SameNumber<Compute>(to[i], static_cast<Compute>(want)))
              << NameOf(table.isa) << ' ' << e.rows << 'x' << e.cols << " at " << row << ',' << col;
        }
      }
    }
  }
}

TYPED_TEST(PackTest, TransposesToPlacesApart) {
  using Compute = ComputeType<TypeParam>;
  for (const KernelTable& table : SupportedKernels()) {
    for (const Extent& e : kExtents) {
      for (const int64_t step : {1, 2, 3}) {
        const int64_t end = (e.rows - 1) * step + 1, to_stride = end + kBehindApart + 5;
        std::vector<Compute> from(static_cast<size_t>(e.rows * e.from_stride));
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Compute>(i + 50);
        std::vector<Compute> to(static_cast<size_t>(e.cols * to_stride), 42);
        table.Pack<TypeParam>().transpose_apart(from.data(), e.from_stride, to.data(), to_stride,
                                                step, e.rows, e.cols);
        for (int64_t i = 0; i < e.cols * to_stride; ++i) {
          const int64_t row = i % to_stride, col = i / to_stride;
          const bool meant = row < end && row % step == 0;
          if (!meant && to[i] == 0 && row < end + kBehindApart) continue;
          ASSERT_EQ(to[i], meant ? from[row / step * e.from_stride + col] : 42)
              << NameOf(table.isa) << ' ' << e.rows << 'x' << e.cols << " step " << step;
        }
      }
    }
  }
}

TYPED_TEST(PackTest, CopiesColumnsWidening) {
  using Compute = ComputeType<TypeParam>;
  for (const KernelTable& table : SupportedKernels()) {
    for (int64_t cols = 1; cols <= 40; ++cols) {
      const int64_t rows = 5, from_stride = cols + cols % 3, to_stride = cols + cols % 4;
      const auto from = SomeStored<TypeParam>((rows - 1) * from_stride + cols);
      std::vector<Compute> to(static_cast<size_t>(rows * to_stride), 42);
      table.Pack<TypeParam>().copy_widen(from.data(), from_stride, to.data(), to_stride, rows,
                                         cols);
      for (int64_t i = 0; i < rows * to_stride; ++i) {
        const int64_t row = i / to_stride, col = i % to_stride;
        const double want = col < cols ? Widen(from[row * from_stride + col]) : 42;
        ASSERT_TRUE(SameNumber<Compute>(to[i], static_cast<Compute>(want)))
            << NameOf(table.isa) << ' ' << cols << " columns, at " << row << ',' << col;
      }
    }
  }
}

// Single columns, as a stride along a row leaves them; nothing behind the last one is read.
TYPED_TEST(PackTest, CopiesNumbersAStepApart) {
  using Compute = ComputeType<TypeParam>;
  for (const KernelTable& table : SupportedKernels()) {
    for (const int64_t step : {1, 2, 3}) {
      for (const int64_t count : {1, 2, 8, 15, 16, 17, 33, 70}) {
        const auto from = SomeStored<TypeParam>((count - 1) * step + 1);
        std::vector<Compute> to(static_cast<size_t>(count) + 1, 42);
        table.Pack<TypeParam>().copy_widen(from.data(), step, to.data(), 1, count, 1);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_TRUE(SameNumber<Compute>(to[i], static_cast<Compute>(Widen(from[i * step]))))
              << NameOf(table.isa) << ' ' << i << " of " << count;
        }
        ASSERT_EQ(to.back(), Compute{42});
      }
    }
  }
}

TYPED_TEST(PackTest, SplitsColumnsIntoBlocks) {
  using Compute = ComputeType<TypeParam>;
  for (const KernelTable& table : SupportedKernels()) {
    for (const int64_t block_cols : {1, 3, 4, 6, 8, 12, 14, 16, 48, 64}) {
      for (const int64_t cols : {1, 2, 5, 6, 16, 23, 64, 67}) {
        for (const int64_t groups : {1, 3, 19}) {  // the last ones are split in several parts
          const int64_t rows = 7, all_cols = groups * cols, from_stride = all_cols + cols % 3;
          const int64_t block_stride = rows * block_cols + 1;
          const int64_t blocks = (cols + block_cols - 1) / block_cols;
          const auto from = SomeStored<TypeParam>((rows - 1) * from_stride + all_cols);
          std::vector<Compute> want(static_cast<size_t>(groups * blocks * block_stride), 42);
          std::vector<Compute> to = want;
          for (int64_t i = 0; i < rows * all_cols; ++i) {
            const int64_t row = i / all_cols, group = i % all_cols / cols, col = i % cols;
            const int64_t block = group * blocks + col / block_cols;
            want[block * block_stride + row * block_cols + col % block_cols] =
                static_cast<Compute>(Widen(from[row * from_stride + group * cols + col]));
          }
          table.Pack<TypeParam>().split_widen(from.data(), from_stride, to.data(), block_stride,
                                              rows, groups, cols, block_cols);
          for (size_t i = 0; i < to.size(); ++i) {
            ASSERT_TRUE(SameNumber(to[i], want[i]))
                << NameOf(table.isa) << ' ' << groups << " groups of " << cols << " columns in "
                << block_cols << "s at " << i;
          }
        }
      }
    }
  }
}

// Parts of lines are copied before and behind whole ones, and no byte beside what was asked for.
TEST(StreamBytes, CopiesFromAndToAnywhere) {
  constexpr int64_t kMost = 260, kAround = 64;
  std::vector<uint8_t> from(kMost + 3);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i % 251 + 1);
  for (const KernelTable& table : SupportedKernels()) {
    for (const int64_t shift : {0, 1, 4, 32, 60, 63}) {
      for (const int64_t bytes : {0, 1, 3, 4, 63, 64, 65, 127, 128, 192, 259}) {
        AlignedArray<uint8_t> to(kMost + 2 * kAround);
        std::fill_n(to.data(), to.size(), uint8_t{0});
        table.stream_bytes(from.data() + 3, to.data() + shift, bytes);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        for (int64_t i = 0; i < to.size(); ++i) {
          const bool inside = i >= shift && i < shift + bytes;
          ASSERT_EQ(to[i], inside ? from[static_cast<size_t>(i - shift) + 3] : 0)
              << NameOf(table.isa) << ' ' << bytes << " bytes to " << shift << " at " << i;
        }
      }
    }
  }
}

// Both ways of writing, from a line's start and beside it.
TYPED_TEST(PackTest, TransposesNarrowing) {
  for (const KernelTable& table : SupportedKernels()) {
    const PackKernels<TypeParam>& kernels = table.Pack<TypeParam>();
    for (const Extent& e : kExtents) {
      for (const int64_t shift : {-1, 0, 1}) {  // -1: the ordinary way
        const auto from = SomeComputed<TypeParam>(e.rows * e.from_stride);
        AlignedArray<TypeParam> to(e.cols * e.to_stride + 1);
        std::fill_n(to.data(), to.size(), Narrow<TypeParam>(42));
        if (shift < 0) {
          kernels.transpose_narrow(from.data(), e.from_stride, to.data(), e.to_stride, e.rows,
                                   e.cols, 1);
        } else {
          kernels.transpose_stream(from.data(), e.from_stride, to.data() + shift, e.to_stride,
                                   e.rows, e.cols);
        }
        for (int64_t i = 0; i < to.size(); ++i) {
          const int64_t at = i - std::max<int64_t>(shift, 0);
          const int64_t row = at % e.to_stride, col = at / e.to_stride;
          const bool inside = at >= 0 && row < e.rows && col < e.cols;
          double want = inside ? static_cast<double>(from[row * e.from_stride + col]) : 42;
          if (want != want) want = std::numeric_limits<double>::quiet_NaN();
          ASSERT_EQ(BitsOf(to[i]), BitsOf(Narrow<TypeParam>(want)))
              << NameOf(table.isa) << ' ' << e.rows << 'x' << e.cols << " at " << row << ',' << col;
        }
      }
    }
  }
}

}  // namespace
}  // namespace convgrad
