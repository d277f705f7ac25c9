// Every case of TensorFlow's own tests on these ops, as data/tf_cases.json has them: computed
// exactly or refused with the right class of error, in each type and both layouts.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "conv/compute.h"
#include "problem/geometry.h"

namespace convgrad {
namespace {

using Json = nlohmann::json;

const Json& AllCases() {
  static const Json cases = [] {
    std::ifstream file(CONVGRAD_SOURCE_DIR "/tests/data/tf_cases.json");
    return Json::parse(file);
  }();
  return cases;
}

// A fill by the rules of tests/data/README.md, read once for millions of elements.
class Fill {
 public:
  explicit Fill(const Json& fill) {
    const std::string rule = fill["rule"];
    if (rule == "arange") {
      start_ = fill["start"];
      step_ = fill["step"];
    } else if (rule == "const") {
      start_ = fill["value"];
    } else if (rule == "values") {
      values_ = fill["values"].get<std::vector<double>>();
    } else {
      seed_ = fill["seed"];
      mod_ = fill["mod"];
      sub_ = fill["sub"];
    }
  }

  double operator[](int64_t i) const {
    if (!values_.empty()) return values_[static_cast<size_t>(i)];
    if (mod_ == 0) return start_ + step_ * static_cast<double>(i);
    uint32_t hash = (static_cast<uint32_t>(i) + seed_) * 0x9E3779B1u;
    hash ^= hash >> 15;
    hash *= 0x85EBCA77u;
    hash ^= hash >> 13;
    return static_cast<double>(hash % mod_) - sub_;
  }

 private:
  double start_ = 0, step_ = 0, sub_ = 0;
  std::vector<double> values_;
  uint32_t seed_ = 0, mod_ = 0;  // mod_: 0 where nothing is hashed
};

// Numbers of an attribute; those beyond 64 bits become the largest.
std::vector<int64_t> Numbers(const Json& json) {
  std::vector<int64_t> numbers;
  for (const Json& number : json) {
    const bool too_large =
        number.is_number_unsigned() && number.get<uint64_t>() > std::numeric_limits<int64_t>::max();
    numbers.push_back(too_large ? std::numeric_limits<int64_t>::max() : number.get<int64_t>());
  }
  return numbers;
}

constexpr std::array<int, 4> kToNchw = {0, 3, 1, 2};

// 4 values in the order of NHWC, or 8 as pairs, in the order of NCHW. Others stay.
std::vector<int64_t> ToNchw(const std::vector<int64_t>& values) {
  std::vector<int64_t> permuted = values;
  if (values.size() == 4) {
    for (int i = 0; i < 4; ++i) permuted[i] = values[kToNchw[i]];
  }
  if (values.size() == 8) {
    for (int i = 0; i < 8; ++i) permuted[i] = values[2 * kToNchw[i / 2] + i % 2];
  }
  return permuted;
}

// One run of a case: in a type, and perhaps in NCHW though the case is written in NHWC.
struct Run {
  const Json& json;
  DType dtype;
  bool to_nchw;

  std::vector<int64_t> InOrder(std::vector<int64_t> values) const {
    return to_nchw ? ToNchw(values) : values;
  }
};

std::optional<Sizes> SizesOf(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  if (json[key].is_array()) return Sizes{Numbers(json[key])};
  return Sizes{{}, /*from_file=*/true};  // a tensor that is no vector
}

ConvSpec SpecOf(const Run& run) {
  const Json& json = run.json;
  ConvSpec spec;
  spec.op = ParseOp(json["op"].get<std::string>());
  spec.dtype = run.dtype;
  const bool is_nchw = json["data_format"] == "NCHW" || run.to_nchw;
  spec.data_format = is_nchw ? DataFormat::kNCHW : DataFormat::kNHWC;
  spec.padding = json["padding"] == "SAME"    ? Padding::kSame
                 : json["padding"] == "VALID" ? Padding::kValid
                                              : Padding::kExplicit;
  spec.strides = run.InOrder(Numbers(json["strides"]));
  spec.dilations = run.InOrder(Numbers(json["dilations"]));
  if (json.contains("explicit_paddings")) {
    spec.explicit_paddings = run.InOrder(Numbers(json["explicit_paddings"]));
  }
  if (json.contains("input")) spec.input = run.InOrder(Numbers(json["input"]["shape"]));
  if (json.contains("filter")) spec.filter = Numbers(json["filter"]["shape"]);
  if (json.contains("out_backprop")) {
    spec.out_backprop = run.InOrder(Numbers(json["out_backprop"]["shape"]));
  }
  spec.input_sizes = SizesOf(json, "input_sizes");
  if (spec.input_sizes) spec.input_sizes->values = run.InOrder(spec.input_sizes->values);
  spec.filter_sizes = SizesOf(json, "filter_sizes");
  return spec;
}

// The position in NCHW of an element of an NHWC tensor of `shape`.
int64_t NchwIndex(int64_t i, const std::vector<int64_t>& shape) {
  const int64_t h = shape[1], w = shape[2], c = shape[3];
  const int64_t channel = i % c, col = i / c % w, row = i / (c * w) % h, image = i / (c * w * h);
  return ((image * c + channel) * h + row) * w + col;
}

struct Operand {
  Tensor tensor;
  bool is_exact = true;  // no value was rounded to the type
};

Operand MakeOperand(const Run& run, Role role) {
  const Json& json = run.json[NameOf(role)];
  const std::vector<int64_t> shape = Numbers(json["shape"]);
  const bool permuted = run.to_nchw && role != Role::kFilter;
  Operand operand{Tensor(run.dtype, permuted ? ToNchw(shape) : shape)};
  const Fill fill(json["fill"]);
  VisitFloat(run.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored* data = operand.tensor.mutable_data<Stored>();
    for (int64_t i = 0; i < operand.tensor.num_elements(); ++i) {
      const double value = fill[i];
      const Stored stored = Narrow<Stored>(value);
      operand.is_exact &= Widen(stored) == value;
      data[permuted ? NchwIndex(i, shape) : i] = stored;
    }
  });
  return operand;
}

bool IsFilterGradient(const Run& run) {
  return InfoOf(ParseOp(run.json["op"].get<std::string>())).direction == Direction::kBackpropFilter;
}

// The result in the order of NHWC.
std::vector<double> Values(const Run& run, const Tensor& tensor) {
  const std::vector<int64_t> shape = Numbers(run.json["result"]["shape"]);
  const bool permuted = run.to_nchw && !IsFilterGradient(run);
  std::vector<double> values(static_cast<size_t>(tensor.num_elements()));
  VisitFloat(run.dtype, [&](auto tag) {
    const auto* data = tensor.data<typename decltype(tag)::Type>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = Widen(data[permuted ? NchwIndex(static_cast<int64_t>(i), shape) : i]);
    }
  });
  return values;
}

// Half the distance from 1 to the next number.
double RoundoffOf(DType dtype) {
  return std::ldexp(1.0, -InfoOf(dtype).fraction_bits - 1);
}

class Expectation {
 public:
  Expectation(const Run& run, bool operands_are_exact)
      : result_(run.json["result"]), dtype_(run.dtype), roundoff_(RoundoffOf(run.dtype)) {
    const double largest = result_["abs_sum_max"];
    sums_are_exact_ =
        operands_are_exact &&
        largest < (run.dtype == DType::kFloat64 ? std::ldexp(1.0, 53) : std::ldexp(1.0, 24));
    // Then the values need no rounding to the type either, so sums over them are exact too.
    values_are_exact_ = sums_are_exact_ && largest * roundoff_ <= 1;
    const double accumulation = run.dtype == DType::kFloat64 ? roundoff_ : std::ldexp(1.0, -24);
    tolerance_ = largest * (accumulation * (result_["terms_max"].get<double>() + 2) +
                            (operands_are_exact ? 0 : 3 * roundoff_));
  }

  void CheckValue(double actual, double expected) const {
    const double stored = Rounded(expected);
    if (sums_are_exact_) {
      EXPECT_EQ(actual, stored);
    } else if (std::isfinite(stored)) {
      EXPECT_NEAR(actual, expected, tolerance_ + roundoff_ * std::abs(expected));
    }
  }

  void CheckAll(const std::vector<double>& values) const {
    if (result_.contains("values")) {
      const Json& expected = result_["values"];
      ASSERT_EQ(values.size(), expected.size());
      for (size_t i = 0; i < values.size(); ++i) CheckValue(values[i], expected[i]);
      return;
    }
    for (const Json& probe : result_["probes"]) {
      CheckValue(values.at(probe[0].get<size_t>()), probe[1]);
    }
    if (values_are_exact_) CheckSums(values);
  }

 private:
  double Rounded(double value) const {
    return VisitFloat(dtype_,
                      [&](auto tag) { return Widen(Narrow<typename decltype(tag)::Type>(value)); });
  }

  void CheckSums(const std::vector<double>& values) const {
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += values[i];
      weighted += values[i] * static_cast<double>(i % 1021 + 1);
    }
    EXPECT_EQ(sum, result_["sum"].get<double>());
    EXPECT_EQ(weighted, result_["wsum"].get<double>());
  }

  const Json& result_;
  const DType dtype_;
  const double roundoff_;
  bool sums_are_exact_, values_are_exact_;
  double tolerance_;
};

void CheckRefused(const Run& run) {
  try {
    const Problem problem = MakeProblem(SpecOf(run));
    ADD_FAILURE() << "not refused: " << problem.ToLine();
  } catch (const Error& error) {
    const bool is_usage = run.json["refused"] == "usage";
    EXPECT_EQ(error.exit_code(), is_usage ? ExitCode::kUsage : ExitCode::kData) << error.what();
  }
}

void CheckComputed(const Run& run) {
  const Problem problem = MakeProblem(SpecOf(run));
  SCOPED_TRACE(problem.ToLine());
  const OpInfo& info = InfoOf(problem.op);
  const std::vector<int64_t> shape = Numbers(run.json["result"]["shape"]);
  ASSERT_EQ(problem.ResultShape(), IsFilterGradient(run) ? shape : run.InOrder(shape));
  EXPECT_EQ(problem.MaxTerms(), run.json["result"]["terms_max"].get<int64_t>());
  const Operand first = MakeOperand(run, info.operands[0]);
  const Operand second = MakeOperand(run, info.operands[1]);
  const Tensor result = Compute(problem, first.tensor, second.tensor, Execution{});
  Expectation(run, first.is_exact && second.is_exact).CheckAll(Values(run, result));
}

void CheckRun(const Run& run) {
  SCOPED_TRACE(run.json["id"].get<std::string>() + " " + InfoOf(run.dtype).name +
               (run.to_nchw ? " as NCHW" : ""));
  if (run.json.contains("refused")) {
    CheckRefused(run);
  } else {
    CheckComputed(run);
  }
}

// The cases are dealt to a few tests, which can run side by side.
constexpr int kShares = 8;

class TensorFlowCases : public ::testing::TestWithParam<int> {};

TEST_P(TensorFlowCases, AreComputedOrRefused) {
  const Json& cases = AllCases();
  for (size_t i = GetParam(); i < cases.size(); i += kShares) {
    for (const Json& name : cases[i]["dtypes"]) {
      const DType dtype = ParseDType(name.get<std::string>()).value();
      CheckRun({cases[i], dtype, /*to_nchw=*/false});
      if (cases[i].contains("also_nchw")) CheckRun({cases[i], dtype, /*to_nchw=*/true});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, TensorFlowCases, ::testing::Range(0, kShares));

TEST(TensorFlowCasesFile, IsComplete) {
  EXPECT_EQ(AllCases().size(), 572u);
}

}  // namespace
}  // namespace convgrad
