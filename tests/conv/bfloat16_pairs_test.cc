// Products of bfloat16 pairs: packing against its formula, and the bits of the canonical order at
// the limits of what the instruction can do (subnormals count as zero there) and beyond them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "kernels/kernel_table.h"
#include "support/from_environment.h"

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

// Numbers of exponents in [low, high], a few of them zeros of both signs.
Tensor Numbers(const Shape& shape, int low, int high, uint64_t seed) {
  Tensor tensor(DType::kBFloat16, shape);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t exponent =
        static_cast<uint64_t>(low + 127) + random() % static_cast<uint64_t>(high - low + 1);
    const uint64_t bits = (random() & 0x807F) | exponent << 7;
    tensor.mutable_data<BFloat16>()[i] = {
        static_cast<uint16_t>(random() % 16 == 0 ? bits & 0x8000 : bits)};
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

// With the instruction where there is one, and without it.
void ExpectBitsOfReference(const Problem& problem, const Tensor& first, const Tensor& second) {
  Execution execution;
  execution.algorithm = "reference";
  const Tensor expected = Compute(problem, first, second, execution);
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    execution.algorithm = algorithm.name;
    if (execution.algorithm == "reference") continue;
    for (const KernelTable& kernels : SupportedKernels()) {
      if (!algorithm.can(problem, kernels)) continue;
      if (kernels.isa == Isa::kScalar && SupportedKernels().size() > 1) continue;
      execution.isa = kernels.isa;
      execution.num_threads = kernels.has_bf16_pairs ? 3 : 1;
      const Tensor actual = Compute(problem, first, second, execution);
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine() << " algorithm=" << algorithm.name << " isa=" << NameOf(kernels.isa);
    }
  }
}

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
      ExpectBitsOfReference(problem, first, second);
    }
  }
}

// Planes are paired where they lie: few and odd channels, groups, several bands, and padding, which
// takes another way.
TEST_P(Pairs, GiveTheBitsOfTheReferenceForPlanes) {
  const Exponents e = GetParam();
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    for (const char* sizes :
         {"in=2,70,9,8 filter=1,1,70,20 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=1,300,5,5 filter=1,1,300,33 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=2,42,6,7 filter=1,1,21,26 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=1,20,60,70 filter=1,1,20,12 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=1,130,60,41 filter=1,1,130,12 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=2,20,9,8 filter=1,1,20,17 strides=1,1 dilations=1,1 pads=1,0,0,1",
          "in=2,20,9,8 filter=1,1,20,17 strides=2,2 dilations=1,1 pads=0,0,0,0"}) {
      const Problem problem = ParseProblem(std::string(InfoOf(op).name) + " bfloat16 NCHW " +
                                           sizes + " padding=EXPLICIT");
      const auto& roles = InfoOf(op).operands;
      ExpectBitsOfReference(problem,
                            Numbers(problem.ShapeOf(roles[0]), e.first_low, e.first_high, 5),
                            Numbers(problem.ShapeOf(roles[1]), e.second_low, e.second_high, 6));
    }
  }
}

// Lanes along images: whole images and bands, padding, strides, groups, odd channels, several
// blocks, several column blocks.
TEST_P(Pairs, GiveTheBitsOfTheReferenceForFewChannels) {
  const Exponents e = GetParam();
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    for (const char* sizes :
         {"in=17,4,9,8 filter=3,3,4,6 strides=1,1 dilations=1,1 pads=1,1,1,1",
          "in=2,2,40,30 filter=5,5,2,2 strides=1,1 dilations=1,1 pads=2,2,2,2",
          "in=3,3,33,31 filter=7,7,3,64 strides=2,2 dilations=1,1 pads=3,2,3,2",
          "in=16,12,6,7 filter=3,3,4,6 strides=1,1 dilations=1,1 pads=1,1,1,1",
          "in=16,5,6,7 filter=3,3,5,7 strides=1,2 dilations=1,1 pads=1,1,1,1"}) {
      Problem problem = ParseProblem(std::string(InfoOf(op).name) + " bfloat16 NCHW " + sizes +
                                     " padding=EXPLICIT");
      for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
        problem.data_format = format;
        const auto& roles = InfoOf(op).operands;
        ExpectBitsOfReference(problem,
                              Numbers(problem.ShapeOf(roles[0]), e.first_low, e.first_high, 7),
                              Numbers(problem.ShapeOf(roles[1]), e.second_low, e.second_high, 8));
      }
    }
  }
}

// Output columns are the pairs here: even and odd widths, padding that parts pairs, strides,
// dilation, lone taps, rows of several blocks, groups, several runs, few and odd channels.
TEST_P(Pairs, GiveTheBitsOfTheReferenceForFilterGradients) {
  constexpr const char* kSizes[] = {
      "in=2,7,6,12 filter=3,3,12,20 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=3,6,7,70 filter=3,3,70,65 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=2,9,10,24 filter=3,3,24,40 strides=2,2 dilations=1,1 pads=0,1,0,1",
      "in=2,9,13,24 filter=3,4,24,40 strides=2,3 dilations=1,2 pads=2,1,4,3",
      "in=2,8,9,10 filter=1,3,10,33 strides=1,1 dilations=1,4 pads=0,0,4,4",
      "in=2,8,8,40 filter=1,1,40,36 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "in=2,7,7,40 filter=1,1,40,36 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "in=2,8,8,40 filter=3,1,40,36 strides=2,1 dilations=1,1 pads=1,1,0,2",
      "in=2,8,9,40 filter=1,1,40,36 strides=2,2 dilations=1,1 pads=0,0,1,0",
      "in=1,5,5,30 filter=1,2,30,30 strides=1,5 dilations=1,7 pads=0,0,5,6",
      "in=1,3,300,30 filter=2,3,30,34 strides=1,1 dilations=1,1 pads=0,1,1,1",
      "in=2,6,6,40 filter=3,3,20,64 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=3,90,41,26 filter=1,3,26,34 strides=1,1 dilations=1,1 pads=0,0,1,1",
      "in=2,19,20,3 filter=7,7,3,40 strides=2,2 dilations=1,1 pads=3,2,3,2",
      "in=2,12,13,6 filter=3,3,3,64 strides=1,1 dilations=1,2 pads=1,1,1,1",
      "in=2,9,9,17 filter=3,3,17,23 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=2,9,9,20 filter=3,3,20,3 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=2,9,1,20 filter=3,1,20,30 strides=1,1 dilations=1,1 pads=1,1,0,0"};
  const Exponents e = GetParam();
  for (const char* sizes : kSizes) {
    Problem problem = ParseProblem(std::string("conv2d_backprop_filter bfloat16 NHWC ") + sizes +
                                   " padding=EXPLICIT");
    for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
      problem.data_format = format;
      ExpectBitsOfReference(
          problem, Numbers(problem.ShapeOf(Role::kInput), e.first_low, e.first_high, 3),
          Numbers(problem.ShapeOf(Role::kOutBackprop), e.second_low, e.second_high, 4));
    }
  }
}

// Results so large that they are written around the caches: of one block and of two, with rows that
// leave tiles unfilled and a panel that is narrower than the others.
TEST(PairsInLargeResults, HaveTheBitsOfOtherTargets) {
  if (FindPacking() == nullptr) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  for (const char* sizes : {"NHWC in=1,119,120,16 filter=1,1,16,160 strides=1,1",
                            "NHWC in=1,119,120,260 filter=1,1,260,160 strides=1,1",
                            "NCHW in=2,20,32,60 filter=1,1,20,1152 strides=1,1",
                            "NCHW in=2,260,32,60 filter=1,1,260,1152 strides=1,1"}) {
    const Problem problem = ParseProblem(std::string("conv2d bfloat16 ") + sizes +
                                         " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    const Tensor input = Numbers(problem.ShapeOf(Role::kInput), -8, 3, 9);
    const Tensor filter = Numbers(problem.ShapeOf(Role::kFilter), -8, 3, 10);
    Execution execution;
    const Isa narrow = FindKernels(Isa::kAvx2) != nullptr ? Isa::kAvx2 : Isa::kScalar;
    execution.isa = kSanitized ? Isa::kAvx512 : narrow;
    const Tensor expected = Compute(problem, input, filter, execution);
    execution.isa = Isa::kAvx512;
    execution.algorithm =
        problem.data_format == DataFormat::kNHWC ? "channel-lanes" : "pixel-lanes";
    for (const int threads : {1, 2}) {
      execution.num_threads = threads;
      const Tensor actual = Compute(problem, input, filter, execution);
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine() << " threads=" << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, Pairs,
                         ::testing::Values(Exponents{"Ordinary", -8, 3, -8, 3},
                                           Exponents{"LeastThatStayNormal", -56, -40, -56, -40},
                                           Exponents{"SumsBelowNormal", -60, -50, -56, -52},
                                           Exponents{"ProductsBelowNormal", -100, -60, -60, -50},
                                           Exponents{"SubnormalOperand", -127, -120, 0, 20},
                                           Exponents{"LargestInPairs", 50, 59, 50, 58},
                                           Exponents{"LargerThanPairs", 50, 60, 50, 58},
                                           Exponents{"LargeSumsOverflow", 50, 64, 50, 63},
                                           Exponents{"InfiniteOperand", 100, 128, -3, 3}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace convgrad
