// Profiles of errors: where they are how large, how many of each size, and what the model expects.
#include "verify/where/error_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace convgrad {
namespace {

using ::testing::ElementsAre;

constexpr float kNone = std::numeric_limits<float>::infinity();

struct Errors {
  explicit Errors(const Shape& shape)
      : layout(shape),
        errors(static_cast<size_t>(
            std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()))) {
    ulps.resize(errors.size());
  }
  void Set(size_t element, float error, float ulp) {
    errors[element] = error;
    ulps[element] = ulp;
  }
  ErrorProfile Profile() const { return ProfileOf({errors, ulps, model}, layout); }

  Layout layout;
  std::vector<float> errors, ulps, model;
};

TEST(ErrorProfile, TellsPlaceSizeAndSign) {
  Errors errors({2, 3, 4});
  errors.Set(1 * 12 + 2 * 4 + 3, 5, 7);
  errors.Set(0 * 12 + 1 * 4 + 0, 0.5, -1);
  const ErrorProfile profile = errors.Profile();
  ASSERT_EQ(profile.axes.size(), 3u);
  EXPECT_EQ(profile.axes[1].axis, "index of axis 1");
  EXPECT_THAT(profile.axes[1].low, ElementsAre(0, -0.5, 0));
  EXPECT_THAT(profile.axes[1].high, ElementsAre(0, 0, 5));
  ASSERT_EQ(profile.grids.size(), 1u);
  EXPECT_THAT(
      profile.grids[0].worst,
      ElementsAre(ElementsAre(0, 0, 0, 0), ElementsAre(-0.5, 0, 0, 0), ElementsAre(0, 0, 0, 5)));
  EXPECT_EQ(profile.errors.zero, 22);
  EXPECT_EQ(profile.errors.first, -1);
  EXPECT_THAT(profile.errors.counts, ElementsAre(1, 0, 0, 1));  // 0.5; 4 to 8
  EXPECT_THAT(profile.ulps.counts, ElementsAre(1, 0, 1));       // 1; 4 to 8
  ASSERT_EQ(profile.worst.size(), 2u);
  EXPECT_EQ(profile.worst[0].element, 23);
  EXPECT_EQ(profile.worst[0].error, 5);
  EXPECT_EQ(profile.worst[1].element, 4);
}

TEST(ErrorProfile, CountsWhatIsNoNumber) {
  Errors errors({5});
  errors.Set(2, kNone, kNone);
  const ErrorProfile profile = errors.Profile();
  EXPECT_EQ(profile.errors.infinite, 1);
  EXPECT_EQ(profile.ulps.infinite, 1);
  EXPECT_EQ(profile.axes[0].high[2], kNone);
  EXPECT_TRUE(profile.grids.empty());
}

// Every element has a cell, the last one the last.
TEST(ErrorProfile, LongAxesAreInEqualParts) {
  Errors errors({1000, 130});
  errors.Set(999 * 130 + 129, 1, 1);
  errors.Set(0, 2, -3);
  const ErrorProfile profile = errors.Profile();
  EXPECT_EQ(profile.axes[0].high.size(), 256u);
  EXPECT_EQ(profile.axes[0].high.back(), 1);
  EXPECT_EQ(profile.axes[1].high.size(), 130u);
  ASSERT_EQ(profile.grids.size(), 1u);
  EXPECT_EQ(profile.grids[0].worst.size(), 64u);
  EXPECT_EQ(profile.grids[0].worst.back().back(), 1);
  EXPECT_EQ(profile.grids[0].worst.front().front(), -2);
}

TEST(ErrorProfile, KeepsTheWorstTen) {
  Errors errors({40});
  for (size_t i = 0; i < 40; ++i) errors.Set(i, static_cast<float>(i * 7 % 40), 1);
  const ErrorProfile profile = errors.Profile();
  ASSERT_EQ(profile.worst.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(profile.worst[i].error, static_cast<double>(39 - i));
}

TEST(ErrorProfile, TakesWhatHasNoElements) {
  EXPECT_TRUE(Errors({0, 3}).Profile().worst.empty());
  EXPECT_EQ(Errors({}).Profile().errors.zero, 1);
}

// The model's counts are those of sums with normal errors, rounded.
TEST(ErrorProfile, ModelIsOfRoundedNormalErrors) {
  constexpr size_t kElements = 200'000;
  for (const float deviation : {0.0F, 0.2F, 1.0F, 6.0F}) {
    Errors errors({static_cast<int64_t>(kElements)});
    errors.model.assign(kElements, deviation);
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal(0, 1);
    std::uniform_real_distribution<double> place(-0.5, 0.5);
    for (size_t i = 0; i < kElements; ++i) {
      const double ulp = std::round(place(random) + deviation * normal(random));
      errors.Set(i, static_cast<float>(std::fabs(ulp)), static_cast<float>(ulp));
    }
    const ErrorProfile profile = errors.Profile();
    ASSERT_EQ(profile.model.size(), profile.ulps.counts.size() + 1);
    const auto near = [&](double expected, int64_t counted) {
      EXPECT_NEAR(expected, static_cast<double>(counted), 5 * std::sqrt(expected + 1)) << deviation;
    };
    near(profile.model[0], profile.ulps.zero);
    for (size_t bin = 0; bin < profile.ulps.counts.size(); ++bin) {
      near(profile.model[bin + 1], profile.ulps.counts[bin]);
    }
    EXPECT_NEAR(std::accumulate(profile.model.begin(), profile.model.end(), 0.0), kElements, 1);
  }
}

}  // namespace
}  // namespace convgrad
