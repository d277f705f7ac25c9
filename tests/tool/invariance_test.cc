// `check --invariance` and `--actual-parts` end to end: whose bits are compared, what is said, what
// is refused.
#include <cmath>
#include <string>
#include <vector>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

const std::string kProblem =
    "conv2d --padding SAME --input fill:normal@4,6,6,4 --filter fill:normal@3,3,4,4 ";
constexpr int64_t kImageSize = 6 * 6 * 4;

class InvarianceTest : public CliTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(Sh("convgrad run " + kProblem + "--output whole.npy").exit_code, 0);
    whole_ = ReadFloats("whole.npy");
    WritePart("a.npy", 0, 1, whole_);
    WritePart("b.npy", 1, 4, whole_);
  }
  void WritePart(const std::string& name, int64_t begin, int64_t end,
                 const std::vector<float>& whole) {
    WriteFloats(name, {end - begin, 6, 6, 4},
                {whole.begin() + begin * kImageSize, whole.begin() + end * kImageSize});
  }
  // Runs the check, validates its report and returns the entry.
  nlohmann::json Entry(const std::string& flags, int exit_code,
                       const std::string& problem = kProblem) {
    const ShellResult result = Sh("convgrad check " + problem + flags + " --report r.json");
    EXPECT_EQ(result.exit_code, exit_code) << flags << "\n" << result.out << result.err;
    return Report()["benchmarks"][0];
  }

  std::vector<float> whole_;
};

TEST_F(InvarianceTest, OfThisProgramsOwn) {
  const nlohmann::json entry = Entry("--invariance", 0);
  EXPECT_EQ(entry["status"], "PASSED");
  EXPECT_EQ(entry["invariance"]["status"], "PASSED");
  EXPECT_EQ(entry["check"]["status"], "PASSED");
  EXPECT_FALSE(Entry("", 0).contains("invariance"));
  EXPECT_THAT(Sh("convgrad check " + kProblem + "--invariance").out,
              HasSubstr("PASSED  every image alone against the batch\n"
                        "  reason            each of the 4 images has the same bits alone and in "
                        "the batch (bits)"));
}

TEST_F(InvarianceTest, OfAnothersParts) {
  EXPECT_EQ(Entry("--actual whole.npy --actual-parts a.npy,b.npy", 0)["invariance"]["status"],
            "PASSED");
  const nlohmann::json inputs =
      Entry("--actual whole.npy --actual-parts a.npy,b.npy --invariance", 0)["inputs"];
  ASSERT_EQ(inputs.size(), 2);
  EXPECT_EQ(Entry("--actual whole.npy --actual-parts whole.npy", 0)["status"], "PASSED");

  // Off by one ULP, in two elements of image 2: right as values, not invariant.
  std::vector<float> other = whole_;
  other[2 * kImageSize + 5] = std::nextafter(other[2 * kImageSize + 5], 1e9F);
  other[2 * kImageSize + 9] = std::nextafter(other[2 * kImageSize + 9], 1e9F);
  WritePart("b.npy", 1, 4, other);
  const nlohmann::json failed = Entry("--actual whole.npy --actual-parts a.npy,b.npy", 1);
  EXPECT_EQ(failed["status"], "FAILED");
  EXPECT_EQ(failed["check"]["status"], "PASSED");
  EXPECT_EQ(failed["invariance"]["counts"]["fail"], 2);
  EXPECT_EQ(failed["invariance"]["reason"],
            "image 2 has other bits in its part than in the batch: 2 of its 144 elements differ, "
            "first [2,0,1,1]; 1 of 4 images differ");
  EXPECT_THAT(failed["invariance"]["where"]["text"].get<std::string>(), HasSubstr("image"));

  EXPECT_EQ(Entry("--actual whole.npy --actual-parts a.npy", 1)["invariance"]["reason"],
            "incomparable");
  EXPECT_EQ(Entry("--actual whole.npy --actual-parts a.npy,c.npy", 4)["error"]["code"],
            "io/not-found");
}

TEST_F(InvarianceTest, RefusesWhatHasNoImages) {
  const auto code = [&](const std::string& flags, const std::string& problem = kProblem) {
    return Entry(flags, 2, problem)["error"]["code"].get<std::string>();
  };
  const std::string sum =
      "conv2d_backprop_filter --padding SAME --input fill:normal@4,6,6,4 --filter-sizes 3,3,4,4 "
      "--out-backprop fill:normal ";
  EXPECT_EQ(code("--invariance", sum), "invariance/sum");
  EXPECT_EQ(code("--actual whole.npy --actual-parts a.npy", sum), "invariance/sum");
  EXPECT_EQ(code("--actual whole.npy --invariance"), "invariance/parts");
  EXPECT_EQ(code("--actual-parts a.npy"), "flag/no-effect");
  EXPECT_EQ(code("--actual whole.npy --actual-parts a.npy,,b.npy"), "flag/value");
  EXPECT_EQ(code("--actual whole.npy --actual-parts a.npy,-"), "flag/value");
  EXPECT_EQ(code("--invariance",
                 "conv2d --padding SAME --input fill:ones@1,6,6,4 --filter fill:ones@3,3,4,4 "),
            "invariance/one-image");
  // A part that would be overwritten.
  const ShellResult same = Sh("convgrad check " + kProblem +
                              "--actual whole.npy --actual-parts a.npy,b.npy --output b.npy");
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_THAT(same.err, HasSubstr("--actual-parts"));
}

TEST_F(InvarianceTest, InManifests) {
  WriteBytes(Path("cases.json"), R"({"schema": "convgrad-manifest/1", "defaults": {"op": "conv2d",
    "padding": "SAME", "input": {"fill": "normal", "shape": [4,6,6,4]},
    "filter": {"fill": "normal", "shape": [3,3,4,4]}}, "cases": [
    {"name": "own", "invariance": true, "actual": "whole.npy", "actual_parts": ["a.npy", "b.npy"]},
    {"name": "one file", "actual": "whole.npy", "actual_parts": "whole.npy"}]})");
  const std::string batch = "convgrad batch cases.json --events e.jsonl --report r.json";
  const ShellResult first = Sh(batch);
  EXPECT_EQ(first.exit_code, 0) << first.out << first.err;
  EXPECT_EQ(Report()["benchmarks"][0]["invariance"]["status"], "PASSED");
  EXPECT_THAT(Sh(batch + " --resume").out, HasSubstr("2 from an earlier run"));
  // A part that changed is looked at again.
  std::vector<float> other = whole_;
  other[0] += 1;
  WritePart("a.npy", 0, 1, other);
  const ShellResult again = Sh(batch + " --resume");
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.out + again.err, HasSubstr("image 0 has other bits"));
  WriteBytes(Path("cases.json"), R"({"schema": "convgrad-manifest/1", "cases": [{"name": "none",
    "op": "conv2d", "padding": "SAME", "input": "fill:normal@4,6,6,4",
    "filter": "fill:normal@3,3,4,4", "actual": "whole.npy", "actual_parts": []}]})");
  EXPECT_EQ(Sh("convgrad batch cases.json").exit_code, 2);
}

}  // namespace
}  // namespace convgrad::testing
