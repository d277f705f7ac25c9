// The packing of bfloat16 pairs against its formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/kernel_table.h"

namespace convgrad {
namespace {

const PackPairKernels* FindPacking() {
  const KernelTable& best = SupportedKernels().front();
  return best.has_bf16_pairs ? &best.pack_bf16_pairs : nullptr;
}

// A matrix of numbers that tell where they were, with room between its rows or without.
struct Matrix {
  Matrix(int64_t rows_in, int64_t cols_in, int64_t room = 3)
      : rows(rows_in), cols(cols_in), stride(cols_in + room) {
    for (int64_t i = 0; i < rows * stride; ++i) {
      numbers.push_back({static_cast<uint16_t>(i % stride < cols ? i + 1 : 0xFFFF)});
    }
  }
  uint16_t At(int64_t row, int64_t col) const {
    const bool inside = row < rows && col < cols;
    return inside ? numbers[static_cast<size_t>(row * stride + col)].bits : uint16_t{0};
  }
  int64_t rows, cols, stride;
  std::vector<BFloat16> numbers;
};

using Pack = void (*)(const BFloat16*, int64_t, BFloat16Pair*, int64_t, int64_t, int64_t);

void CheckPacking(Pack pack, bool pairs_in_rows, bool transposed, const Matrix& matrix) {
  // Pairs lie along rows of the matrix, or along its columns.
  const int64_t lines = pairs_in_rows ? (matrix.rows + 1) / 2 : matrix.rows;
  const int64_t width = pairs_in_rows ? matrix.cols : (matrix.cols + 1) / 2;
  const int64_t to_lines = transposed ? width : lines, to_width = transposed ? lines : width;
  const int64_t to_stride = to_width + (matrix.stride == matrix.cols ? 0 : 5);
  std::vector<BFloat16Pair> to(static_cast<size_t>(to_lines * to_stride), {{7}, {7}});
  pack(matrix.numbers.data(), matrix.stride, to.data(), to_stride, matrix.rows, matrix.cols);
  for (int64_t i = 0; i < to_lines; ++i) {
    for (int64_t j = 0; j < to_stride; ++j) {
      const BFloat16Pair pair = to[static_cast<size_t>(i * to_stride + j)];
      const int64_t line = transposed ? j : i, at = transposed ? i : j;
      uint16_t first = 7, second = 7;
      if (j < to_width) {
        first = pairs_in_rows ? matrix.At(2 * line, at) : matrix.At(line, 2 * at);
        second = pairs_in_rows ? matrix.At(2 * line + 1, at) : matrix.At(line, 2 * at + 1);
      }
      ASSERT_EQ(pair.first.bits, first)
          << i << "," << j << " of " << matrix.rows << "x" << matrix.cols;
      ASSERT_EQ(pair.second.bits, second)
          << i << "," << j << " of " << matrix.rows << "x" << matrix.cols;
    }
  }
}

TEST(PackPairs, FollowsItsFormula) {
  const PackPairKernels* packing = FindPacking();
  if (packing == nullptr) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  for (int64_t rows : {1, 2, 3, 15, 16, 17, 32, 33, 67}) {
    for (int64_t cols : {1, 2, 3, 5, 7, 16, 17, 31, 32, 33, 64, 70}) {
      for (int64_t room : {0, 3}) {
        const Matrix matrix(rows, cols, room);
        CheckPacking(packing->pair_cols, false, false, matrix);
        CheckPacking(packing->pair_cols_transposed, false, true, matrix);
        CheckPacking(packing->pair_rows, true, false, matrix);
        CheckPacking(packing->pair_rows_transposed, true, true, matrix);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Rows of a matrix as places, some of which are not there.
TEST(PackPairs, GathersPlaces) {
  const PackPairKernels* packing = FindPacking();
  if (packing == nullptr) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  const int64_t lanes = SupportedKernels().front().vectors_bf16_pairs.lanes, apart = 40;
  for (const int64_t count : {1, 2, 15, 16, 17, 33}) {
    const Matrix matrix(lanes, 2 * apart);
    std::vector<const BFloat16*> places;
    for (int64_t i = 0; i < lanes; ++i) {
      places.push_back(i % 5 == 3 ? nullptr : matrix.numbers.data() + i * matrix.stride);
    }
    const int64_t step = lanes + 3;
    std::vector<BFloat16Pair> cols(static_cast<size_t>(count * step), {{7}, {7}}), rows = cols;
    packing->gather_cols(places.data(), count, cols.data(), step);
    packing->gather_rows(places.data(), apart, count, rows.data(), step, 100);
    for (int64_t at = 0; at < count * step; ++at) {
      const int64_t k = at / step, lane = at % step;
      const auto expected = [&](int64_t col) {
        if (lane >= lanes) return uint16_t{7};
        return lane % 5 == 3 ? uint16_t{0} : matrix.At(lane, col);
      };
      const BFloat16Pair of_cols = cols[static_cast<size_t>(at)];
      const BFloat16Pair of_rows = rows[static_cast<size_t>(at)];
      ASSERT_EQ(of_cols.first.bits, expected(2 * k)) << count << " at " << at;
      ASSERT_EQ(of_cols.second.bits, expected(2 * k + 1)) << count << " at " << at;
      ASSERT_EQ(of_rows.first.bits, expected(k)) << count << " at " << at;
      ASSERT_EQ(of_rows.second.bits, expected(k + apart)) << count << " at " << at;
    }
  }
}

// The number at `col` of a row of `matrix`, or zero off it.
uint16_t OnRow(const Matrix& matrix, int64_t row, int64_t col) {
  return col < 0 ? uint16_t{0} : matrix.At(row, col);
}

TEST(PackPairs, SplitsRowsThatAreNoNeighbours) {
  const PackPairKernels* packing = FindPacking();
  if (packing == nullptr) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  for (const int64_t cols : {1, 5, 16, 17, 70}) {
    for (const int64_t block_cols : {1, 6, 16, 64}) {
      for (const int missing : {0, 1, 2, 3}) {  // bit 0: the first rows, bit 1: the second ones
        const int64_t rows = 5, block_stride = rows * block_cols + 3;
        const int64_t blocks = (cols + block_cols - 1) / block_cols;
        const Matrix matrix(rows + 2, cols);
        const BFloat16* from = matrix.numbers.data();
        std::vector<BFloat16Pair> to(static_cast<size_t>(blocks * block_stride), {{7}, {7}});
        packing->pair_split((missing & 1) != 0 ? nullptr : from,
                            (missing & 2) != 0 ? nullptr : from + 2 * matrix.stride, matrix.stride,
                            to.data(), block_stride, rows, cols, block_cols);
        for (int64_t i = 0; i < blocks * block_stride; ++i) {
          const int64_t row = i % block_stride / block_cols;
          const int64_t col = i / block_stride * block_cols + i % block_stride % block_cols;
          uint16_t first = 7, second = 7;
          if (row < rows && col < cols) {
            first = (missing & 1) != 0 ? uint16_t{0} : matrix.At(row, col);
            second = (missing & 2) != 0 ? uint16_t{0} : matrix.At(row + 2, col);
          }
          const BFloat16Pair pair = to[static_cast<size_t>(i)];
          ASSERT_EQ(pair.first.bits, first) << i << " of " << cols << " by " << block_cols;
          ASSERT_EQ(pair.second.bits, second) << i << " of " << cols << " by " << block_cols;
        }
      }
    }
  }
}

TEST(PackPairs, PairsNumbersApart) {
  const PackPairKernels* packing = FindPacking();
  if (packing == nullptr) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  for (const int64_t cols : {1, 7, 16, 35}) {
    for (const int64_t apart : {1, 2, 5, 40}) {
      for (const int64_t begin : {-41, -20, -1, 0, 3}) {
        const Matrix matrix(18, cols);
        const PairsApart pairs{cols, begin, apart, cols + 45};
        const int64_t rows = matrix.rows, stride = pairs.count + 2, turned_stride = rows + 2;
        std::vector<BFloat16Pair> to(static_cast<size_t>(rows * stride));
        std::vector<BFloat16Pair> turned(static_cast<size_t>(pairs.count * turned_stride));
        packing->pair_apart(matrix.numbers.data(), matrix.stride, pairs, to.data(), stride, rows);
        packing->pair_apart_transposed(matrix.numbers.data(), matrix.stride, pairs, turned.data(),
                                       turned_stride, rows);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < pairs.count; ++i) {
            const BFloat16Pair pair = to[static_cast<size_t>(row * stride + i)];
            const BFloat16Pair other = turned[static_cast<size_t>(i * turned_stride + row)];
            ASSERT_EQ(pair.first.bits, OnRow(matrix, row, begin + i)) << row << "," << i;
            ASSERT_EQ(pair.second.bits, OnRow(matrix, row, begin + i + apart)) << row << "," << i;
            ASSERT_EQ(pair.first.bits, other.first.bits) << row << "," << i;
            ASSERT_EQ(pair.second.bits, other.second.bits) << row << "," << i;
          }
        }
      }
    }
  }
}

TEST(PackPairs, FindsTheLeastAndTheGreatestMagnitude) {
  const PackPairKernels* packing = FindPacking();
  if (packing == nullptr) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  for (const int64_t count : {1, 31, 32, 33, 100}) {
    std::vector<BFloat16> numbers(static_cast<size_t>(count), BFloat16{0x8000});
    const auto none = packing->magnitudes(numbers.data(), count);
    EXPECT_EQ(none.least, 0xFFFF);
    EXPECT_EQ(none.greatest, 0);
    for (int64_t i = 0; i < count; ++i) {
      numbers[static_cast<size_t>(i)] = {0xBF80};
      numbers[static_cast<size_t>((i + 1) % count)] = {0x0001};
      numbers[static_cast<size_t>((i + 2) % count)] = {0xFF80};
      const auto found = packing->magnitudes(numbers.data(), count);
      EXPECT_EQ(found.least, count == 1 ? 0x7F80 : 0x0001);
      EXPECT_EQ(found.greatest, 0x7F80);
      std::fill(numbers.begin(), numbers.end(), BFloat16{0x8000});
    }
  }
}

}  // namespace
}  // namespace convgrad
