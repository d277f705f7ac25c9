#include "problem/window.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace convgrad {
namespace {

// TensorFlow's worked values.
struct Worked {
  int64_t in, kernel, dilation, stride;
  Padding padding;
  int64_t given_before, given_after;
  int64_t effective, out, before, after;
};

constexpr Padding kSame = Padding::kSame, kValid = Padding::kValid, kExplicit = Padding::kExplicit;

constexpr Worked kWorked[] = {
    {4, 2, 1, 1, kSame, 0, 0, 2, 4, 0, 1},     {4, 2, 1, 2, kSame, 0, 0, 2, 2, 0, 0},
    {5, 2, 1, 2, kSame, 0, 0, 2, 3, 0, 1},     {5, 3, 1, 2, kSame, 0, 0, 3, 3, 1, 1},
    {6, 3, 1, 2, kSame, 0, 0, 3, 3, 0, 1},     {7, 4, 1, 3, kSame, 0, 0, 4, 3, 1, 2},
    {5, 2, 2, 1, kSame, 0, 0, 3, 5, 1, 1},     {5, 2, 3, 1, kSame, 0, 0, 4, 5, 1, 2},
    {6, 3, 2, 2, kSame, 0, 0, 5, 3, 1, 2},     {3, 1, 1, 3, kSame, 0, 0, 1, 1, 0, 0},
    {2, 5, 1, 1, kSame, 0, 0, 5, 2, 2, 2},     {1, 4, 1, 1, kSame, 0, 0, 4, 1, 1, 2},
    {4, 2, 1, 1, kValid, 0, 0, 2, 3, 0, 0},    {5, 2, 1, 2, kValid, 0, 0, 2, 2, 0, 0},
    {5, 3, 2, 1, kValid, 0, 0, 5, 1, 0, 0},    {6, 2, 3, 2, kValid, 0, 0, 4, 2, 0, 0},
    {3, 3, 1, 7, kValid, 0, 0, 3, 1, 0, 0},    {1, 2, 1, 1, kValid, 0, 0, 2, 0, 0, 0},
    {1, 3, 1, 1, kValid, 0, 0, 3, -1, 0, 0},   {3, 4, 1, 2, kValid, 0, 0, 4, 0, 0, 0},
    {1, 4, 1, 5, kValid, 0, 0, 4, 0, 0, 0},    {1, 10, 1, 5, kValid, 0, 0, 10, 0, 0, 0},
    {1, 11, 1, 5, kValid, 0, 0, 11, -1, 0, 0}, {0, 1, 1, 1, kValid, 0, 0, 1, 0, 0, 0},
    {0, 2, 1, 1, kValid, 0, 0, 2, -1, 0, 0},   {0, 3, 1, 2, kValid, 0, 0, 3, 0, 0, 0},
    {4, 0, 1, 1, kValid, 0, 0, 0, 5, 0, 0},    {4, 3, 1, 1, kExplicit, 2, 0, 3, 4, 2, 0},
    {4, 2, 1, 2, kExplicit, 3, 1, 2, 4, 3, 1}, {4, 3, 2, 1, kExplicit, 1, 2, 5, 3, 1, 2},
    {0, 1, 1, 1, kExplicit, 1, 1, 1, 2, 1, 1}, {1, 1, 1, 1, kExplicit, 5, 5, 1, 11, 5, 5},
    {2, 6, 1, 1, kExplicit, 2, 2, 6, 1, 2, 2}, {2, 8, 1, 2, kExplicit, 1, 1, 8, -1, 1, 1},
};

Window WindowOf(const Worked& row) {
  return {row.in,      row.kernel,       row.stride,     row.dilation,
          row.padding, row.given_before, row.given_after};
}

TEST(FitWindow, GivesTensorFlowsWorkedValues) {
  for (const Worked& row : kWorked) {
    SCOPED_TRACE(::testing::Message()
                 << "in " << row.in << " kernel " << row.kernel << " dilation " << row.dilation
                 << " stride " << row.stride << " " << NameOf(row.padding));
    const WindowFit fit = FitWindow(WindowOf(row));
    EXPECT_EQ(EffectiveKernel(row.kernel, row.dilation), row.effective);
    EXPECT_EQ(fit.out, row.out);
    EXPECT_EQ(fit.pad_before, row.before);
    EXPECT_EQ(fit.pad_after, row.after);
  }
}

TEST(FitWindow, GivesNothingForAnEmptyInputWithSame) {
  EXPECT_EQ(FitWindow({0, 3, 2, 1, kSame}).out, 0);
}

TEST(InputSizesFor, AreExactlyThoseThatLeadToTheOutput) {
  for (const Worked& row : kWorked) {
    for (int64_t out = 1; out < 6; ++out) {
      const SizeRange range = InputSizesFor(out, WindowOf(row));
      for (int64_t in = 0; in < 60; ++in) {
        Window window = WindowOf(row);
        window.in = in;
        EXPECT_EQ(in >= range.first && in <= range.last, FitWindow(window).out == out)
            << "in " << in << " out " << out << " kernel " << row.kernel << " stride " << row.stride
            << " " << NameOf(row.padding);
      }
    }
  }
}

struct Counts {
  int64_t pairs = 0, taps_of_output = 0, outputs_of_tap = 0, pairs_of_input = 0;
  bool operator==(const Counts&) const = default;
};

Counts CountByDefinition(const SpatialAxis& d) {
  Counts counts;
  std::vector<int64_t> outputs(static_cast<size_t>(d.kernel));
  std::map<int64_t, int64_t> pairs;
  for (int64_t pos = 0; pos < d.out; ++pos) {
    int64_t taps = 0;
    for (int64_t k = 0; k < d.kernel; ++k) {
      const int64_t x = pos * d.stride + k * d.dilation - d.pad;
      if (x < 0 || x >= d.in) continue;
      ++counts.pairs;
      counts.taps_of_output = std::max(counts.taps_of_output, ++taps);
      counts.outputs_of_tap = std::max(counts.outputs_of_tap, ++outputs[k]);
      counts.pairs_of_input = std::max(counts.pairs_of_input, ++pairs[x]);
    }
  }
  return counts;
}

Counts CountByFormula(const SpatialAxis& d) {
  return {d.ValidPairs(), d.MaxTapsOfOutput(), d.MaxOutputsOfTap(), d.MaxPairsOfInput()};
}

int64_t Between(std::mt19937_64& random, int64_t first, int64_t last) {
  return first + static_cast<int64_t>(random() % static_cast<uint64_t>(last - first + 1));
}

std::string Describe(const SpatialAxis& d) {
  return fmt::format("in {} out {} kernel {} stride {} dilation {} pad {}", d.in, d.out, d.kernel,
                     d.stride, d.dilation, d.pad);
}

TEST(SpatialAxis, CountsWhatTheDefinitionCounts) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50'000; ++i) {
    const SpatialAxis d = {Between(random, 0, 14), Between(random, 0, 14), Between(random, 0, 7),
                           Between(random, 1, 6),  Between(random, 1, 6),  Between(random, 0, 10)};
    ASSERT_EQ(CountByFormula(d), CountByDefinition(d)) << Describe(d);
  }
}

TEST(ValidTaps, AreTheTapsOnTheInput) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 50'000; ++i) {
    const SpatialAxis d = {Between(random, 0, 14), Between(random, 1, 14), Between(random, 0, 7),
                           Between(random, 1, 6),  Between(random, 1, 6),  Between(random, 0, 10)};
    const int64_t pos = Between(random, 0, d.out - 1);
    const Range taps = ValidTaps(pos, d.stride, d.dilation, d.pad, d.kernel, d.in);
    ASSERT_LE(0, taps.begin) << Describe(d);
    ASSERT_LE(taps.begin, taps.end) << Describe(d);
    ASSERT_LE(taps.end, d.kernel) << Describe(d);
    for (int64_t k = 0; k < d.kernel; ++k) {
      const int64_t x = pos * d.stride + k * d.dilation - d.pad;
      ASSERT_EQ(taps.begin <= k && k < taps.end, 0 <= x && x < d.in)
          << Describe(d) << " pos " << pos;
    }
  }
}

TEST(OutputsOnInput, AreTheOutputsThatATapMeets) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 50'000; ++i) {
    const int64_t at = Between(random, -40, 40), stride = Between(random, 1, 6);
    const int64_t in = Between(random, 0, 14), out = Between(random, 0, 14);
    const Range met = OutputsOnInput(at, stride, in, out);
    ASSERT_LE(0, met.begin);
    ASSERT_LE(met.begin, met.end);
    ASSERT_LE(met.end, out);
    for (int64_t pos = 0; pos < out; ++pos) {
      const int64_t x = pos * stride + at;
      ASSERT_EQ(met.Has(pos), 0 <= x && x < in)
          << "at " << at << " stride " << stride << " in " << in << " pos " << pos;
    }
  }
}

// Sizes at the limits, against the same arithmetic in 128 bits.
__extension__ typedef __int128 Wide;

WindowFit FitWide(const Window& w) {
  const Wide effective = (Wide{w.kernel} - 1) * w.dilation + 1;
  if (w.padding == kSame) {
    const Wide out = (Wide{w.in} + w.stride - 1) / w.stride;
    const Wide need = std::max<Wide>(0, (out - 1) * w.stride + effective - w.in);
    return {static_cast<int64_t>(out), static_cast<int64_t>(need / 2),
            static_cast<int64_t>(need - need / 2)};
  }
  const Wide before = w.padding == kExplicit ? w.pad_before : 0;
  const Wide after = w.padding == kExplicit ? w.pad_after : 0;
  const Wide out = (w.in + before + after - effective + w.stride) / w.stride;
  return {static_cast<int64_t>(out), static_cast<int64_t>(before), static_cast<int64_t>(after)};
}

int64_t Extreme(std::mt19937_64& random) {
  switch (random() % 5) {
    case 0: return kMaxDimension - static_cast<int64_t>(random() % 3);
    case 1: return static_cast<int64_t>(random() % kMaxDimension);
    case 2: return int64_t{1} << random() % 31;
    default: return static_cast<int64_t>(random() % 9);
  }
}

TEST(FitWindow, IsExactAtTheLimits) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    const Window w = {Extreme(random),
                      Extreme(random),
                      std::max<int64_t>(1, Extreme(random)),
                      std::max<int64_t>(1, Extreme(random)),
                      static_cast<Padding>(random() % 3),
                      Extreme(random),
                      Extreme(random)};
    const WindowFit fit = FitWindow(w), wide = FitWide(w);
    ASSERT_EQ(fit.out, wide.out);
    ASSERT_EQ(fit.pad_before, wide.pad_before);
    ASSERT_EQ(fit.pad_after, wide.pad_after);
  }
}

// The sum over all outputs of ValidTaps, where that many can be visited; the other dimension of
// the pairs is at the limits.
TEST(SpatialAxis, CountsPairsAtTheLimits) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20'000; ++i) {
    Window w = {Extreme(random),
                Extreme(random),
                std::max<int64_t>(1, Extreme(random)),
                std::max<int64_t>(1, Extreme(random)),
                static_cast<Padding>(random() % 3),
                Extreme(random),
                Extreme(random)};
    const WindowFit fit = FitWindow(w);
    if (fit.out < 0 || fit.out > 100) continue;
    const SpatialAxis d = {w.in, fit.out, w.kernel, w.stride, w.dilation, fit.pad_before};
    int64_t pairs = 0, most = 0;
    for (int64_t pos = 0; pos < d.out; ++pos) {
      const Range taps = ValidTaps(pos, d.stride, d.dilation, d.pad, d.kernel, d.in);
      pairs += taps.size();
      most = std::max(most, taps.size());
    }
    ASSERT_EQ(d.ValidPairs(), pairs) << Describe(d);
    ASSERT_EQ(d.MaxTapsOfOutput(), most) << Describe(d);
    ASSERT_LE(d.MaxOutputsOfTap(), d.out) << Describe(d);
    ASSERT_LE(d.MaxPairsOfInput(), std::min(d.out, d.kernel)) << Describe(d);
  }
}

TEST(SpatialAxis, CountsBillionsOfPairsAtOnce) {
  const int64_t n = kMaxDimension;
  const SpatialAxis ones = {n, n, 1, 1, 1, 0};
  EXPECT_EQ(CountByFormula(ones), (Counts{n, 1, n, 1}));
  // A full filter, SAME: output i has the taps from max(0, p - i) on, p the pad before.
  const int64_t p = (n - 1) / 2;
  const SpatialAxis full = {n, n, n, 1, 1, p};
  EXPECT_EQ(full.MaxTapsOfOutput(), n);
  EXPECT_EQ(full.MaxPairsOfInput(), n);
  EXPECT_EQ(full.ValidPairs(), n * n - p * (p + 1));
}

}  // namespace
}  // namespace convgrad
