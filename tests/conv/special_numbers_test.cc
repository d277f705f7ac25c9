// Infinities and NaNs found among numbers of every type, wherever they are.
#include "conv/move/special_numbers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace convgrad {
namespace {

// `infinity`: its bits; a NaN has more, a finite number fewer.
template <class Stored>
void CheckNumbers(typename Magnitude<Stored>::Bits infinity) {
  using Bits = typename Magnitude<Stored>::Bits;
  constexpr Bits kSign = static_cast<Bits>(Magnitude<Stored>::kMost + 1);
  const Bits largest = static_cast<Bits>(infinity - 1), nan = static_cast<Bits>(infinity + 1);
  constexpr int64_t kCount = 41;  // no whole vectors
  for (int64_t at = 0; at < kCount; ++at) {
    for (const Bits sign : {Bits{0}, kSign}) {
      const auto with = [&](Bits bits) {
        std::vector<Stored> values(kCount, std::bit_cast<Stored>(largest));
        values[static_cast<size_t>(at)] = std::bit_cast<Stored>(static_cast<Bits>(bits | sign));
        return values;
      };
      for (const Bits finite : {Bits{0}, Bits{1}, largest}) {
        EXPECT_TRUE(IsFinite<Stored>(with(finite).data(), kCount)) << at;
        EXPECT_FALSE(HasNaN<Stored>(with(finite).data(), kCount)) << at;
      }
      EXPECT_FALSE(IsFinite<Stored>(with(infinity).data(), kCount)) << at;
      EXPECT_FALSE(HasNaN<Stored>(with(infinity).data(), kCount)) << at;
      for (const Bits any : {nan, Magnitude<Stored>::kMost}) {
        EXPECT_FALSE(IsFinite<Stored>(with(any).data(), kCount)) << at;
        EXPECT_TRUE(HasNaN<Stored>(with(any).data(), kCount)) << at;
        EXPECT_FALSE(HasNaN<Stored>(with(any).data(), at)) << at;
      }
    }
  }
}

TEST(SpecialNumbers, OfEveryType) {
  CheckNumbers<float>(0x7f800000);
  CheckNumbers<double>(0x7ff0000000000000);
  CheckNumbers<Float16>(0x7c00);
  CheckNumbers<BFloat16>(0x7f80);
}

}  // namespace
}  // namespace convgrad
