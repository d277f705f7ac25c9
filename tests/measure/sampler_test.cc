// Sampling against a clock of our own: warm-up, batches, and each reason to stop.
#include "measure/sampler.h"

#include <gtest/gtest.h>

#include <random>

namespace convgrad {
namespace {

// Time passes only where the work says so.
struct SimulatedTime {
  double now = 100;
  Clock clock() {
    return {[this] { return now; }, [this] { return 2 * now; }};
  }
};

constexpr auto kNothing = [] {};

TEST(SamplerTest, StopsWhenTheIntervalIsNarrow) {
  SimulatedTime time;
  const Sampling sampling = Sample(
      SamplingOptions{}, time.clock(), [&] { time.now += 0.001; }, kNothing);
  EXPECT_EQ(sampling.stop_reason, StopReason::kNarrow);
  EXPECT_NEAR(sampling.summary.median, 0.001, 1e-9);
  EXPECT_NEAR(sampling.cpu_seconds, 0.002, 1e-9);
  EXPECT_EQ(sampling.sample_iterations, 1);
  EXPECT_EQ(sampling.iterations(), sampling.summary.samples);
  EXPECT_GE(sampling.summary.samples, 99);  // min_seconds
  EXPECT_LE(sampling.summary.samples, 120);
}

TEST(SamplerTest, StopsWhenTimeIsUp) {
  SimulatedTime time;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> wild(0.001, 0.1);
  const double begin = time.now;
  const Sampling sampling = Sample(
      SamplingOptions{}, time.clock(), [&] { time.now += wild(random); }, kNothing);
  EXPECT_EQ(sampling.stop_reason, StopReason::kTime);
  EXPECT_GT(RelativeWidth(sampling.summary), 0.02);
  EXPECT_NEAR(time.now - begin, 2, 0.11);
}

TEST(SamplerTest, WorkLongerThanTheTimeIsSampledOnce) {
  SimulatedTime time;
  const Sampling sampling = Sample(
      SamplingOptions{}, time.clock(), [&] { time.now += 60; }, kNothing);
  EXPECT_EQ(sampling.warmup, 1);
  EXPECT_EQ(sampling.summary.samples, 1);
  EXPECT_EQ(sampling.stop_reason, StopReason::kTime);
  EXPECT_FALSE(sampling.summary.ci.has_value());
}

TEST(SamplerTest, ShortWorkIsRepeatedUntilTheClockSeesIt) {
  SimulatedTime time;
  int64_t calls = 0;
  SamplingOptions options;
  const auto work = [&] {
    time.now += 1e-6;
    ++calls;
  };
  const Sampling sampling = Sample(options, time.clock(), work, kNothing);
  EXPECT_NEAR(static_cast<double>(sampling.sample_iterations), 200, 1);
  EXPECT_EQ(calls, sampling.warmup + sampling.iterations());
  EXPECT_NEAR(sampling.summary.median, 1e-6, 1e-9);
  options.repeat_short = false;
  options.max_seconds = 0.01;
  EXPECT_EQ(Sample(options, time.clock(), work, kNothing).sample_iterations, 1);
}

TEST(SamplerTest, WarmUpEndsWhenItGetsNoFaster) {
  SimulatedTime time;
  double seconds = 0.020;
  const auto work = [&] {
    time.now += seconds;
    seconds = std::max(0.005, 0.8 * seconds);  // at its best from the 8th on
  };
  const Sampling sampling = Sample(SamplingOptions{}, time.clock(), work, kNothing);
  EXPECT_GE(sampling.warmup, 8);
  EXPECT_LE(sampling.warmup, 12);
  EXPECT_NEAR(sampling.summary.max, 0.005, 1e-9);
}

TEST(SamplerTest, WhatRunsBetweenIsNotTimed) {
  SimulatedTime time;
  int64_t evictions = 0;
  const auto evict = [&] {
    time.now += 0.003;
    ++evictions;
  };
  const Sampling sampling = Sample(
      SamplingOptions{}, time.clock(), [&] { time.now += 0.001; }, evict);
  EXPECT_NEAR(sampling.summary.max, 0.001, 1e-9);
  EXPECT_EQ(evictions, sampling.warmup + sampling.summary.samples);
}

}  // namespace
}  // namespace convgrad
