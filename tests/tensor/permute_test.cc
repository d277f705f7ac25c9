// Elements follow their dimensions.
#include "tensor/permute.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace convgrad {
namespace {

template <class Word>
void ExpectPermuted(DType dtype) {
  const std::array<int64_t, 4> sizes = {2, 3, 4, 5};
  Tensor tensor(dtype, {2, 12, 5});
  Word* elements = static_cast<Word*>(tensor.mutable_raw());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) elements[i] = static_cast<Word>(i);
  const Parallel parallel(2);
  const Tensor result = Permuted(tensor, sizes, {3, 0, 2, 1}, {10, 4, 3}, parallel);
  EXPECT_EQ(result.shape(), Shape({10, 4, 3}));
  const Word* moved = static_cast<const Word*>(result.raw());
  for (Word d = 0; d < 5; ++d) {
    for (Word a = 0; a < 2; ++a) {
      for (Word c = 0; c < 4; ++c) {
        for (Word b = 0; b < 3; ++b) {
          const Word from = static_cast<Word>(((a * 3 + b) * 4 + c) * 5 + d);
          ASSERT_EQ(moved[((d * 2 + a) * 4 + c) * 3 + b], from);
        }
      }
    }
  }
}

TEST(Permuted, MovesElementsOfEverySize) {
  ExpectPermuted<uint16_t>(DType::kBFloat16);
  ExpectPermuted<uint32_t>(DType::kFloat32);
  ExpectPermuted<uint64_t>(DType::kFloat64);
}

TEST(Permuted, OfNothingIsNothing) {
  const Tensor result =
      Permuted(Tensor(DType::kFloat32, {0, 3}), {0, 3, 1, 1}, {1, 0, 2, 3}, {3, 0}, Parallel(1));
  EXPECT_EQ(result.shape(), Shape({3, 0}));
}

}  // namespace
}  // namespace convgrad
