// How far this program's own results are off, in units of u*S: never beyond what is proved, which
// data made for it nearly reach, and how far on data of many kinds. CONVGRAD_ERROR_ROUNDS sets how
// many tensors of each kind; docs/design/error-bound.md has the table that comes of 64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "support/from_environment.h"
#include "support/operands.h"
#include "support/verdict_testing.h"
#include "tensor/npy.h"
#include "verify/compare/compare.h"
#include "verify/truth/oracle.h"

namespace convgrad {
namespace {

using testing::DotProblem;
using testing::Operands;
using testing::TensorOf;

// The errors of the chain and the fold, docs/design/error-bound.md; and of the last rounding.
constexpr double kProved = 257;
constexpr double kWithLastRounding = kProved + 1;

// The errors of a result's elements in u*S; those without terms are left out.
std::vector<double> ErrorsOf(const Problem& problem, const Operands& operands) {
  const Tensor result = Compute(problem, operands.first, operands.second, Execution{});
  const Parallel parallel(2);
  const Oracle oracle(problem, operands.first, operands.second, parallel);
  const double u = std::ldexp(1.0, -InfoOf(problem.dtype).fraction_bits - 1);
  std::vector<double> errors;
  VisitFloat(problem.dtype, [&](auto tag) {
    const auto* elements = result.data<typename decltype(tag)::Type>();
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      const Truth truth = oracle.At(i);
      if (truth.magnitude == 0) continue;
      const double error = std::fabs((Widen(elements[i]) - truth.high) - truth.low);
      errors.push_back(error / (u * truth.magnitude));
    }
  });
  return errors;
}

CheckResult CheckOwn(const Problem& problem, const Operands& operands, const Tensor& result) {
  return CompareToReference(problem, operands.first, operands.second, result, {}, Parallel(1));
}

// 1 first in every block, then terms that are lost against it one after the other.
Operands LostTerms(const Problem& problem) {
  const int64_t terms = problem.MaxTerms();
  const double u = std::ldexp(1.0, -InfoOf(problem.dtype).fraction_bits - 1);
  std::vector<double> x;
  for (int64_t i = 0; i < terms; ++i) x.push_back(i % 256 == 0 ? 1 : u);
  return {TensorOf(problem.dtype, problem.InputShape(), x),
          TensorOf(problem.dtype, problem.FilterShape(), std::vector<double>(x.size(), 1))};
}

TEST(OwnError, ReachesWhatIsProvedAndNoMore) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const int64_t terms : {256, 25'600}) {
      const Problem problem = DotProblem(dtype, terms);
      const Operands operands = LostTerms(problem);
      const double error = ErrorsOf(problem, operands).at(0);
      EXPECT_GT(error, 254.9);
      EXPECT_LE(error, kProved);
      const Tensor result = Compute(problem, operands.first, operands.second, Execution{});
      const CheckResult own = CheckOwn(problem, operands, result);
      EXPECT_EQ(own.status, Verdict::kPassed) << own.reason;
      // Someone else's may be as far off, but not for sure.
      const CheckResult foreign =
          CompareToExact(problem, operands.first, operands.second, result, {}, Parallel(1));
      EXPECT_NE(foreign.status, Verdict::kFailed) << foreign.reason;
    }
  }
}

// Between what rounding usually does and what is proved, another sum than canon-1's is wrong.
TEST(OwnError, IsOfOneOrderAlone) {
  const Problem problem = DotProblem(DType::kFloat32, 25'600);
  const Operands operands = LostTerms(problem);
  const Tensor result = Compute(problem, operands.first, operands.second, Execution{});
  Tensor other = TensorOf(DType::kFloat32, problem.ResultShape(),
                          {static_cast<double>(std::nextafter(result.data<float>()[0], 0.0F))});
  const CheckResult check = CheckOwn(problem, operands, other);
  EXPECT_EQ(check.status, Verdict::kFailed);
  EXPECT_NE(check.detail.find("please report it"), std::string::npos) << check.detail;
}

// --- on data of many kinds ---

using Draw = std::function<double(int64_t i, std::mt19937_64& random)>;

double NormalTerm(std::mt19937_64& random) {
  return std::normal_distribution<double>()(random);
}
double Uniform(double low, double high, std::mt19937_64& random) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

// Numbers of the first operand, by their place in the sum; the second's are `factor`.
struct KindOfTerms {
  const char* name;
  Draw term, factor;
};

const Draw kNormal = [](int64_t, std::mt19937_64& random) { return NormalTerm(random); };
const Draw kPositive = [](int64_t, std::mt19937_64& random) { return Uniform(0.5, 1, random); };
const Draw kAnyPositive = [](int64_t, std::mt19937_64& random) { return Uniform(0, 1, random); };

const KindOfTerms kKindsOfTerms[] = {
    {"normal", kNormal, kNormal},
    {"uniform in (-1, 1)", [](int64_t, std::mt19937_64& random) { return Uniform(-1, 1, random); },
     kNormal},
    {"one sign, in (0.5, 1)", kPositive, kPositive},
    {"one sign, in (0, 1)", kAnyPositive, kAnyPositive},
    {"as after a ReLU, one sign",
     [](int64_t, std::mt19937_64& random) { return std::max(0.0, NormalTerm(random)); },
     kAnyPositive},
    {"heavy-tailed, normal cubed",
     [](int64_t, std::mt19937_64& random) { return std::pow(NormalTerm(random), 3); }, kNormal},
    {"heavy-tailed, 2^normal(0, 8)",
     [](int64_t, std::mt19937_64& random) {
       return std::copysign(std::exp2(8 * NormalTerm(random)), NormalTerm(random));
     },
     kNormal},
    {"large terms first, one sign, 1/i",
     [](int64_t i, std::mt19937_64& random) {
       return Uniform(0.5, 1, random) / static_cast<double>(i + 1);
     },
     kPositive},
    {"sorted, the largest first, normal",
     [](int64_t i, std::mt19937_64& random) {
       return 4 * std::exp(-static_cast<double>(i) / 64) * Uniform(0.9, 1, random);
     },
     kNormal},
    {"a giant first",
     [](int64_t i, std::mt19937_64& random) { return i == 0 ? 1e4 : NormalTerm(random); },
     kPositive},
    {"a giant first in every 256 terms",
     [](int64_t i, std::mt19937_64& random) { return i % 256 == 0 ? 1e4 : NormalTerm(random); },
     kPositive},
    {"eight large terms first, then small ones of one sign",
     [](int64_t i, std::mt19937_64& random) {
       return Uniform(0.5, 1, random) * (i < 8 ? 1 : 0x1p-20);
     },
     kPositive},
};

// Forward 1x1 of a few pixels, or the filter gradient of a few channels: both sum in order of i.
Problem SumProblem(int64_t terms, bool over_pixels) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.padding = Padding::kValid;
  spec.input = over_pixels ? Shape{1, 1, terms, 4} : Shape{1, 1, 4, terms};
  spec.filter = over_pixels ? Shape{1, 1, 4, 4} : Shape{1, 1, terms, 4};
  Problem problem = MakeProblem(spec);
  if (over_pixels) problem.op = Op::kConv2DBackpropFilter;
  return problem;
}

Operands OperandsOf(const KindOfTerms& kind, int64_t terms, bool over_pixels, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Problem problem = SumProblem(terms, over_pixels);
  const auto draw = [&](Role role, const Draw& number, bool terms_are_outer) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < 4 * terms; ++i) {
      numbers.push_back(number(terms_are_outer ? i / 4 : i % terms, random));
    }
    return TensorOf(DType::kFloat32, problem.ShapeOf(role), numbers);
  };
  if (over_pixels) {
    return {draw(Role::kInput, kind.term, true), draw(Role::kOutBackprop, kind.factor, true)};
  }
  return {draw(Role::kInput, kind.term, false), draw(Role::kFilter, kind.factor, true)};
}

double Quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(share * last))];
}

// Prints a line of the table and holds all to what is proved.
void Report(const char* name, std::vector<double> errors) {
  ASSERT_FALSE(errors.empty()) << name;
  std::sort(errors.begin(), errors.end());
  std::printf("| %s | %zu | %.2f | %.2f | %.2f | %.1f |\n", name, errors.size(),
              Quantile(errors, 0.5), Quantile(errors, 0.99), Quantile(errors, 0.999),
              errors.back());
  EXPECT_LE(errors.back(), kWithLastRounding) << name;
}

TEST(OwnError, OfManyKindsOfData) {
  const auto rounds = static_cast<uint64_t>(FromEnvironment("CONVGRAD_ERROR_ROUNDS", 2));
  for (const KindOfTerms& kind : kKindsOfTerms) {
    std::vector<double> errors;
    for (const int64_t terms : {9, 64, 256, 600, 4'608, 65'536, 1'000'000}) {
      for (uint64_t round = 0; round < rounds; ++round) {
        if (terms > 100'000 && round % 16 != 15) continue;
        for (const bool over_pixels : {false, true}) {
          const Problem problem = SumProblem(terms, over_pixels);
          const Operands operands = OperandsOf(kind, terms, over_pixels, 1000 * round + 7);
          std::ranges::copy(ErrorsOf(problem, operands), std::back_inserter(errors));
          if (round > 0 || terms > 100'000) continue;
          const Tensor result = Compute(problem, operands.first, operands.second, Execution{});
          EXPECT_EQ(CheckOwn(problem, operands, result).status, Verdict::kPassed) << kind.name;
        }
      }
    }
    Report(kind.name, std::move(errors));
  }
}

// --- on a captured training step ---

using Json = nlohmann::json;
const std::string kReal = CONVGRAD_SOURCE_DIR "/data/real/";

Problem RealProblem(const Json& layer, const Json& run) {
  ConvSpec spec;
  spec.op = ParseOp(run["op"].get<std::string>());
  spec.padding = layer["padding"] == "SAME" ? Padding::kSame : Padding::kValid;
  spec.strides = layer["strides"].get<std::vector<int64_t>>();
  const auto shape = [&](const char* role) { return layer["shapes"][role].get<Shape>(); };
  spec.out_backprop = shape("out_backprop");
  if (run.contains("filter_sizes")) {
    spec.input = shape("input");
    spec.filter_sizes = Sizes{shape("filter")};
  } else {
    spec.filter = shape("filter");
    spec.input_sizes = Sizes{shape("input")};
  }
  return MakeProblem(spec);
}

TEST(OwnError, OfRealGradients) {
  std::ifstream file(kReal + "cases.json");
  const Json layers = Json::parse(file)["cases"];
  std::vector<double> errors;
  double pointwise = 0;
  for (const Json& layer : layers) {
    if (layer["dtype"] != "float32") continue;
    for (const Json& run : layer["runs"]) {
      const Problem problem = RealProblem(layer, run);
      const auto read = [&](Role role) {
        return ReadNpy(kReal + layer["files"][NameOf(role)].get<std::string>(), {}).tensor;
      };
      const OpInfo& op = InfoOf(problem.op);
      const Operands operands = {read(op.operands[0]), read(op.operands[1])};
      const std::vector<double> of_run = ErrorsOf(problem, operands);
      std::ranges::copy(of_run, std::back_inserter(errors));
      const Tensor result = Compute(problem, operands.first, operands.second, Execution{});
      EXPECT_EQ(CheckOwn(problem, operands, result).status, Verdict::kPassed) << layer["name"];
      if (layer["name"] == "photos_block3_pointwise" && run.contains("filter_sizes")) {
        pointwise = *std::ranges::max_element(of_run);
      }
    }
  }
  Report("real", std::move(errors));
  // The pages name it as the worst that real data gave.
  EXPECT_NEAR(pointwise, 20.3, 0.05);
}

}  // namespace
}  // namespace convgrad
