// Results that TensorFlow computed: ours agree with every one of them as far as their own terms
// allow.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "tensor/npy.h"
#include "verify/compare/compare.h"

namespace convgrad {
namespace {

using Json = nlohmann::json;

const std::string kFolder = CONVGRAD_SOURCE_DIR "/data/golden/";

Json ReadCases() {
  std::ifstream file(kFolder + "cases.json");
  return Json::parse(file)["cases"];
}

Tensor ReadTensor(const Json& json, const char* key) {
  NpyReadOptions options;
  options.view_as = ParseDType(json["dtype"].get<std::string>());
  return ReadNpy(kFolder + json[key].get<std::string>(), options).tensor;
}

ConvSpec SpecOf(const Json& json, const Tensor& first, const Tensor& second) {
  ConvSpec spec;
  spec.op = ParseOp(json["op"].get<std::string>());
  spec.dtype = *ParseDType(json["dtype"].get<std::string>());
  spec.data_format = json["data_format"] == "NCHW" ? DataFormat::kNCHW : DataFormat::kNHWC;
  spec.padding = json["padding"] == "SAME"    ? Padding::kSame
                 : json["padding"] == "VALID" ? Padding::kValid
                                              : Padding::kExplicit;
  spec.strides = json["strides"].get<std::vector<int64_t>>();
  spec.dilations = json["dilations"].get<std::vector<int64_t>>();
  spec.explicit_paddings = json["explicit_paddings"].get<std::vector<int64_t>>();
  const auto set_shape = [&](Role role, const Shape& shape) {
    (role == Role::kInput    ? spec.input
     : role == Role::kFilter ? spec.filter
                             : spec.out_backprop) = shape;
  };
  set_shape(InfoOf(spec.op).operands[0], first.shape());
  set_shape(InfoOf(spec.op).operands[1], second.shape());
  if (json.contains("input_sizes")) {
    spec.input_sizes = Sizes{json["input_sizes"].get<std::vector<int64_t>>()};
  }
  if (json.contains("filter_sizes")) {
    spec.filter_sizes = Sizes{json["filter_sizes"].get<std::vector<int64_t>>()};
  }
  return spec;
}

// Kernels of mixed or unknown precision round to the type itself now and then.
DType AccumulatorOf(const Json& json) {
  const std::string accumulator = json["computed_by"]["accumulator"];
  if (accumulator == "f32") return DType::kFloat32;
  return *ParseDType(json["dtype"].get<std::string>());
}

CheckResult Check(const Json& json, const CompareOptions& options) {
  const OpInfo& op = InfoOf(ParseOp(json["op"].get<std::string>()));
  const Tensor first = ReadTensor(json, NameOf(op.operands[0]));
  const Tensor second = ReadTensor(json, NameOf(op.operands[1]));
  const Problem problem = MakeProblem(SpecOf(json, first, second));
  const Tensor actual = Compute(problem, first, second, Execution{});
  return CompareToGolden(problem, first, second, actual, ReadTensor(json, "expect"), options,
                         Parallel(2));
}

TEST(Golden, EveryOneIsWithinTheBoundOfItsData) {
  int passed = 0, suspect = 0;
  for (const Json& json : ReadCases()) {
    SCOPED_TRACE(json["name"].get<std::string>());
    CompareOptions options;
    options.golden_accumulator = AccumulatorOf(json);
    const CheckResult result = Check(json, options);
    EXPECT_NE(result.status, Verdict::kFailed) << result.reason << "; " << result.where;
    passed += result.status == Verdict::kPassed;
    suspect += result.status == Verdict::kSuspect;
  }
  EXPECT_EQ(passed + suspect, 87);
  EXPECT_LE(suspect, 2);
  RecordProperty("passed", passed);
  RecordProperty("suspect", suspect);
}

// Its maker is taken to have summed in float32 unless it is said: a golden that was summed in 16
// bits is FAILED then, by the odds if not by the bound, and told how such sums are accepted.
TEST(Golden, SumsInSixteenBitsFailUntilTheyAreSaidToBeMeant) {
  int failed = 0;
  for (const Json& json : ReadCases()) {
    SCOPED_TRACE(json["name"].get<std::string>());
    const CheckResult result = Check(json, CompareOptions{});
    if (result.status == Verdict::kPassed) continue;
    failed += result.status == Verdict::kFailed;
    const DType dtype = *ParseDType(json["dtype"].get<std::string>());
    EXPECT_EQ(InfoOf(dtype).bytes, 2) << result.reason;
    EXPECT_NE(AccumulatorOf(json), DType::kFloat32) << result.reason;
    EXPECT_NE(result.detail.find("--golden-accumulator"), std::string::npos) << result.detail;
  }
  EXPECT_GT(failed, 0);
  RecordProperty("failed", failed);
}

}  // namespace
}  // namespace convgrad
