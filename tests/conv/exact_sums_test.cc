// Exact sums over some images, against sums term by term and against each other: any data, any cut,
// any order, any number of threads.
#include "conv/parts/exact_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/resources.h"
#include "conv/compute.h"
#include "conv/exact_parts.h"
#include "support/from_environment.h"

namespace convgrad {
namespace {

using Random = std::mt19937_64;

int64_t Between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// How a tensor's numbers are spread.
enum class Data { kNormal, kWide, kIntegers, kCancelling, kOutliers, kSpecial, kZeros };
constexpr Data kAllData[] = {Data::kNormal,   Data::kWide,    Data::kIntegers, Data::kCancelling,
                             Data::kOutliers, Data::kSpecial, Data::kZeros};

template <class Stored>
class Numbers {
 public:
  Numbers(Random& random, Data data) : random_(random), data_(data) {}

  Stored Next() {
    const double normal = std::normal_distribution<double>()(random_);
    switch (data_) {
      case Data::kNormal: return Narrow<Stored>(normal);
      case Data::kIntegers: return Narrow<Stored>(static_cast<double>(Between(random_, -3, 3)));
      case Data::kWide: return AnyBits();
      case Data::kCancelling: return Cancelling(normal);
      case Data::kOutliers:
        return Between(random_, 0, 20) == 0 ? AnyBits() : Narrow<Stored>(normal);
      case Data::kSpecial: return Special(normal);
      case Data::kZeros: return Narrow<Stored>(Between(random_, 0, 30) == 0 ? normal : 0.0);
    }
    return Stored();
  }

 private:
  // Any finite number of the type: all exponents, subnormal numbers too.
  Stored AnyBits() {
    for (;;) {
      const uint64_t bits = random_();
      Stored number;
      std::memcpy(&number, &bits, sizeof(number));
      if (std::isfinite(Widen(number))) return number;
    }
  }
  // Every number comes back with the other sign.
  Stored Cancelling(double normal) {
    if (!has_last_) last_ = Between(random_, 0, 4) == 0 ? AnyBits() : Narrow<Stored>(normal);
    has_last_ = !has_last_;
    return has_last_ ? last_ : Narrow<Stored>(-Widen(last_));
  }
  Stored Special(double normal) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (Between(random_, 0, 400)) {
      case 0: return Narrow<Stored>(kInfinity);
      case 1: return Narrow<Stored>(-kInfinity);
      case 2: return Narrow<Stored>(std::numeric_limits<double>::quiet_NaN());
      default: return Narrow<Stored>(Between(random_, 0, 3) == 0 ? 0.0 : normal);
    }
  }

  Random& random_;
  Data data_;
  Stored last_{};
  bool has_last_ = false;
};

Tensor RandomTensor(Random& random, Data data, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Numbers<Stored> numbers(random, data);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.mutable_data<Stored>()[i] = numbers.Next();
    }
  });
  return tensor;
}

Problem RandomProblem(Random& random, DType dtype, int64_t batch) {
  for (;;) {
    const bool is_depthwise = Between(random, 0, 1) == 0;
    const int64_t groups = is_depthwise ? 1 : Between(random, 1, 2);
    const int64_t channels = groups * Between(random, 1, 5);
    const int64_t kernel_h = Between(random, 1, 3), kernel_w = Between(random, 1, 3);
    ConvSpec spec;
    spec.op = is_depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
    spec.dtype = dtype;
    spec.data_format = Between(random, 0, 1) == 0 ? DataFormat::kNHWC : DataFormat::kNCHW;
    spec.padding = Between(random, 0, 1) == 0 ? Padding::kSame : Padding::kValid;
    spec.strides = {Between(random, 1, 2), Between(random, 1, 2)};
    spec.dilations = {Between(random, 1, 2), Between(random, 1, 2)};
    const int64_t h = Between(random, 3, 9), w = Between(random, 3, 9);
    spec.input = spec.data_format == DataFormat::kNHWC ? Shape{batch, h, w, channels}
                                                       : Shape{batch, channels, h, w};
    spec.filter =
        is_depthwise ? Shape{kernel_h, kernel_w, channels, Between(random, 1, 3)}
                     : Shape{kernel_h, kernel_w, channels / groups, groups * Between(random, 1, 6)};
    try {
      Problem problem = MakeProblem(spec);
      problem.op = is_depthwise ? Op::kDepthwiseConv2DBackpropFilter : Op::kConv2DBackpropFilter;
      return problem;
    } catch (const Error&) {  // a window larger than the input
    }
  }
}

// The images [begin, end) of a tensor.
const void* ImagesOf(const Tensor& tensor, int64_t begin, int64_t batch) {
  return static_cast<const std::byte*>(tensor.raw()) + tensor.num_bytes() / batch * begin;
}

// A gradient and its operands.
struct Gradient {
  Problem problem;
  Tensor input, out_backprop;

  FixedPointSums SumsOf(int64_t begin, int64_t end, const Parallel& parallel) const {
    const int64_t batch = problem.geometry.batch;
    Problem some = problem;
    some.geometry.batch = end - begin;
    ExactSums exact(some, SupportedKernels().front(), parallel.num_threads());
    exact.Begin();
    for (int64_t at = begin; at < end;) {
      const int64_t images = std::min(exact.ImagesAtOnce(), end - at);
      exact.Add(ImagesOf(input, at, batch), ImagesOf(out_backprop, at, batch), images, parallel);
      at += images;
    }
    exact.sums().Normalize(parallel);
    return std::move(exact.sums());
  }
};

Gradient RandomGradient(Random& random, DType dtype, Data input, Data out_backprop, int64_t batch) {
  const Problem problem = RandomProblem(random, dtype, batch);
  return {problem, RandomTensor(random, input, dtype, problem.InputShape()),
          RandomTensor(random, out_backprop, dtype, problem.OutputShape())};
}

Tensor RoundedResult(const Problem& problem, const FixedPointSums& sums) {
  Tensor result(problem.dtype, problem.ResultShape());
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < sums.count(); ++i) {
      result.mutable_data<Stored>()[i] = Narrow<Stored>(sums.Rounded<Stored>(i));
    }
  });
  return result;
}

::testing::AssertionResult AreEqual(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<size_t>(a.num_bytes());
  if (a.num_bytes() == b.num_bytes() && std::memcmp(a.raw(), b.raw(), bytes) == 0) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "other bits";
}

::testing::AssertionResult AreEqual(const FixedPointSums& a, const FixedPointSums& b) {
  if (a.window() != b.window()) return ::testing::AssertionFailure() << "another window";
  for (int64_t i = 0; i < a.count(); ++i) {
    if (a.StateAt(i) != b.StateAt(i) || !std::ranges::equal(a.At(i), b.At(i))) {
      return ::testing::AssertionFailure() << "another sum at " << i;
    }
  }
  return ::testing::AssertionSuccess();
}

void AddTo(FixedPointSums& sums, const FixedPointSums& other, const Parallel& parallel) {
  const WordWindow both = sums.window().With(other.window());
  sums.Widen({both.first, both.count + 1}, parallel);
  for (int64_t i = 0; i < sums.count(); ++i) {
    sums.AddWords(i, other.At(i).data(), other.window());
    if (other.StateAt(i) == kFiniteSum) continue;
    sums.KeepStates();
    sums.MarkSpecial(i, other.StateAt(i));
  }
  sums.Normalize(parallel);
}

// Joins any two until one is left.
FixedPointSums JoinInAnyOrder(Random& random, std::vector<FixedPointSums> parts,
                              const Parallel& parallel) {
  while (parts.size() > 1) {
    std::swap(parts.back(), parts[static_cast<size_t>(Between(random, 0, std::ssize(parts) - 1))]);
    FixedPointSums taken = std::move(parts.back());
    parts.pop_back();
    AddTo(parts[static_cast<size_t>(Between(random, 0, std::ssize(parts) - 1))], taken, parallel);
  }
  return std::move(parts.front());
}

Execution ExactBy(std::optional<std::string> algorithm, int num_threads) {
  Execution execution;
  execution.num_threads = num_threads;
  execution.algorithm = std::move(algorithm);
  execution.precision = Precision::kExact;
  return execution;
}

TEST(ExactSumsTest, AreThoseOfAllTermsWhateverTheData) {
  Random random(1);
  const Parallel one(1), two(2);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const Data first : kAllData) {
      for (const Data second : kAllData) {
        const Gradient gradient =
            RandomGradient(random, dtype, first, second, Between(random, 1, 4));
        SCOPED_TRACE(gradient.problem.ToLine() + " " + std::to_string(static_cast<int>(first)) +
                     " " + std::to_string(static_cast<int>(second)));
        const Tensor expected = Compute(gradient.problem, gradient.input, gradient.out_backprop,
                                        ExactBy("reference", 1));
        const FixedPointSums sums = gradient.SumsOf(0, gradient.problem.geometry.batch, one);
        EXPECT_TRUE(AreEqual(RoundedResult(gradient.problem, sums), expected));
        EXPECT_TRUE(AreEqual(sums, gradient.SumsOf(0, gradient.problem.geometry.batch, two)));
        EXPECT_LE(sums.window().count, WidestWindow(dtype).count);
      }
    }
  }
}

TEST(ExactSumsTest, AnyCutAndAnyTreeHaveTheSameBits) {
  Random random(2);
  const Parallel parallel(1);
  const auto cases = static_cast<int64_t>(FromEnvironment("CONVGRAD_TEST_PROBLEMS", 40));
  for (int64_t i = 0; i < cases; ++i) {
    const DType dtype = std::vector{DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                    DType::kFloat64}[static_cast<size_t>(i % 4)];
    const auto any_data = [&] { return kAllData[static_cast<size_t>(Between(random, 0, 6))]; };
    const int64_t batch = Between(random, 2, 80);
    const Gradient gradient = RandomGradient(random, dtype, any_data(), any_data(), batch);
    SCOPED_TRACE(gradient.problem.ToLine());
    std::vector<int64_t> cuts = {0, batch};
    const int64_t parts = Between(random, 2, std::min<int64_t>(64, batch));
    while (std::ssize(cuts) <= parts) {
      const int64_t cut = Between(random, 1, batch - 1);
      if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
    }
    std::ranges::sort(cuts);
    std::vector<FixedPointSums> sums;
    for (size_t at = 0; at + 1 < cuts.size(); ++at) {
      sums.push_back(gradient.SumsOf(cuts[at], cuts[at + 1], parallel));
    }
    const FixedPointSums joined = JoinInAnyOrder(random, std::move(sums), parallel);
    EXPECT_TRUE(AreEqual(joined, gradient.SumsOf(0, batch, parallel)));
    const Tensor expected =
        Compute(gradient.problem, gradient.input, gradient.out_backprop, ExactBy(std::nullopt, 1));
    EXPECT_TRUE(AreEqual(RoundedResult(gradient.problem, joined), expected));
  }
}

// Slices take what a kernel can sum; what they leave decides how long it takes, and no bit.
TEST(ExactSumsTest, ManyImagesAtOnceAndManyTerms) {
  Random random(3);
  const Parallel parallel(2);
  ConvSpec spec;
  spec.input = Shape{40, 14, 14, 16};
  spec.filter = Shape{3, 3, 16, 24};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    spec.dtype = dtype;
    Problem problem = MakeProblem(spec);
    problem.op = Op::kConv2DBackpropFilter;
    const Gradient gradient = {problem,
                               RandomTensor(random, Data::kNormal, dtype, problem.InputShape()),
                               RandomTensor(random, Data::kNormal, dtype, problem.OutputShape())};
    ExactSums exact(problem, SupportedKernels().front(), 2);
    EXPECT_GT(exact.ImagesAtOnce(), 1);
    EXPECT_LT(exact.ImagesAtOnce(), 40);
    const Tensor expected =
        Compute(problem, gradient.input, gradient.out_backprop, ExactBy(std::nullopt, 2));
    EXPECT_TRUE(AreEqual(RoundedResult(problem, gradient.SumsOf(0, 40, parallel)), expected));
  }
}

// Where memory is short, fewer images are cut at once, down to one.
TEST(ExactSumsTest, ALimitMakesScratchSmall) {
  ConvSpec spec;
  spec.input = Shape{64, 7, 7, 32};
  spec.filter = Shape{3, 3, 32, 16};
  Problem problem = MakeProblem(spec);
  problem.op = Op::kConv2DBackpropFilter;
  const KernelTable& kernels = SupportedKernels().front();
  const ExactSums all(problem, kernels, 1), few(problem, kernels, 1, all.ScratchBytes() / 4);
  EXPECT_EQ(ExactSums(problem, kernels, 1, 1).ImagesAtOnce(), 1);
  EXPECT_LT(few.ImagesAtOnce(), all.ImagesAtOnce());
  EXPECT_LT(few.ScratchBytes(), all.ScratchBytes());
}

// The operands that are held already are not available, and nobody needs them again.
TEST(ExactSumsTest, OperandsThatAreHeldCountOnce) {
  Random random(5);
  const Gradient gradient =
      RandomGradient(random, DType::kFloat32, Data::kNormal, Data::kNormal, 2);
  Execution execution;
  execution.num_threads = 1;
  const int64_t held = AvailableMemory();
  EXPECT_THROW(CheckExactSumsMemory(gradient.problem, held, execution), Error);
  EXPECT_NO_THROW(ComputeExactSums(gradient.problem, gradient.input, gradient.out_backprop, held,
                                   execution, [](int64_t, int64_t) {}));
}

TEST(ExactSumsTest, SumsBeyondTheLimitAreRefused) {
  Random random(4);
  const Parallel parallel(1);
  const Gradient gradient = RandomGradient(random, DType::kFloat64, Data::kWide, Data::kWide, 1);
  ExactSums exact(gradient.problem, SupportedKernels().front(), 1);
  exact.Begin(64);
  try {
    exact.Add(gradient.input.raw(), gradient.out_backprop.raw(), 1, parallel);
    FAIL() << "no limit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "memory/limit");
  }
}

}  // namespace
}  // namespace convgrad
