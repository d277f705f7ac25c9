// Products of bfloat16 pairs: packing against its formula, and the bits of the canonical order at
// the limits of what the instruction can do (subnormals count as zero there) and beyond them.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "kernels/kernel_table.h"

namespace convgrad {
namespace {

const PackPairKernels* FindPacking() {
  const KernelTable& best = SupportedKernels().front();
  return best.has_bf16_pairs ? &best.pack_bf16_pairs : nullptr;
}

// A matrix of numbers that tell where they were, with room around its rows.
struct Matrix {
  Matrix(int64_t rows_in, int64_t cols_in) : rows(rows_in), cols(cols_in), stride(cols_in + 3) {
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
  // Of pairs: along rows of the matrix, or along its columns.
  const int64_t lines = pairs_in_rows ? (matrix.rows + 1) / 2 : matrix.rows;
  const int64_t width = pairs_in_rows ? matrix.cols : (matrix.cols + 1) / 2;
  const int64_t to_lines = transposed ? width : lines, to_width = transposed ? lines : width;
  const int64_t to_stride = to_width + 5;
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
    for (int64_t cols : {1, 2, 5, 16, 17, 31, 32, 33, 64, 70}) {
      const Matrix matrix(rows, cols);
      CheckPacking(packing->pair_cols, false, false, matrix);
      CheckPacking(packing->pair_cols_transposed, false, true, matrix);
      CheckPacking(packing->pair_rows, true, false, matrix);
      CheckPacking(packing->pair_rows_transposed, true, true, matrix);
      if (HasFatalFailure()) return;
    }
  }
}

// Numbers of exponents in [low, high], a few of them zero.
Tensor Numbers(const Shape& shape, int low, int high, uint64_t seed) {
  Tensor tensor(DType::kBFloat16, shape);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t exponent =
        static_cast<uint64_t>(low + 127) + random() % static_cast<uint64_t>(high - low + 1);
    const uint64_t bits = (random() & 0x807F) | exponent << 7;
    tensor.mutable_data<BFloat16>()[i] = {static_cast<uint16_t>(random() % 16 == 0 ? 0 : bits)};
  }
  return tensor;
}

// Exponents of the two operands' numbers, and what they lead to.
struct Exponents {
  const char* name;
  int first_low, first_high, second_low, second_high;
};

std::ostream& operator<<(std::ostream& out, const Exponents& e) {
  return out << e.name;
}

class Pairs : public ::testing::TestWithParam<Exponents> {};

// Odd channels, padding, several blocks, groups, both formats.
TEST_P(Pairs, GiveTheBitsOfTheReference) {
  const Exponents e = GetParam();
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput, Op::kConv2DBackpropFilter}) {
    for (const char* sizes : {"in=2,6,7,12 filter=3,3,12,20", "in=1,5,5,33 filter=3,3,33,35",
                              "in=1,4,4,600 filter=1,1,600,18", "in=2,6,6,6 filter=3,3,3,8"}) {
      const Problem problem =
          ParseProblem(std::string(InfoOf(op).name) + " bfloat16 NHWC " + sizes +
                       " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
      const auto& roles = InfoOf(op).operands;
      const Tensor first = Numbers(problem.ShapeOf(roles[0]), e.first_low, e.first_high, 1);
      const Tensor second = Numbers(problem.ShapeOf(roles[1]), e.second_low, e.second_high, 2);
      Execution execution;
      const Tensor actual = Compute(problem, first, second, execution);
      execution.algorithm = "reference";
      const Tensor expected = Compute(problem, first, second, execution);
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, Pairs,
                         ::testing::Values(Exponents{"Ordinary", -8, 3, -8, 3},
                                           Exponents{"LeastThatStayNormal", -56, -40, -56, -40},
                                           Exponents{"SumsBelowNormal", -60, -50, -56, -52},
                                           Exponents{"ProductsBelowNormal", -100, -60, -60, -50},
                                           Exponents{"SubnormalOperand", -127, -120, 0, 20},
                                           Exponents{"LargeSumsOverflow", 50, 64, 50, 63},
                                           Exponents{"InfiniteOperand", 100, 128, -3, 3}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace convgrad
