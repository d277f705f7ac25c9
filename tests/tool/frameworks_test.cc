// Tensors, attributes and names as users of PyTorch, ONNX and JAX have them, end to end.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "support/cli_testing.h"
#include "tensor/tensor_hash.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

// Row-major elements of an array of `sizes`, with dimension order[i] as dimension i.
std::vector<float> Reordered(const std::vector<float>& values, const std::array<int64_t, 4>& sizes,
                             const std::array<size_t, 4>& order) {
  std::vector<float> reordered;
  std::array<int64_t, 4> index{};  // in the order of `sizes`
  for (index[order[0]] = 0; index[order[0]] < sizes[order[0]]; ++index[order[0]]) {
    for (index[order[1]] = 0; index[order[1]] < sizes[order[1]]; ++index[order[1]]) {
      for (index[order[2]] = 0; index[order[2]] < sizes[order[2]]; ++index[order[2]]) {
        for (index[order[3]] = 0; index[order[3]] < sizes[order[3]]; ++index[order[3]]) {
          const int64_t at =
              ((index[0] * sizes[1] + index[1]) * sizes[2] + index[2]) * sizes[3] + index[3];
          reordered.push_back(values[static_cast<size_t>(at)]);
        }
      }
    }
  }
  return reordered;
}

// A filter of 3 x 2, from 4 channels (depthwise: with multiplier 2; else in 2 groups) to 8.
struct FilterCase {
  const char* prefix;
  std::array<int64_t, 4> sizes;  // in TensorFlow's order
  const char* format;
  Shape shape;                  // in the format
  std::array<size_t, 4> order;  // of the dimensions in it
};
const FilterCase kFilterCases[] = {
    {"", {3, 2, 2, 8}, "OIHW", {8, 2, 3, 2}, {3, 2, 0, 1}},
    {"", {3, 2, 2, 8}, "OHWI", {8, 3, 2, 2}, {3, 0, 1, 2}},
    {"depthwise_", {3, 2, 4, 2}, "OIHW", {8, 1, 3, 2}, {2, 3, 0, 1}},
    {"depthwise_", {3, 2, 4, 2}, "OHWI", {8, 3, 2, 1}, {2, 3, 0, 1}},
};

class FrameworksTest : public CliTest {
 protected:
  std::string Run(const std::string& words, int exit_code = 0) {
    const ShellResult result = Sh("convgrad " + words);
    EXPECT_EQ(result.exit_code, exit_code) << words << "\n" << result.out << result.err;
    return exit_code == 0 ? result.out : result.out + result.err;
  }
  // The filter `name`.npy in TensorFlow's order, and `name`_other.npy in that of the case.
  void WriteOther(const FilterCase& one, const std::string& name) {
    WriteFloats(name + "_other.npy", one.shape,
                Reordered(ReadFloats(name + ".npy"), one.sizes, one.order));
  }
  static std::string Sizes(const auto& sizes) { return fmt::format("{}", fmt::join(sizes, ",")); }
};

TEST_F(FrameworksTest, FiltersInOtherFormatsGiveTheSameBits) {
  for (const FilterCase& one : kFilterCases) {
    SCOPED_TRACE(fmt::format("{} {}", one.prefix, one.format));
    Run(fmt::format("gen --fill normal --role filter --shape {} --output f.npy", Sizes(one.sizes)));
    WriteOther(one, "f");
    const std::string format = fmt::format(" --filter-format {}", one.format);
    for (const std::string& op :
         {fmt::format("run {}conv2d --input fill:normal@2,7,6,4 ", one.prefix),
          fmt::format("run {}conv2d_backprop_input --input-sizes 2,7,6,4 "
                      "--out-backprop fill:normal ",
                      one.prefix)}) {
      Run(op + "--filter f.npy --padding SAME --output y.npy");
      Run(op + "--filter f_other.npy --padding SAME --output z.npy" + format);
      EXPECT_EQ(ReadBytes(Path("y.npy")), ReadBytes(Path("z.npy")));
    }
    const std::string gradient = fmt::format(
        "{}conv2d_backprop_filter --input fill:normal@2,7,6,4 --out-backprop fill:normal --padding "
        "SAME --filter-sizes ",
        one.prefix);
    Run(fmt::format("run {}{} --output g.npy", gradient, Sizes(one.sizes)));
    WriteOther(one, "g");
    const std::string other = gradient + Sizes(one.shape) + format;
    Run(fmt::format("run {} --output z.npy", other));
    EXPECT_EQ(ReadBytes(Path("z.npy")), ReadBytes(Path("g_other.npy")));
    Run(fmt::format("check {} --expect g_other.npy --tolerance bits", other));
    Run(fmt::format("check {} --expect sha256:{}", other,
                    DataHash(ReadNpy(Path("g_other.npy")).tensor)));
  }
}

TEST_F(FrameworksTest, AGradientIsJudgedInItsFormat) {
  const std::string check =
      "check conv2d_backprop_filter --input fill:normal@2,7,6,4 --filter-sizes 8,2,3,2 "
      "--out-backprop fill:normal --padding SAME --filter-format OIHW --report r.json ";
  Run("run" + check.substr(5) + "--output g.npy");
  std::vector<float> values = ReadFloats("g.npy");
  values[5 * 12 + 1 * 6 + 2 * 2 + 1] += 1;  // [5,1,2,1]
  WriteFloats("g.npy", {8, 2, 3, 2}, values);
  EXPECT_THAT(Run(check + "--expect g.npy --error-map e.npy", 1), HasSubstr("[5,1,2,1]"));
  const nlohmann::json entry = Report()["benchmarks"][0];
  EXPECT_EQ(entry["check"]["worst"]["abs"]["index"], nlohmann::json({5, 1, 2, 1}));
  EXPECT_EQ(entry["problem"]["filter_format"], "OIHW");
  const std::vector<float> errors = ReadFloats("e.npy");
  EXPECT_EQ(ReadNpyHeader(Path("e.npy")).shape, Shape({8, 2, 3, 2}));
  EXPECT_GT(errors[5 * 12 + 1 * 6 + 2 * 2 + 1], 1);
}

TEST_F(FrameworksTest, AGoldenInAnotherFormatIsNamed) {
  const std::string common =
      "depthwise_conv2d_backprop_filter --input fill:normal@2,7,6,4 --out-backprop fill:normal "
      "--padding SAME --filter-sizes ";
  Run("run " + common + "3,2,4,2 --output ours.npy");
  Run("run " + common + "8,1,3,2 --filter-format OIHW --output torch.npy");
  EXPECT_THAT(Run("check " + common + "3,2,4,2 --expect torch.npy", 1),
              HasSubstr("float32 [3,2,4,2] against float32 [8,1,3,2]; it seems to be in OIHW "
                        "order: give --filter-format OIHW"));
  EXPECT_THAT(Run("check " + common + "8,1,3,2 --filter-format OIHW --expect ours.npy", 1),
              HasSubstr("float32 [8,1,3,2] against float32 [3,2,4,2]; it seems to be in HWIO "
                        "order: give --filter-format HWIO"));
  // The same numbers under the shape of the other.
  WriteFloats("ours.npy", {3, 2, 4, 2}, ReadFloats("torch.npy"));
  EXPECT_THAT(Run("check " + common + "3,2,4,2 --expect ours.npy", 1),
              HasSubstr("explained by      filter-depthwise-oihw"));
}

TEST_F(FrameworksTest, AFormatThatContradictsTheShapesIsRefused) {
  const std::string torch =
      "run depthwise_conv2d --input fill:normal@1,8,8,16 --filter fill:normal@16,1,3,3 --padding "
      "SAME";
  EXPECT_THAT(Run(torch, 3), HasSubstr("the shapes fit filter_format OIHW"));
  Run(torch + " --filter-format OIHW");
  EXPECT_THAT(Run(torch + " --filter-format OHWI", 3), HasSubstr("filter [16,1,3,3] (OHWI)"));
  EXPECT_THAT(Run(torch + " --filter-format IOHW", 2), HasSubstr("HWIO, OIHW, OHWI"));
}

TEST_F(FrameworksTest, RecordedGoldensKeepTheFormat) {
  WriteBytes(Path("m.json"), R"({"schema": "convgrad-manifest/1", "cases": [{
    "name": "torch", "op": "conv2d_backprop_filter", "input": {"fill": "normal", "shape": [2,7,6,4]},
    "filter_sizes": [8,2,3,2], "out_backprop": {"fill": "normal"}, "padding": "SAME",
    "filter_format": "OIHW", "expect": "g.npy"}]})");
  EXPECT_EQ(Sh("env -u CI convgrad batch m.json --record").exit_code, 0);
  EXPECT_EQ(ReadNpyHeader(Path("g.npy")).shape, Shape({8, 2, 3, 2}));
  Run("batch m.json");
  // By the record alone, too.
  EXPECT_EQ(Sh("rm g.npy").exit_code, 0);
  Run("batch m.json");
}

// --- attributes ---

TEST_F(FrameworksTest, PaddingIsNumbers) {
  const std::string run = "run conv2d --input fill:normal@2,7,6,4 --filter fill:normal@3,3,4,8 ";
  const auto same_as = [&](const std::string& padding, const std::string& explicit_paddings) {
    SCOPED_TRACE(padding);
    Run(run + "--padding EXPLICIT --explicit-paddings " + explicit_paddings + " --output y.npy");
    Run(run + "--padding '" + padding + "' --output z.npy --report r.json");
    EXPECT_EQ(ReadBytes(Path("z.npy")), ReadBytes(Path("y.npy")));
    EXPECT_EQ(Report()["benchmarks"][0]["problem"]["padding"], "EXPLICIT");
  };
  for (const std::string padding : {"1", "1,1", "(1, 1)", "[1,1,1,1]", "((1,1),(1,1))",
                                    "[[0, 0], [1, 1], [1, 1], [0, 0]]", "0,0,1,1,1,1,0,0"}) {
    same_as(padding, "1,1,1,1");
  }
  same_as("1,2", "1,1,2,2");
  same_as(
      "[[1,2],"
      "[0,3]]",
      "1,2,0,3");
  same_as("0", "0,0,0,0");
  EXPECT_THAT(Run(run + "--padding 1,2,3", 2), HasSubstr("--padding '1,2,3': has 3 numbers"));
  EXPECT_THAT(Run(run + "--padding '[[1,2]]'", 2), HasSubstr("has 1 pairs"));
  EXPECT_THAT(Run(run + "--padding -1", 2), HasSubstr("must not be negative"));
  EXPECT_THAT(Run(run + "--padding 1 --explicit-paddings 1,1,1,1", 2),
              HasSubstr("--padding 1 has the pads already"));
  EXPECT_THAT(Run(run + "--padding '[[1,1],[0,0],[0,0],[1,1]]'", 2),
              HasSubstr("must be 0 in the batch and channel dimensions"));
}

TEST_F(FrameworksTest, WordsAndListsAreTakenAsPasted) {
  Run("run conv2d --input 'fill:normal@2,7,6,4' --filter fill:normal@3,3,4,8 --strides '[1, 2, 2, "
      "1]' --dilations '(1, 1)' --padding same --data-format nhwc --filter-format hwio --dtype "
      "half "
      "--output y.npy");
  Run("run conv2d --input 'fill:normal@2,7,6,4' --filter fill:normal@3,3,4,8 --strides 2 --padding "
      "SAME --dtype float16 --output z.npy");
  EXPECT_EQ(ReadBytes(Path("y.npy")), ReadBytes(Path("z.npy")));
  EXPECT_THAT(Run("run conv2d --input fill:normal@2,7,6,4 --filter fill:normal@3,3,4,8 --padding "
                  "SAME --strides '[[1,2],[2,1]]'",
                  2),
              HasSubstr("has lists in a list"));
  Run("run conv2d_backprop_filter --input fill:normal@2,7,6,4 --filter-sizes '(3, 3, 4, 8)' "
      "--out-backprop fill:normal --padding SAME");
}

TEST_F(FrameworksTest, GroupsAreCheckedAgainstTheShapes) {
  const std::string run =
      "run conv2d --input fill:normal@2,7,6,4 --filter fill:normal@3,3,2,8 --padding SAME ";
  Run(run + "--groups 2");
  EXPECT_THAT(Run(run + "--groups 4", 3), HasSubstr("groups 4: filter [3,3,2,8] with input "
                                                    "[2,7,6,4] makes 2"));
  EXPECT_THAT(Run(run + "--groups 0", 2), HasSubstr("--groups '0'"));
}

TEST_F(FrameworksTest, ManifestsTakeTheSame) {
  const auto manifest = [this](const std::string& keys) {
    WriteBytes(Path("m.json"), R"({"schema": "convgrad-manifest/1",
      "defaults": {"padding": "EXPLICIT", "explicit_paddings": [1,1,1,1]}, "cases": [{
      "name": "a", "op": "conv2d", "input": "fill:normal@2,7,6,4", "filter": "fill:normal@3,3,4,8",)" +
                                   keys + "}]}");
    return Sh("convgrad batch m.json --report r.json");
  };
  for (const std::string padding :
       {"1", "[1,1]", "[[0,0],[1,1],[1,1],[0,0]]", R"("1,1")", R"("explicit")"}) {
    EXPECT_EQ(manifest(R"("padding": )" + padding).exit_code, 0) << padding;
    EXPECT_EQ(Report()["benchmarks"][0]["problem"]["pads"], nlohmann::json({1, 1, 1, 1}));
  }
  EXPECT_EQ(manifest(R"("explicit_paddings": [[1,1],[1,1]], "groups": 1)").exit_code, 0);
  const ShellResult refused = manifest(R"("padding": [1,2,3])");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("m.json:3:"));
  EXPECT_EQ(manifest(R"("padding": true)").exit_code, 2);
  EXPECT_EQ(manifest(R"("padding": [[[1]]])").exit_code, 2);
}

TEST_F(FrameworksTest, SamePaddingAgainstPyTorchsIsNamedBothWays) {
  const std::string problem =
      "conv2d --input fill:normal@1,8,8,4 --filter fill:normal@3,3,4,4 --strides 2 ";
  Run("run " + problem + "--padding SAME --output same.npy");
  Run("run " + problem + "--padding 1 --output one.npy");
  EXPECT_THAT(Run("check " + problem + "--padding SAME --expect one.npy", 1),
              HasSubstr("PyTorch's padding=1; SAME has the pads 0+1 and 0+1 here"));
  const std::string same = Run("check " + problem + "--padding 1 --expect same.npy", 1);
  EXPECT_THAT(same, HasSubstr("explained by      pads-same"));
  EXPECT_THAT(same, HasSubstr("check with --padding SAME"));
}

// --- names ---

TEST_F(FrameworksTest, NamesOfOthersImplyTheirOrders) {
  const std::string other = " --data-format NCHW --filter-format OIHW --output z.npy";
  const auto same_as = [&](const std::string& name, const std::string& op,
                           const std::string& rest) {
    SCOPED_TRACE(name);
    Run("run " + name + rest + " --output y.npy --report r.json");
    EXPECT_EQ(Report()["benchmarks"][0]["problem"]["op"], op);
    Run("run " + op + rest + other);
    EXPECT_EQ(ReadBytes(Path("y.npy")), ReadBytes(Path("z.npy")));
  };
  for (const std::string name : {"torch.nn.functional.conv2d", "aten::conv2d", "Conv"}) {
    same_as(name, "conv2d",
            " --input fill:normal@2,4,7,6 --filter fill:normal@8,2,3,3 --groups 2 --padding 1");
  }
  same_as("torch.nn.grad.conv2d_weight", "conv2d_backprop_filter",
          " --input fill:normal@2,4,7,6 --filter-sizes 8,2,3,3 --out-backprop fill:normal "
          "--padding 1");
  same_as("torch.nn.grad.conv2d_input", "conv2d_backprop_input",
          " --input-sizes 2,4,7,6 --filter fill:normal@8,2,3,3 --out-backprop fill:normal "
          "--padding 1");
  // A flag that is given counts more.
  Run("run Conv --input fill:normal@2,7,6,4 --filter fill:normal@8,2,3,3 --padding 1 --data-format "
      "NHWC");
}

TEST_F(FrameworksTest, NamesThatSaySeveralThingsAreAnswered) {
  const std::string backward = Run("run aten::convolution_backward --input x.npy", 2);
  EXPECT_THAT(backward, HasSubstr("conv2d_backprop_filter --input X --filter-sizes WEIGHT_SHAPE "
                                  "--out-backprop DY"));
  EXPECT_THAT(Run("run aten::convolution", 2), HasSubstr("use conv2d --input X --filter WEIGHT"));
  EXPECT_THAT(Run("run lax.conv_general_dilated", 2), HasSubstr("--dilations RHS_DILATION"));
}

}  // namespace
}  // namespace convgrad::testing
