// `.npz` and `.safetensors` wherever a tensor's path may stand.

#include "files/tensor_file.h"
#include "support/archives.h"
#include "support/batch_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kForward = "conv2d --padding VALID ";
constexpr const char* kFilterGradient = "conv2d_backprop_filter --padding VALID ";

class TensorFilesTest : public BatchTest {
 protected:
  // A 3x3 image, a 2x2 filter, the gradient of a VALID convolution, its filter gradient and sizes,
  // each of them in all.npz.
  void SetUp() override {
    const std::string sizes = NpyHeaderBytes(DType::kInt64, {4}) + SizesData();
    WriteBytes(Path("all.npz"),
               ZipOf({DeflatedMember("x.npy", NpyOf({1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9})),
                      Stored("w.npy", NpyOf({2, 2, 1, 1}, {1, 2, 3, 4})),
                      Stored("dy.npy", NpyOf({1, 2, 2, 1}, {1, 10, 100, 1000})),
                      Stored("sizes.npy", sizes),
                      DeflatedMember("dw.npy", NpyOf({2, 2, 1, 1}, {5421, 6532, 8754, 9865}))}));
    WriteFloats("y.npy", {1, 2, 2, 1}, {37, 47, 67, 77});
  }
  static std::string SizesData() {
    const int64_t sizes[] = {2, 2, 1, 1};
    return std::string(reinterpret_cast<const char*>(sizes), sizeof(sizes));
  }
  ShellResult Ok(const std::string& command) const {
    const ShellResult result = Sh(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.out << result.err;
    return result;
  }
  ShellResult Fails(int exit_code, const std::string& command) const {
    const ShellResult result = Sh(command);
    EXPECT_EQ(result.exit_code, exit_code) << command << "\n" << result.out << result.err;
    return result;
  }
};

// Its reader would wait for the pipe for ever.
TEST_F(TensorFilesTest, AdviceOnPaddingReadsNoStream) {
  for (const char* flags : {"--input -:x --filter all.npz:w", "--input all.npz:x --filter -",
                            "--input /dev/stdin --filter -:w"}) {
    const ShellResult result = Fails(2, std::string("mkfifo p; timeout 30 convgrad run conv2d ") +
                                            flags + " <>p; e=$?; rm p; exit $e");
    EXPECT_THAT(result.err,
                HasSubstr("--padding: it has no default; give SAME, VALID or EXPLICIT"));
  }
}

TEST_F(TensorFilesTest, OperandsComeFromAnArchive) {
  Ok(std::string("convgrad run ") + kForward +
     "--input all.npz:x --filter all.npz:w --output y2.npy --report r.json");
  EXPECT_THAT(ReadFloats("y2.npy"), ElementsAre(37, 47, 67, 77));
  EXPECT_EQ(Report()["benchmarks"][0]["inputs"][0]["path"], "all.npz:x");
  Ok(std::string("convgrad check ") + kFilterGradient +
     "--input all.npz:x --out-backprop all.npz:dy --filter-sizes all.npz:sizes "
     "--expect all.npz:dw");
  Ok(std::string("convgrad check ") + kFilterGradient +
     "--input all.npz:x --out-backprop all.npz:dy --filter-sizes 2,2,1,1 --actual all.npz:dw");
  Fails(1, std::string("convgrad check ") + kFilterGradient +
               "--input all.npz:x --out-backprop all.npz:dy --filter-sizes 2,2,1,1 "
               "--expect all.npz:w");
}

TEST_F(TensorFilesTest, OnePipeHasSeveralOperands) {
  const std::string flags = "--input -:x --out-backprop -:dy --filter-sizes -:sizes --expect -:dw";
  Ok(std::string("cat all.npz | convgrad check ") + kFilterGradient + flags);
  Ok(std::string("convgrad check ") + kFilterGradient + flags + " <all.npz");
  Ok("cat all.npz | convgrad diff -:dw -:dw");
  Fails(1, "cat all.npz | convgrad diff -:dw -:w");
  EXPECT_THAT(Ok("cat all.npz | convgrad inspect - -:w").out, HasSubstr("tensors      5"));
  EXPECT_THAT(Fails(3, "cat y.npy | convgrad inspect -:y").err, HasSubstr("without a name"));
  EXPECT_THAT(Fails(3, "cat all.npz | convgrad inspect -:q").err,
              HasSubstr("it holds x, w, dy, sizes, dw"));
  EXPECT_THAT(Fails(2, "cat all.npz | convgrad diff - -:w").err, HasSubstr("-:a -:b"));
  EXPECT_THAT(Fails(2, std::string("cat all.npz | convgrad run ") + kForward +
                           "--input -:x --filter - --output z.npy")
                  .err,
              HasSubstr("--input -:x and --filter -: only one can come"));
}

TEST_F(TensorFilesTest, InspectListsTensors) {
  const std::string list = Ok("convgrad inspect all.npz").out;
  EXPECT_THAT(list, HasSubstr("tensors      5"));
  EXPECT_THAT(list,
              HasSubstr("  all.npz:x\n    float32 [1,3,3,1] (descr '<f4', format 1.0, deflated)"));
  EXPECT_THAT(list, HasSubstr("  all.npz:sizes\n    int64 [4]"));
  EXPECT_THAT(Ok("convgrad inspect all.npz:w").out, HasSubstr("1 to 4, mean 2.5"));
  WriteBytes(Path("one.npz"), ForeignFile("one.npz"));
  EXPECT_THAT(Ok("convgrad inspect one.npz").out, HasSubstr("one.npz:arr_0\n  type"));
  ZipMember bad = Stored("b\x1b[1m.npy", "");
  bad.flags = 1;
  WriteBytes(Path("bad.npz"), ZipOf({Stored("a.npy", NpyOf({1}, {1})), bad}));
  const std::string partly = Ok("convgrad inspect bad.npz").out;
  EXPECT_THAT(partly, HasSubstr("can't be read: npz/encrypted"));
  EXPECT_THAT(partly, Not(HasSubstr("\x1b")));
}

TEST_F(TensorFilesTest, ResultsAreWrittenAsSafetensors) {
  const std::string run =
      std::string("convgrad run ") + kForward + "--input all.npz:x --filter all.npz:w --output ";
  Ok(run + "y.safetensors");
  EXPECT_THAT(OpenTensorFile(Path("y.safetensors")).container->names(), ElementsAre("output"));
  Ok("convgrad diff y.safetensors y.npy");
  Ok(run + "y.safetensors:conv1/out");
  EXPECT_THAT(OpenTensorFile(Path("y.safetensors")).container->names(), ElementsAre("conv1/out"));
  Ok("convgrad diff y.safetensors:conv1/out y.npy");
  EXPECT_THAT(Fails(4, run + "y.safetensors --no-clobber").err, HasSubstr("remove it"));
  EXPECT_THAT(Fails(2, run + "y.npz").err, HasSubstr("write a .npy or a .safetensors"));
  EXPECT_THAT(Fails(2, run + "y.safetensors:").err, HasSubstr("the name is empty"));
  EXPECT_THAT(Fails(2, run + "-:y").err, HasSubstr("has no names"));
  EXPECT_FALSE(Exists("y.npz"));
  Ok("convgrad gen --fill normal --shape 2,2,1,1 --dtype bfloat16 --role filter "
     "--output w.safetensors");
  EXPECT_THAT(Ok("convgrad inspect w.safetensors").out,
              HasSubstr("w.safetensors:filter\n  type         bfloat16 (BF16"));
  // Typed at last: no --dtype is needed.
  Ok(std::string("convgrad run ") + kForward +
     "--input fill:normal@1,3,3,1 --filter w.safetensors --output z.safetensors");
  EXPECT_THAT(Ok("convgrad inspect z.safetensors").out, HasSubstr("bfloat16"));
  Ok(std::string("convgrad check ") + kForward +
     "--input all.npz:x --filter all.npz:w --error-map e.safetensors");
  EXPECT_THAT(OpenTensorFile(Path("e.safetensors")).container->names(), ElementsAre("error"));
}

TEST_F(TensorFilesTest, NoOutputIsAnInput) {
  Ok(std::string("convgrad run ") + kForward +
     "--input all.npz:x --filter all.npz:w --output y.safetensors");
  EXPECT_THAT(Fails(2, std::string("convgrad run ") + kForward +
                           "--input y.safetensors:output --filter all.npz:w "
                           "--output ./y.safetensors:other")
                  .err,
              HasSubstr("inputs are never changed"));
}

TEST_F(TensorFilesTest, ManifestsNameThem) {
  const json one = {
      {"op", "conv2d"}, {"padding", "VALID"}, {"input", "all.npz:x"}, {"filter", "all.npz:w"}};
  WriteManifest(std::vector<json>{
      With(one, {{"name", "a"}, {"output", "a.safetensors:a"}, {"expect", "y.npy"}})});
  Ok("convgrad batch m.json");
  Ok("convgrad diff a.safetensors:a y.npy");
  // Two tensors of one output would be one file; a name may have what a path may not.
  WriteManifest(std::vector<json>{With(one, {{"name", "a"}, {"output", "a.safetensors:a"}}),
                                  With(one, {{"name", "b"}, {"output", "a.safetensors:b"}})});
  EXPECT_THAT(Fails(2, "convgrad batch m.json").err, HasSubstr("writes this file too"));
  WriteManifest(std::vector<json>{With(one, {{"name", "a"}, {"output", "a.safetensors:../../a"}})});
  Ok("convgrad batch m.json");
  WriteManifest(std::vector<json>{With(one, {{"name", "a"}, {"output", "../a.safetensors:a"}})});
  EXPECT_THAT(Fails(2, "convgrad batch m.json").err, HasSubstr("may not leave"));
  WriteManifest(std::vector<json>{With(one, {{"name", "a"}, {"output", "a.npz"}})});
  EXPECT_THAT(Fails(2, "convgrad batch m.json").err, HasSubstr("m.json:"));
  WriteManifest(std::vector<json>{With(one, {{"name", "a"}, {"input", "-:x"}})});
  EXPECT_THAT(Fails(2, "convgrad batch m.json <all.npz").err, HasSubstr("standard stream"));
  WriteManifest(
      std::vector<json>{With(one, {{"name", "a"}, {"output", "a.npy"}, {"expect", "all.npz:y"}})});
  EXPECT_THAT(Fails(3, "convgrad batch m.json").out, HasSubstr("there is no such tensor"));
}

TEST_F(TensorFilesTest, ResumeHoldsThem) {
  WriteManifest(std::vector<json>{{{"name", "a"},
                                   {"op", "conv2d"},
                                   {"padding", "VALID"},
                                   {"input", "all.npz:x"},
                                   {"filter", "all.npz:w"},
                                   {"output", "a.safetensors"},
                                   {"expect", "y.npy"}}});
  const std::string batch = "convgrad batch m.json --events e.jsonl --resume";
  Ok(batch);
  EXPECT_THAT(Ok(batch).out, HasSubstr("1 from an earlier run"));
  WriteBytes(Path("all.npz"), ZipOf({Stored("x.npy", NpyOf({1, 3, 3, 1}, std::vector<float>(9, 1))),
                                     Stored("w.npy", NpyOf({2, 2, 1, 1}, {1, 2, 3, 4}))}));
  EXPECT_THAT(Fails(1, batch).out, Not(HasSubstr("from an earlier run")));
}

TEST_F(TensorFilesTest, GoldensAreRecordedInFilesOfTheirOwn) {
  const json one = {{"name", "a"},
                    {"op", "conv2d"},
                    {"padding", "VALID"},
                    {"input", "all.npz:x"},
                    {"filter", "all.npz:w"}};
  const std::string record = "unset CI; convgrad batch m.json --record ";
  WriteManifest(std::vector<json>{With(one, {{"expect", "g.safetensors:y"}})});
  Ok(record);
  EXPECT_TRUE(Exists("g.safetensors.golden.json"));
  EXPECT_THAT(Ok("convgrad batch m.json").out, HasSubstr("1 PASSED"));
  WriteManifest(std::vector<json>{With(one, {{"expect", "other.npz:y"}})});
  EXPECT_THAT(Fails(2, record + "--force-record").out, HasSubstr("only read"));
  // A file of two tensors is no golden that may be replaced, nor left for review.
  WriteBytes(Path("two.safetensors"), ForeignFile("numpy.safetensors"));
  WriteManifest(std::vector<json>{With(one, {{"expect", "two.safetensors:x"}})});
  EXPECT_THAT(Fails(1, record + "--force-record").out, HasSubstr("would be lost"));
  EXPECT_EQ(ReadBytes(Path("two.safetensors")), ForeignFile("numpy.safetensors"));
  EXPECT_THAT(Fails(1, "convgrad batch m.json --write-pending p").err,
              HasSubstr("nothing is left for review"));
  EXPECT_FALSE(Exists("p"));
  // The result that is left takes the place of the golden, under its name.
  WriteManifest(std::vector<json>{With(one, {{"expect", "new.safetensors:y"}})});
  Fails(1, "convgrad batch m.json --write-pending p");
  Ok("unset CI; convgrad accept p");
  EXPECT_THAT(OpenTensorFile(Path("new.safetensors")).container->names(), ElementsAre("y"));
  EXPECT_THAT(Ok("convgrad batch m.json").out, HasSubstr("1 PASSED"));
  // Another name in that file is another tensor.
  WriteManifest(std::vector<json>{With(one, {{"expect", "new.safetensors:z"}})});
  EXPECT_THAT(Fails(1, record + "--force-record").out, HasSubstr("would be lost"));
  WriteManifest(std::vector<json>{With(one, {{"expect", "late.safetensors:y"}}),
                                  With(one, {{"name", "b"}, {"expect", "late.safetensors:z"}})});
  EXPECT_THAT(Fails(1, "convgrad batch m.json --jobs 1 --write-pending q").err,
              HasSubstr("late.safetensors:z: one of several in its file"));
  EXPECT_THAT(OpenTensorFile(Path("q/late.safetensors.new")).container->names(), ElementsAre("y"));
  // A golden that a case names by its tensor counts as named.
  WriteManifest(std::vector<json>{With(one, {{"expect", "new.safetensors:y"}})});
  Ok("convgrad prune m.json --delete");
  EXPECT_TRUE(Exists("new.safetensors"));
}

}  // namespace
}  // namespace convgrad::testing
