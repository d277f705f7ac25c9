// Users say how a kernel under test computes, end to end: `check --actual` with
// --golden-accumulator, --operand-rounding and --odds.
#include <fmt/format.h>

#include "support/cli_testing.h"
#include "support/from_environment.h"
#include "verify/truth/float_format.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

// A filter gradient of 8,192 terms an element, whose operands are files of ours.
class OddsToolTest : public CliTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(Sh("convgrad gen --fill normal --shape 2,64,64,4 --role input --output x.npy && "
                 "convgrad gen --fill normal --shape 2,64,64,4 --role out_backprop --output g.npy")
                  .exit_code,
              0);
  }
  std::string Problem(const std::string& input, const std::string& out_backprop) const {
    return fmt::format(
        "conv2d_backprop_filter --padding SAME --input {} --out-backprop {} --filter-sizes "
        "1,1,4,4 ",
        input, out_backprop);
  }
  void Round(const std::string& from, const FloatFormat& format, const std::string& to) const {
    std::vector<float> values = ReadFloats(from);
    for (float& value : values) value = static_cast<float>(format.Rounded(value));
    WriteFloats(to, {2, 64, 64, 4}, values);
  }
  nlohmann::json Entry(const std::string& flags, int exit_code) const {
    const ShellResult result = Sh("convgrad check " + Problem("x.npy", "g.npy") +
                                  "--actual y.npy --report r.json " + flags);
    EXPECT_EQ(result.exit_code, exit_code) << flags << "\n" << result.out << result.err;
    return Report()["benchmarks"][0]["check"];
  }
};

TEST_F(OddsToolTest, RoundedOperandsPassWhereTheyAreMeant) {
  const FloatFormat formats[] = {kTf32Format, FormatOf(DType::kBFloat16),
                                 FormatOf(DType::kFloat16)};
  const char* const names[] = {"tf32", "bf16", "f16"};
  for (int i = 0; i < Rounds(3); ++i) {
    SCOPED_TRACE(names[i]);
    Round("x.npy", formats[i], "rx.npy");
    Round("g.npy", formats[i], "rg.npy");
    ASSERT_EQ(Sh("convgrad run " + Problem("rx.npy", "rg.npy") + "--output y.npy").exit_code, 0);
    const nlohmann::json wrong = Entry("", 1);
    EXPECT_EQ(wrong["status"], "FAILED");
    // By the odds, or of TF32's finer rounding by the mistake's name.
    EXPECT_LT(wrong["odds"]["at_most"], 1e-4);
    EXPECT_EQ(wrong["diagnosis"]["hypothesis"], "operands-rounded");
    const std::string flag = fmt::format("--operand-rounding {}", names[i]);
    const nlohmann::json meant = Entry(flag, 0);
    EXPECT_EQ(meant["status"], "PASSED");
    EXPECT_EQ(meant["odds"]["operands"], formats[i].name);
    const ShellResult shown =
        Sh("convgrad check " + Problem("x.npy", "g.npy") + "--actual y.npy " + flag);
    EXPECT_THAT(shown.out, HasSubstr(fmt::format("of operands rounded to {}", formats[i].name)));
    // A doubt about the rounded ones is as sharp as about others.
    std::vector<float> values = ReadFloats("y.npy");
    for (float& value : values) value += 0.05f;
    WriteFloats("y.npy", {1, 1, 4, 4}, values);
    EXPECT_EQ(Entry(flag, 1)["status"], "FAILED");
  }
}

TEST_F(OddsToolTest, OddsAreInTheReport) {
  ASSERT_EQ(Sh("convgrad run " + Problem("x.npy", "g.npy") + "--output y.npy").exit_code, 0);
  const nlohmann::json right = Entry("--odds 1e-9", 0);
  EXPECT_EQ(right["odds"]["limit"], 1e-9);
  EXPECT_EQ(right["odds"]["at_most"], 1);
  EXPECT_EQ(right["odds"]["accumulator"], "float32");
  EXPECT_EQ(right["odds"]["operands"], nullptr);
  std::vector<float> values = ReadFloats("y.npy");
  values[5] += 0.06f;  // about five sizes of sqrt(8192) * 2^-13 = 0.011
  WriteFloats("y.npy", {1, 1, 4, 4}, values);
  const nlohmann::json suspect = Entry("--odds 1e-200", 1);
  EXPECT_EQ(suspect["status"], "SUSPECT");
  EXPECT_EQ(Entry("--odds 1e-200 --allow-suspect", 0)["status"], "SUSPECT");
  EXPECT_EQ(Entry("--odds 0.5", 1)["status"], "FAILED");
}

}  // namespace
}  // namespace convgrad::testing
