// The depthwise kernels of every table against the formula of depthwise.h, one lane at a time: tile
// remainders, taps off the row, strides, dilations, narrow and overlapping vectors, several blocks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/depthwise/depthwise.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

template <class Compute>
using FoldOf = std::conditional_t<std::is_same_v<Compute, double>, FoldDouble, FoldFloat>;

template <class Element>
std::vector<Element> RandomNumbers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Element> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(Narrow<Element>(uniform(random)));
  return numbers;
}

struct RowCase {
  int64_t channels, count, num_cols, origin, num_taps, stride, dilation, num_rows, num_blocks;
  int64_t num_steps;  // rows of outputs that a gradient's call is for

  std::string Name() const {
    std::string name;
    for (const int64_t value : {channels, count, num_cols, origin, num_taps, stride, dilation,
                                num_rows, num_blocks, num_steps}) {
      name += " " + std::to_string(value);
    }
    return "channels count cols origin taps stride dilation rows blocks steps =" + name;
  }
};

RowCase RandomCase(std::mt19937_64& random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  RowCase c = {};
  c.channels = draw(1, 40);
  c.count = draw(1, 20);
  c.num_cols = draw(1, 25);
  c.origin = draw(-8, 4);
  c.num_taps = draw(1, kMaxSegmentTaps);
  c.stride = draw(1, 4);
  c.dilation = draw(1, 5);
  c.num_rows = draw(1, 3);
  c.num_blocks = draw(1, 2);
  c.num_steps = draw(1, 3);
  return c;
}

// A case that the kernels of a 16-bit type take.
template <class Element>
RowCase CaseFor(RowCase c, const KernelTable& table) {
  if (sizeof(Element) > 2) return c;
  c.channels += table.DepthwiseRows<Element>().group - 1;
  c.num_blocks = 1;
  return c;
}

// Source rows with their filters, readable a vector beyond the last channel where the kernels may.
template <class Element>
struct Row {
  explicit Row(const RowCase& c, uint64_t seed)
      : source(RandomNumbers<Element>(
            (c.num_rows + c.num_steps - 1) * c.num_cols * c.channels + kBeyond, seed)),
        filter(RandomNumbers<Element>(c.num_rows * c.num_taps * c.channels + kBeyond, seed + 1)),
        out_backprop(
            RandomNumbers<Element>(c.num_steps * c.count * c.channels + kBeyond, seed + 2)) {}
  const Element* SourceRow(const RowCase& c, int64_t row) const {
    return source.data() + row * c.num_cols * c.channels;
  }
  const Element* FilterRow(const RowCase& c, int64_t row) const {
    return filter.data() + row * c.num_taps * c.channels;
  }
  static constexpr int64_t kBeyond = sizeof(Element) > 2 ? 16 : 0;
  std::vector<Element> source, filter, out_backprop;
};

template <class Element>
Element ExpectedForward(const RowCase& c, const Row<Element>& row, int64_t t, int64_t channel) {
  using Compute = ComputeType<Element>;
  FoldOf<Compute> fold;
  for (int64_t block = 0; block < c.num_blocks; ++block) {
    Compute chain = 0;
    for (int64_t r = c.num_rows * block / c.num_blocks; r < c.num_rows * (block + 1) / c.num_blocks;
         ++r) {
      for (int64_t k = 0; k < c.num_taps; ++k) {
        const int64_t col = c.origin + t * c.stride + k;
        if (col < 0 || col >= c.num_cols) continue;
        const double x = Widen(row.SourceRow(c, r)[col * c.channels + channel]);
        const double weight = Widen(row.FilterRow(c, r)[k * c.channels + channel]);
        chain = std::fma(static_cast<Compute>(x), static_cast<Compute>(weight), chain);
      }
    }
    fold.AddBlock(chain);
  }
  fold.EndRun();
  return Narrow<Element>(fold.Result());
}

template <class Element>
void CheckForward(const KernelTable& table, const RowCase& any, uint64_t seed) {
  const RowCase c = CaseFor<Element>(any, table);
  const Row<Element> row(c, seed);
  std::vector<DepthwiseSegment<Element>> segments;
  for (int64_t r = 0; r < c.num_rows; ++r) {
    segments.push_back({row.SourceRow(c, r), nullptr, row.FilterRow(c, r), c.origin, c.num_taps});
  }
  std::vector<int64_t> block_ends;
  for (int64_t b = 1; b <= c.num_blocks; ++b) block_ends.push_back(c.num_rows * b / c.num_blocks);
  const Element mark = Narrow<Element>(42);
  std::vector<Element> out(static_cast<size_t>(c.count * c.channels + 1), mark);
  DepthwiseForwardRow<Element> call = {};
  call.segments = segments.data();
  call.block_ends = block_ends.data();
  call.num_blocks = c.num_blocks;
  call.out = out.data();
  call.count = c.count;
  call.source_stride = call.filter_stride = call.out_stride = call.channels = c.channels;
  call.num_cols = c.num_cols;
  call.stride = c.stride;
  table.DepthwiseRows<Element>().forward(call);
  for (int64_t t = 0; t < c.count; ++t) {
    for (int64_t channel = 0; channel < c.channels; ++channel) {
      ASSERT_EQ(Widen(out[t * c.channels + channel]), Widen(ExpectedForward(c, row, t, channel)))
          << NameOf(table.isa) << " result " << t << " channel " << channel << ", " << c.Name();
    }
  }
  ASSERT_EQ(Widen(out.back()), 42) << "written beyond the last result";
}

// Where the sum of a channel is among those of a tap. The last group is of the last channels.
template <class Element>
int64_t SumOf(const DepthwiseRowKernels<Element>& kernels, int64_t channels, int64_t channel) {
  const int64_t group = kernels.group, last = (channels - 1) / group * group;
  if (channel < last) {
    const int64_t i = channel % group;
    return channel - i + i % kernels.parts * (group / kernels.parts) + i / kernels.parts;
  }
  const int64_t i = channel - std::max<int64_t>(0, channels - group);
  return last + i % kernels.parts * (group / kernels.parts) + i / kernels.parts;
}

// A few lines in two parts, which the first few outputs fetch.
LinesAhead AnyLines(const void* from) {
  LinesAhead ahead = {};
  const auto begin = reinterpret_cast<uintptr_t>(from);
  ahead.parts[0] = {begin, 2, 3, 256};
  ahead.parts[1] = {begin, 1, 5, 0};
  ahead.num_parts = 2;
  ahead.at_once = 11;
  return ahead;
}

template <class Element>
void CheckGradient(const KernelTable& table, const RowCase& any, uint64_t seed) {
  using Compute = ComputeType<Element>;
  const RowCase c = CaseFor<Element>(any, table);
  const Row<Element> row(c, seed);
  const auto& kernels = table.DepthwiseRows<Element>();
  const int64_t tap_size = (c.channels + kernels.group - 1) / kernels.group * kernels.group;
  std::vector<Compute> sums(static_cast<size_t>(c.num_rows * c.num_taps * tap_size), 0);
  std::vector<DepthwiseSegment<Element>> segments;
  for (int64_t r = 0; r < c.num_rows; ++r) {
    Compute* first = sums.data() + r * c.num_taps * tap_size;
    segments.push_back({row.SourceRow(c, r), first, nullptr, c.origin, c.num_taps});
  }
  DepthwiseGradientRows<Element> call = {};
  call.segments = segments.data();
  call.num_segments = c.num_rows;
  call.num_rows = c.num_steps;
  call.source_row_step = c.num_cols * c.channels;
  call.out_backprop_row_step = c.count * c.channels;
  call.out_backprop = row.out_backprop.data();
  call.count = c.count;
  call.source_stride = call.out_backprop_stride = call.channels = c.channels;
  call.num_cols = c.num_cols;
  call.sums_stride = tap_size;
  call.stride = c.stride;
  call.dilation = c.dilation;
  LinesAhead ahead = AnyLines(row.source.data());
  if (c.count % 2 == 0) call.ahead = &ahead;
  DepthwiseGradientImages<Element> images = {};
  images.groups = &call;
  images.num_groups = images.num_images = 1;
  if (c.num_steps % 2 == 0) {  // the same as images of one row
    call.num_rows = 1;
    images.num_images = c.num_steps;
    images.source_step = call.source_row_step;
    images.out_backprop_step = call.out_backprop_row_step;
  }
  kernels.gradient(images);
  if (c.count % 2 == 0) {
    ASSERT_EQ(ahead.part, ahead.num_parts) << "not all lines fetched, " << c.Name();
  }
  for (int64_t r = 0; r < c.num_rows; ++r) {
    for (int64_t k = 0; k < c.num_taps; ++k) {
      for (int64_t channel = 0; channel < c.channels; ++channel) {
        Compute chain = 0;
        for (int64_t i = 0; i < c.num_steps * c.count; ++i) {
          const int64_t step = i / c.count, t = i % c.count;
          const int64_t col = c.origin + t * c.stride + k * c.dilation;
          if (col < 0 || col >= c.num_cols) continue;
          const double x = Widen(row.SourceRow(c, r + step)[col * c.channels + channel]);
          const double g = Widen(row.out_backprop[i * c.channels + channel]);
          chain = std::fma(static_cast<Compute>(x), static_cast<Compute>(g), chain);
        }
        const int64_t at = SumOf(kernels, c.channels, channel);
        ASSERT_EQ(sums[(r * c.num_taps + k) * tap_size + at], chain)
            << NameOf(table.isa) << " tap " << k << " channel " << channel << ", " << c.Name();
      }
    }
  }
}

template <class Compute>
void CheckMultipliers(const KernelTable& table, int64_t channels, int64_t multiplier) {
  constexpr int64_t kPixels = 3;
  const auto& kernels = table.Depthwise<Compute>();
  const auto from = RandomNumbers<Compute>(kPixels * channels * multiplier, 5);
  std::vector<Compute> to(from.size());
  kernels.repeat(from.data(), to.data(), kPixels * channels, multiplier);
  for (size_t i = 0; i < to.size(); ++i)
    ASSERT_EQ(to[i], from[i / multiplier]) << NameOf(table.isa);
  kernels.part(from.data(), to.data(), kPixels, channels, multiplier);
  for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
    for (int64_t m = 0; m < multiplier; ++m) {
      for (int64_t c = 0; c < channels; ++c) {
        ASSERT_EQ(to[(pixel * multiplier + m) * channels + c],
                  from[(pixel * channels + c) * multiplier + m])
            << NameOf(table.isa) << ' ' << channels << " channels, multiplier " << multiplier;
      }
    }
  }
}

template <class Compute>
void CheckFolding(const KernelTable& table) {
  const auto& kernels = table.Depthwise<Compute>();
  const int64_t size = kernels.lanes * 2;
  const auto count = static_cast<size_t>(size);
  std::vector<FoldOf<Compute>> expected(count);
  std::vector<double> run(count), run_error(count), total(count), total_error(count);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    auto sums = RandomNumbers<Compute>(size, seed);
    for (size_t i = 0; i < count; ++i) {
      if (seed == 2) sums[i] *= static_cast<Compute>(1e20);
      if (seed == 3) sums[i] = static_cast<Compute>(HUGE_VAL) * static_cast<Compute>(i % 5 == 0);
      expected[i].AddBlock(sums[i]);
    }
    kernels.fold_block(sums.data(), run.data(), run_error.data(), size);
    for (const Compute sum : sums) ASSERT_EQ(sum, 0);
    if (seed % 2 == 0) continue;
    kernels.fold_run(run.data(), run_error.data(), total.data(), total_error.data(), size);
    run.assign(count, 0);
    run_error.assign(count, 0);
    for (auto& fold : expected) fold.EndRun();
  }
  std::vector<Compute> result(count);
  kernels.finish(total.data(), total_error.data(), result.data(), size, false);
  for (size_t i = 0; i < count; ++i) {
    const auto want = static_cast<Compute>(expected[i].Result());
    ASSERT_TRUE(result[i] == want || (std::isnan(result[i]) && std::isnan(want)))
        << NameOf(table.isa) << " element " << i;
  }
}

TEST(DepthwiseKernels, FollowTheFormula) {
  std::mt19937_64 random(11);
  for (uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    const RowCase c = RandomCase(random);
    for (const KernelTable& table : SupportedKernels()) {
      CheckForward<Float16>(table, c, seed);
      CheckForward<BFloat16>(table, c, seed);
      CheckForward<float>(table, c, seed);
      CheckForward<double>(table, c, seed);
      CheckGradient<Float16>(table, c, seed);
      CheckGradient<BFloat16>(table, c, seed);
      CheckGradient<float>(table, c, seed);
      CheckGradient<double>(table, c, seed);
    }
  }
}

// Three taps of three rows or fewer, all ways for their outputs to lie on the row or off it.
void CheckShortRows(int64_t channels, int64_t count, int64_t stride) {
  for (int64_t origin = -3; origin <= 1; ++origin) {
    for (int64_t behind = -3; behind <= 1; ++behind) {
      const int64_t num_cols = origin + (count - 1) * stride + 3 + behind;
      for (int64_t num_rows = 1; num_rows <= 3; ++num_rows) {
        const RowCase c = {channels, count, num_cols, origin, 3, stride, 1, num_rows, 1, 2};
        for (const KernelTable& table : SupportedKernels()) {
          CheckGradient<float>(table, c, 17);
          CheckGradient<double>(table, c, 17);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

// One vector of channels: no tile, one or several of them, and outputs behind the last tile.
// Several vectors, two or three together, or one by one where there is more than a tile; the last
// one in part again.
TEST(DepthwiseKernels, GradientsOfShortRowsFollowTheFormula) {
  for (const int64_t count : {6, 7, 9, 14, 20}) {
    for (const int64_t channels : {4, 29, 45}) {
      for (const int64_t stride : {1, 2}) CheckShortRows(channels, count, stride);
    }
  }
}

// Three taps of two and more rows, with strides, of several vectors: rows of taps in twos and
// threes, tiles as long as a row and shorter, where pixels share few sets of a cache.
TEST(DepthwiseKernels, GradientsOfShortTilesFollowTheFormula) {
  for (const int64_t stride : {2, 3, 5}) {
    for (const int64_t num_rows : {2, 3, 4, 5, 7}) {
      for (const int64_t channels : {20, 37, 128, 512}) {
        for (const int64_t count : {1, 4, 7, 16}) {
          const RowCase c = {channels, count, (count - 1) * stride + 2, -1, 3, stride, 1, num_rows,
                             1,        2};
          for (const KernelTable& table : SupportedKernels()) {
            CheckGradient<float>(table, c, 18);
            CheckGradient<double>(table, c, 18);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(DepthwiseKernels, RepeatAndPartChannels) {
  for (const KernelTable& table : SupportedKernels()) {
    for (const int64_t channels : {1, 3, 16, 31, 64}) {
      for (const int64_t multiplier : {1, 2, 3, 8, 20}) {
        CheckMultipliers<float>(table, channels, multiplier);
        CheckMultipliers<double>(table, channels, multiplier);
      }
    }
  }
}

TEST(DepthwiseKernels, FoldLikeTheScalarForm) {
  for (const KernelTable& table : SupportedKernels()) {
    CheckFolding<float>(table);
    CheckFolding<double>(table);
  }
}

}  // namespace
}  // namespace convgrad
