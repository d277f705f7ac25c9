// Cases as calls: the result and the verdict of tensors in memory, and errors that name arguments.
#include "cli/case/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "problem/geometry.h"
#include "support/operands.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const Problem kProblem = ParseProblem(
    "conv2d_backprop_filter float32 NHWC in=2,9,9,4 filter=3,3,4,8 strides=1,1 dilations=1,1 "
    "pads=1,1,1,1 padding=SAME");

Tensor Numbers(const Shape& shape, uint64_t seed, DType dtype = DType::kFloat32) {
  return testing::RandomTensor(dtype, shape, seed, testing::Values::kOrdinary);
}

Call CallOf(const Tensor& input, const Tensor& out_backprop) {
  return {"conv2d_backprop_filter",
          {{"filter_sizes", "[3,3,4,8]"}, {"padding", "SAME"}, {"strides", "1"}},
          {{"input", input}, {"out_backprop", out_backprop}}};
}

class CallTest : public ::testing::Test {
 protected:
  const Tensor input_ = Numbers(kProblem.InputShape(), 1);
  const Tensor out_backprop_ = Numbers(kProblem.OutputShape(), 2);
  Call call_ = CallOf(input_, out_backprop_);

  // The words of the error that `arguments` beside the call's own lead to.
  Error ErrorWith(std::vector<std::pair<std::string, std::string>> arguments) {
    Call call = call_;
    for (auto& argument : arguments) call.arguments.push_back(std::move(argument));
    try {
      ComputeCall(call);
    } catch (const Error& error) {
      return error;
    }
    return Error(ExitCode::kOk, "none", "", "no error");
  }
};

TEST_F(CallTest, ComputesWhatTheLibraryDoes) {
  const Tensor wanted = Compute(kProblem, input_, out_backprop_, {});
  EXPECT_EQ(DataHash(ComputeCall(call_)), DataHash(wanted));
  call_.arguments.emplace_back("threads", "1");
  EXPECT_EQ(DataHash(ComputeCall(call_)), DataHash(wanted));
}

TEST_F(CallTest, JudgesATensorInMemory) {
  Tensor result = ComputeCall(call_);
  call_.tensors.emplace_back("actual", result);
  const CallVerdict right = CheckCall(call_, /*keep_errors=*/true);
  EXPECT_EQ(right.entry.check->status, Verdict::kPassed);
  EXPECT_EQ(right.entry.check->errors->shape(), kProblem.ResultShape());
  EXPECT_THAT(right.text, StartsWith("PASSED  conv2d_backprop_filter float32"));
  result.mutable_data<float>()[5] += 1;
  const CallVerdict wrong = CheckCall(call_, /*keep_errors=*/false);
  EXPECT_EQ(wrong.entry.check->status, Verdict::kFailed);
  EXPECT_EQ(wrong.entry.check->counts.fail, 1);
  EXPECT_FALSE(wrong.entry.check->errors);
}

TEST_F(CallTest, ErrorsNameArgumentsAndKeepTheFix) {
  const Error strides = ErrorWith({{"dilations", "[1,2,3]"}});
  EXPECT_EQ(strides.code(), "attribute/dilations");
  EXPECT_THAT(strides.message(), StartsWith("dilations [1,2,3]: "));
  EXPECT_THAT(strides.fix(), StartsWith("give 1, 2"));
  const Error format = ErrorWith({{"data_format", "NCWH"}});
  EXPECT_THAT(format.message(), HasSubstr("data_format"));
  EXPECT_THAT(format.message(), Not(HasSubstr("--")));
  EXPECT_EQ(ErrorWith({{"stride", "1"}}).code(), "flag/unknown");
  EXPECT_EQ(ErrorWith({{"max_memory", "1"}}).code(), "memory/limit");
}

TEST_F(CallTest, OperandsThatDisagreeAreRefused) {
  call_.tensors[1].second = Numbers(kProblem.OutputShape(), 2, DType::kFloat64);
  EXPECT_EQ(ErrorWith({}).code(), "operand/dtype");
  call_.tensors.pop_back();
  EXPECT_EQ(ErrorWith({}).code(), "operand/missing");
}

TEST(NameArgumentsTest, FlagsBecomeArguments) {
  EXPECT_EQ(NameArguments("raise --max-memory, or --threads"), "raise max_memory, or threads");
  EXPECT_EQ(NameArguments("a--b, --no-such-flag and --"), "a--b, --no-such-flag and --");
}

}  // namespace
}  // namespace convgrad::cli
