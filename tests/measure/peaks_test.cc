// The machine's measured limits, and the roofline they make.
#include "measure/peaks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "measure/roofline.h"

namespace convgrad {
namespace {

TEST(MachineLimitsTest, LoopsDoAllOfTheirWork) {
  for (const KernelTable& table : SupportedKernels()) {
    const MachineLimitKernels& limits = table.machine_limits;
    const int64_t f32_lanes = table.isa == Isa::kScalar ? 1 : table.vector_bytes / 4;
    const int64_t f64_lanes = table.isa == Isa::kScalar ? 1 : table.vector_bytes / 8;
    alignas(64) float floats[16];
    alignas(64) double doubles[8];
    EXPECT_EQ(limits.fma_f32(100, floats), 2 * 12 * 100 * f32_lanes) << NameOf(table.isa);
    EXPECT_EQ(limits.fma_f64(100, doubles), 2 * 12 * 100 * f64_lanes);
    EXPECT_FLOAT_EQ(floats[0], 24);  // each of 12 chains converges to 2
    EXPECT_DOUBLE_EQ(doubles[0], 24);

    constexpr int64_t kBytes = 4096;
    AlignedArray<uint8_t> bytes(kBytes + 64);
    for (const auto write : {limits.write, limits.write_around}) {
      std::memset(bytes.data(), 0xAB, kBytes + 64);
      write(bytes.data(), kBytes);
      for (int64_t i = 0; i < kBytes + 64; ++i) ASSERT_EQ(bytes[i], i < kBytes ? 0 : 0xAB) << i;
    }
    // One bit anywhere is seen.
    std::memset(bytes.data(), 0, kBytes);
    for (int64_t i = 0; i < kBytes; i += 61) {
      bytes[i] = 4;
      alignas(64) uint8_t sink[64] = {};
      limits.read(bytes.data(), kBytes, sink);
      int seen = 0;
      for (const uint8_t byte : sink) seen |= byte;
      ASSERT_EQ(seen, 4) << i;
      bytes[i] = 0;
    }
  }
}

TEST(PeaksTest, LevelsFollowTheCachesAndThreads) {
  const CacheSize caches[] = {{1, 48 << 10, 2}, {2, 1 << 20, 2}, {3, 32 << 20, 8}};
  const auto one = CacheLevels(caches, 1);
  ASSERT_EQ(one.size(), 3u);
  EXPECT_EQ(one[0].name, "L1");
  EXPECT_EQ(one[0].capacity, 48 << 10);
  const auto eight = CacheLevels(caches, 8);
  EXPECT_EQ(eight[1].capacity, 4 << 20);
  EXPECT_EQ(eight[2].capacity, 32 << 20);
  EXPECT_EQ(CacheLevels({caches, 2}, 1).size(), 2u);
  EXPECT_EQ(CacheLevels({}, 1).size(), 3u);
}

void ExpectPlausible(const Peaks& peaks) {
  EXPECT_GT(peaks.f64_gflops, 0.1);
  ASSERT_EQ(peaks.levels.size(), 4u);
  EXPECT_EQ(peaks.levels[3].name, "memory");
  for (const LevelPeak& level : peaks.levels) {
    EXPECT_GT(level.read_gbs, 0.1) << level.name;
    EXPECT_GT(level.write_gbs, 0.1) << level.name;
    EXPECT_LT(level.read_gbs, 1e5) << level.name;
  }
}

// True if rates that are higher on any machine were measured to be so.
bool AreInOrder(const Peaks& peaks) {
#ifdef __SANITIZE_ADDRESS__  // whose checks are slower than any memory
  return peaks.f32_gflops > peaks.f64_gflops;
#else
  return peaks.f32_gflops > peaks.f64_gflops && peaks.levels[0].read_gbs > peaks.levels[3].read_gbs;
#endif
}

TEST(PeaksTest, AreMeasured) {
  const CacheSize caches[] = {{1, 32 << 10, 1}, {2, 1 << 20, 1}, {3, 8 << 20, 2}};
  for (const int threads : {1, 2}) {
    const Parallel parallel(threads);
    bool in_order = false;  // once: other work may hold one measurement back and not the next
    for (int trial = 0; trial < 5 && !in_order; ++trial) {
      const Peaks peaks = MeasurePeaks(SupportedKernels().front(), parallel, caches);
      EXPECT_EQ(peaks.num_threads, parallel.num_threads());
      ExpectPlausible(peaks);
      if (HasFatalFailure()) return;
      in_order = AreInOrder(peaks);
    }
    EXPECT_TRUE(in_order);
  }
}

Peaks MadeUpPeaks() {
  Peaks peaks;
  peaks.f32_gflops = 100;
  peaks.f64_gflops = 50;
  peaks.levels = {{"L1", 1 << 15, 200, 100}, {"L2", 1 << 20, 100, 50}, {"memory", 0, 10, 5}};
  return peaks;
}

// Peaks of made-up rounds, each of which finds a share of what there is.
struct Rounds {
  struct Found {
    double share;
    bool is_undisturbed;
  };
  std::vector<Found> found;
  size_t num_taken = 0;

  static Peaks Share(double share) {
    Peaks peaks;
    peaks.f32_gflops = 100 * share;
    peaks.f64_gflops = 50 * share;
    peaks.levels = {{"L1", 1 << 15, 200 * share, 100 * share}, {"memory", 0, 10, 5}};
    return peaks;
  }
  Peaks Confirm(const Peaks* earlier = nullptr) {
    const auto round = [this] {
      const Found one = found.at(num_taken++);
      return PeakRound{Share(one.share), one.is_undisturbed};
    };
    return ConfirmPeaks(round, earlier);
  }
};

TEST(PeaksTest, TwoRoundsThatAgreeAreEnough) {
  Rounds rounds = {{{0.96, true}, {1, true}}};
  const Peaks peaks = rounds.Confirm();
  EXPECT_EQ(rounds.num_taken, 2u);
  EXPECT_TRUE(peaks.confirmed);
  EXPECT_EQ(peaks.f32_gflops, 100);
  EXPECT_EQ(peaks.levels[0].read_gbs, 200);
}

TEST(PeaksTest, ARoundThatWasHeldBackAgreesWithNone) {
  for (const double held_back : {0.5, 0.8}) {
    Rounds rounds = {{{held_back, true}, {1, true}, {0.95, true}}};
    EXPECT_TRUE(rounds.Confirm().confirmed);
    EXPECT_EQ(rounds.num_taken, 3u);
  }
  Rounds rounds = {{{0.3, true}, {0.5, true}, {0.7, true}, {1, true}}};
  const Peaks peaks = rounds.Confirm();
  EXPECT_FALSE(peaks.confirmed);
  EXPECT_EQ(peaks.f64_gflops, 50);
}

// As fast as each other, since the same work disturbed both.
TEST(PeaksTest, DisturbedRoundsConfirmNothing) {
  Rounds rounds = {{{0.5, false}, {0.5, false}, {0.5, false}, {0.5, true}}};
  EXPECT_FALSE(rounds.Confirm().confirmed);
  Rounds then_quiet = {{{0.5, false}, {1, true}, {1, true}}};
  EXPECT_TRUE(then_quiet.Confirm().confirmed);
}

TEST(PeaksTest, WhatWasReachedBeforeIsNotForgotten) {
  const Peaks earlier = Rounds::Share(1);
  Rounds rounds = {{{0.6, true}, {0.6, true}, {0.6, true}, {0.6, true}}};
  const Peaks peaks = rounds.Confirm(&earlier);
  EXPECT_FALSE(peaks.confirmed);
  EXPECT_EQ(peaks.f32_gflops, 100);
  Peaks other = Rounds::Share(3);  // of other caches
  other.levels[0].capacity = 1 << 16;
  Rounds fitting = {{{1, true}, {1, true}}};
  EXPECT_EQ(fitting.Confirm(&other).f32_gflops, 100);
}

TEST(PeaksTest, AreNearWhereNoRateIsFar) {
  const Peaks one = Rounds::Share(1);
  EXPECT_TRUE(AreNear(one, Rounds::Share(0.95)));
  EXPECT_FALSE(AreNear(one, Rounds::Share(0.8)));
  EXPECT_FALSE(AreNear(Rounds::Share(0.8), one));
  Peaks slower_in_one = one;
  slower_in_one.levels[1].write_gbs /= 2;
  EXPECT_FALSE(AreNear(one, slower_in_one));
  EXPECT_FALSE(AreNear(one, MadeUpPeaks()));
}

Problem ProblemOf(const char* op, const char* rest) {
  return ParseProblem(std::string(op) + " " + rest);
}

constexpr const char* kOneByOne =
    "float32 NHWC in=1,64,64,16 filter=1,1,16,16 strides=1,1 dilations=1,1 pads=0,0,0,0 "
    "padding=SAME";

TEST(RooflineTest, TheSlowerOfArithmeticAndTransferBounds) {
  const Problem problem = ProblemOf("conv2d", kOneByOne);
  const double flops = 2.0 * 64 * 64 * 16 * 16;
  const double operands = 4.0 * (64 * 64 * 16 + 16 * 16), result = 4.0 * 64 * 64 * 16;
  const Roofline hot = RooflineOf(problem, MadeUpPeaks(), /*cold=*/false);
  EXPECT_EQ(hot.bound, "compute");
  EXPECT_DOUBLE_EQ(hot.seconds, flops / 100e9);
  EXPECT_EQ(hot.peak_gflops, 100);
  EXPECT_NEAR(hot.peak_gbs, (operands + result) / (operands / 100 + result / 50), 1e-9);
  const Roofline cold = RooflineOf(problem, MadeUpPeaks(), /*cold=*/true);
  EXPECT_EQ(cold.bound, "memory");
  EXPECT_DOUBLE_EQ(cold.seconds, operands / 10e9 + result / 5e9);
}

TEST(RooflineTest, SixteenBitTypesComputeAsFloat32) {
  const auto peak_of = [](const char* dtype) {
    const std::string rest = std::string(dtype) + std::string(kOneByOne).substr(7);
    return RooflineOf(ProblemOf("conv2d", rest.c_str()), MadeUpPeaks(), false).peak_gflops;
  };
  EXPECT_EQ(peak_of("float16"), 100);
  EXPECT_EQ(peak_of("bfloat16"), 100);
  EXPECT_EQ(peak_of("float64"), 50);
}

TEST(RooflineTest, InputThatNoWindowReachesIsNotRead) {
  const char* strided =
      "float32 NHWC in=2,8,8,16 filter=1,1,16,16 strides=2,2 dilations=1,1 pads=0,0,0,0 "
      "padding=VALID";
  const int64_t out = 2 * 4 * 4 * 16, filter = 16 * 16;
  EXPECT_EQ(NeededOperandBytes(ProblemOf("conv2d", strided)), 4 * (2 * 4 * 4 * 16 + filter));
  EXPECT_EQ(NeededOperandBytes(ProblemOf("conv2d_backprop_filter", strided)),
            4 * (2 * 4 * 4 * 16 + out));
  EXPECT_EQ(NeededOperandBytes(ProblemOf("conv2d_backprop_input", strided)), 4 * (filter + out));
  const Problem whole = ProblemOf("conv2d", kOneByOne);
  EXPECT_EQ(NeededOperandBytes(whole), whole.OperandBytes());
  // Rows 0, 3 of 5 through a dilation; VALID leaves the last column of 8 out.
  const Problem dilated =
      ProblemOf("conv2d",
                "float32 NHWC in=1,5,8,1 filter=2,3,1,1 strides=4,5 dilations=3,1 pads=0,0,0,0 "
                "padding=VALID");
  EXPECT_EQ(NeededOperandBytes(dilated), 4 * (2 * 8 + 6) - 4 * 2 * 2);
}

TEST(CacheEvictorTest, EvictsWithAnyNumberOfThreads) {
  const CacheSize caches[] = {{1, 32 << 10, 1}, {2, 1 << 20, 1}};
  for (const int threads : {1, 3}) {
    const Parallel parallel(threads);
    EXPECT_EQ(CacheEvictor::BufferBytes(caches, threads), threads * (2 << 20));
    const CacheEvictor evictor(SupportedKernels().back(), parallel, caches);
    evictor.Evict();
  }
}

}  // namespace
}  // namespace convgrad
