// Batch invariance is a promise: forward and input gradient of an image have the same bits alone
// and in any batch, by every algorithm, in every type, layout and precision.
#include "verify/probe/invariance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "support/from_environment.h"
#include "support/operands.h"
#include "support/random_problem.h"

namespace convgrad {
namespace {

using ::testing::HasSubstr;
using testing::Operands;
using testing::RandomOperands;
using testing::TensorOf;
using testing::Values;

Tensor Images(const Tensor& batch, int64_t begin, int64_t end) {
  Shape shape = batch.shape();
  const int64_t bytes = batch.num_bytes() / shape[0];
  shape[0] = end - begin;
  Tensor images(batch.dtype(), shape);
  std::memcpy(images.mutable_raw(), static_cast<const char*>(batch.raw()) + begin * bytes,
              static_cast<size_t>(images.num_bytes()));
  return images;
}

// A batch of the images [begin, end) of `problem`.
Problem Batch(const Problem& problem, int64_t begin, int64_t end) {
  Problem batch = problem;
  batch.geometry.batch = end - begin;
  return batch;
}
Operands Batch(const Problem& problem, const Operands& operands, int64_t begin, int64_t end) {
  const auto& roles = InfoOf(problem.op).operands;
  const auto cut = [&](Role role, const Tensor& tensor) {
    return role == Role::kFilter ? tensor : Images(tensor, begin, end);
  };
  return {cut(roles[0], operands.first), cut(roles[1], operands.second)};
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.num_bytes())) == 0;
}

// The forms that a problem was computed with; each once.
using Forms = std::set<std::string>;

// Whole batch and parts, each by every algorithm that takes it, on every target.
void CheckEveryForm(const Problem& problem, const Operands& operands, Precision precision,
                    Forms& forms) {
  const int64_t batch = problem.geometry.batch;
  for (const KernelTable& kernels : SupportedKernels()) {
    for (const Algorithm& algorithm : AlgorithmsOf(problem.op, precision)) {
      Execution execution;
      execution.algorithm = algorithm.name;
      execution.isa = kernels.isa;
      execution.precision = precision;
      execution.num_threads = 2;
      if (!algorithm.can(problem, kernels)) continue;
      const Tensor whole = Compute(problem, operands.first, operands.second, execution);
      forms.insert(std::string(NameOf(precision)) + " " + algorithm.name);
      std::vector<std::pair<int64_t, int64_t>> parts = {{0, batch - 1}, {batch / 2, batch}};
      for (int64_t image = 0; image < batch; ++image) parts.emplace_back(image, image + 1);
      for (const auto& [begin, end] : parts) {
        const Problem part = Batch(problem, begin, end);
        // Where a form does not take the part, the best one is chosen.
        Execution of_part = execution;
        if (!algorithm.can(part, kernels)) of_part.algorithm.reset();
        const Operands cut = Batch(problem, operands, begin, end);
        EXPECT_TRUE(
            SameBits(Compute(part, cut.first, cut.second, of_part), Images(whole, begin, end)))
            << problem.ToLine() << " images " << begin << ".." << end - 1 << " by "
            << algorithm.name << " on " << NameOf(kernels.isa) << ", " << NameOf(precision);
      }
    }
  }
}

TEST(Invariance, OfEveryFormTypeLayoutAndPrecision) {
  const int problems_each = static_cast<int>(FromEnvironment("CONVGRAD_TEST_PROBLEMS", 6));
  Forms forms;
  int tried = 0;
  for (const OpInfo& op : AllOps()) {
    if (op.direction == Direction::kBackpropFilter) continue;
    for (const DType dtype :
         {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
        RandomProblemOptions options;
        options.op = op.op;
        options.dtype = dtype;
        options.data_format = format;
        options.max_terms = 20'000;
        options.allow_empty = false;
        RandomProblems problems(20261124 + static_cast<uint64_t>(tried), options);
        for (int i = 0; i < problems_each && !HasFailure();) {
          const Problem problem = problems.Next();
          if (problem.geometry.batch < 2) continue;
          const auto seed = static_cast<uint64_t>(++tried);
          // Infinities make some forms leave the whole batch to another.
          const Operands operands =
              RandomOperands(problem, seed, i % 3 == 2 ? Values::kSpecial : Values::kOrdinary);
          for (const Precision precision : kAllPrecisions) {
            CheckEveryForm(problem, operands, precision, forms);
          }
          ++i;
        }
      }
    }
  }
  // Random problems hardly meet small planes of a channel each, or windows side by side.
  const std::string same = " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT";
  const std::string apart = " strides=3,2 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT";
  for (const std::string& line :
       {"depthwise_conv2d float32 NCHW in=3,5,7,7 filter=3,3,5,1" + same,
        "depthwise_conv2d_backprop_input float64 NCHW in=3,5,9,8 filter=3,3,5,1" + same,
        "conv2d float32 NCHW in=4,6,8,7 filter=3,3,1,6" + same,
        "conv2d_backprop_input float32 NCHW in=2,6,8,14 filter=3,3,1,6" + same,
        "conv2d float32 NCHW in=3,4,9,8 filter=3,2,4,6" + apart,
        "conv2d_backprop_input float64 NHWC in=3,9,8,4 filter=3,2,4,6" + apart}) {
    const Problem problem = ParseProblem(line);
    const Operands operands = RandomOperands(problem, 1, Values::kOrdinary);
    CheckEveryForm(problem, operands, Precision::kStandard, forms);
  }
  std::printf("%d problems, %zu forms\n", tried, forms.size());
  for (const OpInfo& op : AllOps()) {
    if (op.direction == Direction::kBackpropFilter) continue;
    for (const Precision precision : kAllPrecisions) {
      for (const Algorithm& algorithm : AlgorithmsOf(op.op, precision)) {
        EXPECT_TRUE(forms.contains(std::string(NameOf(precision)) + " " + algorithm.name))
            << NameOf(precision) << " " << algorithm.name;
      }
    }
  }
}

// --- the check ---

Problem SmallProblem(Op op, int64_t batch = 4) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.input = Shape{batch, 5, 6, 3};
  spec.filter = Shape{3, 3, 3, 2};
  Problem problem = MakeProblem(spec);
  problem.op = op;
  return problem;
}

std::vector<Part> PartsOf(const Tensor& whole) {
  return {{"a.npy", Images(whole, 0, 1)}, {"b.npy", Images(whole, 1, 4)}};
}

TEST(Invariance, OfThisProgramHolds) {
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    const Problem problem = SmallProblem(op);
    const Operands operands = RandomOperands(problem, 1, Values::kOrdinary);
    const Tensor whole = Compute(problem, operands.first, operands.second, {});
    const CheckResult check =
        CheckInvariance(problem, operands.first, operands.second, whole, {}, Parallel(2));
    EXPECT_EQ(check.status, Verdict::kPassed) << check.reason;
    EXPECT_EQ(check.reason, "each of the 4 images has the same bits alone and in the batch");
    EXPECT_EQ(check.counts.elements, whole.num_elements());
  }
}

TEST(Invariance, NamesTheFirstImageThatDiffers) {
  const Problem problem = SmallProblem(Op::kConv2D);
  const Operands operands = RandomOperands(problem, 1, Values::kOrdinary);
  Tensor whole = Compute(problem, operands.first, operands.second, {});
  for (const int64_t element : {2 * 60 + 13, 2 * 60 + 59, 3 * 60}) {
    float& stored = whole.mutable_data<float>()[element];
    stored = std::nextafter(stored, 1e9F);
  }
  const char* const reason = "of its 60 elements differ, first [2,1,0,1]; 2 of 4 images differ";
  const CheckResult own =
      CheckInvariance(problem, operands.first, operands.second, whole, {}, Parallel(2));
  EXPECT_EQ(own.status, Verdict::kFailed);
  EXPECT_THAT(own.reason, HasSubstr("image 2 has other bits alone than in the batch: 2 "));
  EXPECT_THAT(own.reason, HasSubstr(reason));
  const Tensor right = Compute(problem, operands.first, operands.second, {});
  const CheckResult yours = ComparePartsOfBatch(problem, whole, PartsOf(right), Parallel(1));
  EXPECT_EQ(yours.status, Verdict::kFailed);
  EXPECT_THAT(yours.reason, HasSubstr("image 2 has other bits in its part than in the batch"));
  EXPECT_THAT(yours.reason, HasSubstr(reason));
  EXPECT_EQ(ComparePartsOfBatch(problem, right, PartsOf(right), Parallel(1)).status,
            Verdict::kPassed);
}

TEST(Invariance, TakesNoPartsThatDontMakeUpTheBatch) {
  const Problem problem = SmallProblem(Op::kConv2D);
  const Operands operands = RandomOperands(problem, 1, Values::kOrdinary);
  const Tensor whole = Compute(problem, operands.first, operands.second, {});
  const auto detail = [&](const std::vector<Part>& parts) {
    const CheckResult check = ComparePartsOfBatch(problem, whole, parts, Parallel(1));
    EXPECT_EQ(check.status, Verdict::kFailed);
    EXPECT_EQ(check.reason, "incomparable");
    return check.detail;
  };
  EXPECT_EQ(detail({}), "the parts have 0 images, the batch has 4");
  EXPECT_EQ(detail({{"a.npy", Images(whole, 0, 3)}}), "the parts have 3 images, the batch has 4");
  const Tensor other = TensorOf(DType::kFloat32, {2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(detail({{"b.npy", other}}), HasSubstr("b.npy is float32 [2,2]"));
  Tensor half(DType::kFloat16, whole.shape());
  std::memset(half.mutable_raw(), 0, static_cast<size_t>(half.num_bytes()));
  EXPECT_THAT(detail({{"c.npy", half}}), HasSubstr("c.npy is float16 [4,5,6,2]"));
}

TEST(Invariance, IsNotOfSumsOverImages) {
  const auto code = [](const Problem& problem) -> std::string {
    try {
      RequireImages(problem);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      return error.code();
    }
    return "";
  };
  EXPECT_EQ(code(SmallProblem(Op::kConv2DBackpropFilter)), "invariance/sum");
  EXPECT_EQ(code(SmallProblem(Op::kConv2D, 1)), "invariance/one-image");
  EXPECT_EQ(code(SmallProblem(Op::kConv2D)), "");
}

}  // namespace
}  // namespace convgrad
