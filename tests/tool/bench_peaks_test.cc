// The cache of what the machine can do at best, which `bench` keeps.
#include <filesystem>
#include <functional>

#include "support/bench_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// A cache of peaks of its own, which begins with those that all tests share, and what a run says of
// them.
class PeaksCacheTest : public BenchTest {
 protected:
  void SetUp() override {
    BenchTest::SetUp();
    const std::string err = Ok(std::string(kCase) + "--verbose").err;
    const size_t path = err.find('/', err.find("peaks: "));
    ASSERT_NE(path, std::string::npos) << err;
    Sh("mkdir -p c/convgrad && cp '" + err.substr(path, err.find('\n', path) - path) +
       "' c/convgrad");
    Edit([](json& kept) {
      kept["peaks"]["confirmed"] = true;
      kept["settled"] = false;
    });
  }
  std::string Peaks(const std::string& before = "") {
    const ShellResult result = Sh("export XDG_CACHE_HOME=$PWD/c; " + before + " convgrad bench " +
                                  kCase + "--report r.json --verbose");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    out_ = result.out;
    return result.err.substr(result.err.find("peaks: "));
  }
  // Changes the only file of the cache.
  void Edit(const std::function<void(json&)>& change) {
    const std::string file = OnlyFile();
    json kept = json::parse(ReadBytes(file));
    change(kept);
    WriteBytes(file, kept.dump());
  }
  json Kept() const { return json::parse(ReadBytes(OnlyFile())); }
  // As a measurement would find them on a machine a hundredth as fast.
  static void Slow(json& kept) {
    for (json& rate : kept["peaks"]["gflops"]) rate = rate.get<double>() / 100;
    for (json& level : kept["peaks"]["bandwidth"]) {
      for (const char* key : {"read_gbs", "write_gbs"}) level[key] = level[key].get<double>() / 100;
    }
  }
  double ShareInReport() const {
    return Report()["benchmarks"][0]["roofline"]["share"].get<double>();
  }

  std::string out_;  // of the last run

 private:
  std::string OnlyFile() const {
    const std::filesystem::directory_iterator files(Path("c/convgrad"));
    return files->path().string();
  }
};

// peaks_fuzz shows which contents are refused.
TEST_F(PeaksCacheTest, ABrokenOrUnwritableOneDoesNoHarm) {
  Sh("mkdir .cache; cp -r c/convgrad .cache");
  EXPECT_THAT(Peaks("XDG_CACHE_HOME= HOME=$PWD"), HasSubstr("/.cache/convgrad/"));
  Sh("for f in c/convgrad/*; do echo '{\"schema\": \"convgrad-peaks/2\"' >$f; done");
  EXPECT_THAT(Peaks(), HasSubstr("kept in"));
  EXPECT_GT(ShareInReport(), 0);
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));
  EXPECT_THAT(Peaks("XDG_CACHE_HOME=/dev/null"), HasSubstr("not kept"));
  EXPECT_GT(ShareInReport(), 0);
}

TEST_F(PeaksCacheTest, OtherCpusHaveOtherPeaks) {
  const std::string on_one = OnOneCpu();
  if (on_one.empty() || Sh("nproc").out == "1\n") {
    GTEST_SKIP() << "there is but one CPU, or no taskset";
  }
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));
  EXPECT_THAT(Peaks(on_one + "env"), HasSubstr("kept in"));
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));
  EXPECT_THAT(Peaks(on_one + "env"), HasSubstr("peaks: from"));
}

TEST_F(PeaksCacheTest, AProvisionalMeasurementIsTakenAgain) {
  Edit([](json& kept) { kept["peaks"]["confirmed"] = false; });
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));  // what disturbed it may still be there
  EXPECT_THAT(out_, HasSubstr("provisional"));
  Sh("touch -d '11 minutes ago' c/convgrad/*");
  EXPECT_THAT(Peaks(), HasSubstr("peaks: measured"));
  Edit([](json& kept) { kept["peaks"]["confirmed"] = true; });
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));
  EXPECT_THAT(out_, Not(HasSubstr("provisional")));
}

TEST_F(PeaksCacheTest, OneThatAKernelContradictsIsTakenAgain) {
  Edit(Slow);
  const json slow = Kept();
  const std::string said = Peaks();
  EXPECT_THAT(said, HasSubstr("peaks: measured"));
  if (said.find("faster than") != std::string::npos) {
    GTEST_SKIP() << "other work keeps the peaks from being measured";
  }
  EXPECT_LT(ShareInReport(), 1.05);
  EXPECT_EQ(Report()["context"]["convgrad"]["peaks"]["measured"][0], Kept()["peaks"]);
  EXPECT_GT(Kept()["peaks"]["gflops"]["float32"],
            10 * slow["peaks"]["gflops"]["float32"].get<double>());
  EXPECT_FALSE(Kept()["settled"].get<bool>());
}

// Were they still too slow when they were measured again, it is not their fault.
TEST_F(PeaksCacheTest, SettledOnesStay) {
  Edit([](json& kept) {
    Slow(kept);
    kept["settled"] = true;
  });
  const json before = Kept();
  const std::string said = Peaks();
  EXPECT_THAT(said, Not(HasSubstr("peaks: measured")));
  EXPECT_THAT(said, HasSubstr("faster than the measured peaks allow"));
  EXPECT_GT(ShareInReport(), 1.05);
  EXPECT_EQ(Kept(), before);
}

}  // namespace
}  // namespace convgrad::testing
