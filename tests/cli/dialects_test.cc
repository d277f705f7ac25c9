// Lines of each dialect are read as their problem, or refused with the reason why they are none.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/dialects/conv_descriptor.h"
#include "cli/dialects/dialect.h"

namespace convgrad::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The lines of problems, the filter's order behind where it is not OIHW, and refusals' reasons.
std::vector<std::string> Described(DialectReader& reader, const std::string& record) {
  const Reading reading = reader.Read(record);
  std::vector<std::string> lines;
  for (const LoggedConv& conv : reading.convs) {
    try {
      std::string line = fmt::format("{}", conv.ToProblem().ToLine());
      line.resize(line.find(" padding="));
      if (conv.filter_format != FilterFormat::kOIHW) line += NameOf(conv.filter_format);
      if (reading.count != 1) line += fmt::format(" x {}", reading.count);
      lines.push_back(line);
    } catch (const Refusal& refusal) {
      lines.push_back("refused: " + refusal.reason());
    }
  }
  for (const Refusal& refusal : reading.refusals) lines.push_back("refused: " + refusal.reason());
  return lines;
}

std::vector<std::string> Read(const char* dialect, const std::string& record) {
  return Described(*FindDialect(dialect).make_reader(), record);
}

std::string Descriptor(const std::string& text) {
  try {
    std::string line = ParseDescriptor(text).ToProblem().ToLine();
    line.resize(line.find(" padding="));
    return line;
  } catch (const Refusal& refusal) {
    return "refused: " + refusal.reason();
  }
}

struct DescriptorCase {
  const char* text;
  const char* line;
};

class DescriptorTest : public ::testing::TestWithParam<DescriptorCase> {};

TEST_P(DescriptorTest, IsWhatBenchdnnTakesItFor) {
  EXPECT_EQ(Descriptor(GetParam().text), GetParam().line);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, DescriptorTest,
    ::testing::Values(
        // Square without a width, two images, the output from the pads.
        DescriptorCase{"ic3ih9oc4kh3ph1n\"a name with 5x5 in it\"",
                       "conv2d float32 NCHW in=2,3,9,9 filter=3,3,3,4 strides=1,1 dilations=1,1 "
                       "pads=1,1,1,1"},
        // Without pads, those that the output asks for: as many on both sides, one more at the end.
        DescriptorCase{"mb1ic3ih8oc4oh4kh3sh2",
                       "conv2d float32 NCHW in=1,3,8,8 filter=3,3,3,4 strides=2,2 dilations=1,1 "
                       "pads=0,1,0,1"},
        // Without an output and without pads, none.
        DescriptorCase{"mb1ic3ih8oc4kh3",
                       "conv2d float32 NCHW in=1,3,8,8 filter=3,3,3,4 strides=1,1 dilations=1,1 "
                       "pads=0,0,0,0"},
        // Channels are those of all groups.
        DescriptorCase{"g2mb1_ic4oc6_ih5oh5kh3sh1dh0ph1_iw6ow6kw1sw1dw0pw0",
                       "conv2d float32 NCHW in=1,4,5,6 filter=3,1,2,6 strides=1,1 dilations=1,1 "
                       "pads=1,1,0,0"},
        DescriptorCase{"g4mb1ic4oc8ih5kh3ph1",
                       "depthwise_conv2d float32 NCHW in=1,4,5,5 filter=3,3,4,2 strides=1,1 "
                       "dilations=1,1 pads=1,1,1,1"},
        // Dilations count the zeros between.
        DescriptorCase{"mb1ic3ih9oc4kh3dh1ph2",
                       "conv2d float32 NCHW in=1,3,9,9 filter=3,3,3,4 strides=1,1 dilations=2,2 "
                       "pads=2,2,2,2"},
        DescriptorCase{"mb1ic3iw9oc4kw3pw1",
                       "conv2d float32 NCHW in=1,3,1,9 filter=1,3,3,4 strides=1,1 dilations=1,1 "
                       "pads=0,0,1,1"},
        DescriptorCase{"mb1ic3id9oc4kd3",
                       "refused: a 3-D convolution: convgrad computes 2-D and 1-D"},
        DescriptorCase{"mb1ic3id9ih9iw9oc4kd3kh3kw3",
                       "refused: a 3-D convolution: convgrad computes 2-D and 1-D"},
        DescriptorCase{"mb1ic3ih9oc4", "refused: malformed or truncated"},
        DescriptorCase{"mb1ic3ih", "refused: malformed or truncated"},
        DescriptorCase{"mb1ic3ih9oc4kh3xh1", "refused: malformed or truncated"},
        DescriptorCase{"mb1ic99999999999999999999ih9oc4kh3", "refused: malformed or truncated"},
        DescriptorCase{"g3mb1ic4ih9oc6kh3", "refused: its numbers contradict each other"},
        // A pad at the end may be as large as the output asks for.
        DescriptorCase{"mb1ic4ih9oc6oh20kh3ph1",
                       "conv2d float32 NCHW in=1,4,9,9 filter=3,3,4,6 strides=1,1 dilations=1,1 "
                       "pads=1,12,1,12"},
        DescriptorCase{"mb1ic4ih9oc6oh5kh3ph1", "refused: its numbers contradict each other"},
        DescriptorCase{"mb1ic4ih2oc6kh5", "refused: its numbers contradict each other"},
        DescriptorCase{"mb1ic4ih9oc6kh3sh0", "refused: its numbers contradict each other"}));

TEST(Descriptor, ReadsBackWhatItWrites) {
  for (const char* text : {"g2mb1_ic4oc6_ih5oh5kh3sh1dh0ph1_iw6ow6kw1sw1dw0pw0",
                           "mb1ic3ih8oc4oh4kh3sh2", "mb3ic3iw9oc4kw3pw1dw1", "g4ic4oc8ih5kh3ph1"}) {
    const std::string line = Descriptor(text);
    EXPECT_EQ(Descriptor(WriteDescriptor(ParseDescriptor(text).ToProblem())), line) << text;
  }
}

constexpr const char* kLine2 =
    "onednn_verbose,exec,cpu,convolution,jit:avx2,{},src_{}::blocked:{}:f0 "
    "wei_{}::blocked:ABcd8b8a:f0 bia_undef::undef::f0 "
    "dst_{}::blocked:{}:f0,,alg:convolution_direct,"
    "mb2_ic8oc16_ih15oh8kh3sh2dh0ph1_iw13ow7kw3sw2dw0pw1,0.02";

std::string Line2(const char* direction, const char* type, const char* tag, const char* result) {
  return fmt::format(fmt::runtime(kLine2), direction, type, tag, type, result, tag);
}

TEST(OneDnn, ReadsVersion2) {
  constexpr const char* kRest =
      "in=2,8,15,13 filter=3,3,8,16 strides=2,2 dilations=1,1 pads=1,1,1,1";
  EXPECT_THAT(Read("onednn", Line2("forward_training", "f32", "abcd", "f32")),
              ElementsAre(fmt::format("conv2d float32 NCHW {}", kRest)));
  EXPECT_THAT(Read("onednn", Line2("backward_data", "bf16", "aBcd16b", "bf16")),
              ElementsAre(fmt::format("conv2d_backprop_input bfloat16 NCHW {}", kRest)));
  EXPECT_THAT(Read("onednn", Line2("backward_weights", "f32", "acdb", "f32")),
              ElementsAre("conv2d_backprop_filter float32 NHWC in=2,15,13,8 filter=3,3,8,16 "
                          "strides=2,2 dilations=1,1 pads=1,1,1,1"));
  EXPECT_THAT(Read("onednn", Line2("backward", "f32", "abcd", "f32")),
              ElementsAre(fmt::format("conv2d_backprop_input float32 NCHW {}", kRest),
                          fmt::format("conv2d_backprop_filter float32 NCHW {}", kRest)));
  EXPECT_THAT(Read("onednn", Line2("sideways", "f32", "abcd", "f32")),
              ElementsAre("refused: malformed or truncated"));
  EXPECT_THAT(Read("onednn", Line2("forward_training", "bf16", "abcd", "f32")),
              ElementsAre("refused: operands and result of different types"));
  EXPECT_THAT(Read("onednn", Line2("forward_inference", "s8", "abcd", "s8")),
              ElementsAre("refused: type s8: convgrad computes float16, bfloat16, float32 and "
                          "float64"));
}

TEST(OneDnn, ReadsVersion3) {
  const std::string body =
      "cpu,convolution,brgconv:avx512_core,forward_training,src:f16:a:blocked:acdb::f0 "
      "wei:f16:a:blocked:Acdb16a::f0 bia:f16:a:blocked:a::f0 dst:f16:a:blocked:acdb::f0,"
      "attr-scratchpad:user attr-post-ops:eltwise_relu,alg:convolution_direct,"
      "g8mb1_ic8oc8_ih7oh7kh3sh1dh0ph1_iw7ow7kw3sw1dw0pw1,0.1";
  const std::string problem =
      "depthwise_conv2d float16 NHWC in=1,7,7,8 filter=3,3,8,1 strides=1,1 dilations=1,1 "
      "pads=1,1,1,1";
  for (const char* head :
       {"onednn_verbose,exec,", "onednn_verbose,primitive,exec,",
        "onednn_verbose,v1,primitive,exec,", "onednn_verbose,v1,1733000000.25,primitive,exec,",
        "rank 3: onednn_verbose,1733000000.25,exec,"}) {
    EXPECT_THAT(Read("onednn", head + body), ElementsAre(problem)) << head;
  }
  EXPECT_THAT(Read("onednn", "onednn_verbose,v2,primitive,exec," + body),
              ElementsAre("refused: version v2 of the verbose format"));
  const Reading reading =
      FindDialect("onednn").make_reader()->Read("onednn_verbose,v1,primitive,exec," + body);
  EXPECT_TRUE(reading.convs.at(0).has_bias);
  EXPECT_TRUE(reading.convs.at(0).has_post_ops);
}

TEST(OneDnn, LeavesOtherOutputAlone) {
  for (const char* line :
       {"", "epoch 1", "onednn_verbose,info,oneDNN v2.6.3 (commit N/A)",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0,,,2x3x4x5,0.1",
        "onednn_verbose,create:cache_miss,cpu,convolution,jit:avx2,forward_training,a,b,c,d,0.1"}) {
    EXPECT_THAT(Read("onednn", line), IsEmpty()) << line;
  }
}

// No prefix of a line is a case: what ends early can't tell its numbers from their beginnings.
TEST(OneDnn, RefusesEveryTruncatedLine) {
  const std::string line = Line2("backward_data", "f32", "abcd", "f32");
  for (size_t size = line.find("convolution,") + 12; size < line.rfind(','); ++size) {
    EXPECT_THAT(Read("onednn", line.substr(0, size)), ElementsAre(HasSubstr("refused: ")))
        << line.substr(0, size);
  }
}

TEST(Benchdnn, KeepsOptionsUntilReset) {
  const auto reader = FindDialect("benchdnn").make_reader();
  const std::string in = "in=1,2,4,4 filter=1,1,2,3 strides=1,1 dilations=1,1 pads=0,0,0,0";
  EXPECT_THAT(Described(*reader, "mb1ic2ih4oc3kh1"), ElementsAre("conv2d float32 NCHW " + in));
  EXPECT_THAT(Described(*reader, "--dir=BWD_D,BWD_WB --dt=f16,bf16:bf16:bf16"), IsEmpty());
  EXPECT_THAT(Described(*reader, "mb1ic2ih4oc3kh1"),
              ElementsAre("conv2d_backprop_input float16 NCHW " + in,
                          "conv2d_backprop_input bfloat16 NCHW " + in,
                          "conv2d_backprop_filter float16 NCHW " + in,
                          "conv2d_backprop_filter bfloat16 NCHW " + in));
  EXPECT_THAT(Described(*reader,
                        "./benchdnn --conv --reset --cfg=f64 --stag=axb --mb=5 "
                        "mb1ic2ih4oc3kh1"),
              ElementsAre("conv2d float64 NHWC in=5,4,4,2 filter=1,1,2,3 strides=1,1 dilations=1,1 "
                          "pads=0,0,0,0"));
  EXPECT_THAT(Described(*reader, "--reset"), IsEmpty());
  EXPECT_THAT(Described(*reader, "mb1ic2ih4oc3kh1"), ElementsAre("conv2d float32 NCHW " + in));
  EXPECT_THAT(Described(*reader, "--cfg=bf16bf16f32 mb1ic2ih4oc3kh1"),
              ElementsAre("refused: operands and result of different types"));
  EXPECT_THAT(Described(*reader, "--batch=shapes_1x1"),
              ElementsAre("refused: --batch names another file of problems"));
}

TEST(Benchdnn, LeavesOtherOutputAlone) {
  for (const char* line : {"", "# mb1ic2ih4oc3kh1", "tests:1 passed:1", "./benchdnn --ip mb1ic2oc3",
                           "hello mb1ic2ih4oc3kh1"}) {
    EXPECT_THAT(Read("benchdnn", line), IsEmpty()) << line;
  }
}

TEST(PyTorch, ReadsForward) {
  const auto reader = FindDialect("pytorch").make_reader();
  EXPECT_THAT(Described(*reader, "Operator: aten.convolution.default"), IsEmpty());
  EXPECT_THAT(
      Described(
          *reader,
          "cnt: 3, ((T([2, 4, 9, 8], f16), T([6, 2, 3, 3], f16), None, [2, 1], [1, 0], [1, 2], "
          "False, [0, 0], 2), {})"),
      ElementsAre("conv2d float16 NCHW in=2,4,9,8 filter=3,3,2,6 strides=2,1 dilations=1,2 "
                  "pads=1,1,0,0 x 3"));
  // Strides of channels_last, in a line of its own.
  EXPECT_THAT(
      Read("pytorch",
           "aten.convolution.default((T([2, 4, 9, 8], f32, stride=(288, 1, 32, 4)), "
           "T([6, 4, 3, 3], f32, stride=(36, 1, 12, 4)), T([6], f32), [1, 1], [1, 1], [1, 1], "
           "False, [0, 0], 1), {})"),
      ElementsAre(HasSubstr("conv2d float32 NHWC in=2,9,8,4 filter=3,3,4,6 ")));
  // A slice of channels is not.
  EXPECT_THAT(Read("pytorch",
                   "aten.convolution.default((T([2, 4, 9, 8], f32, stride=(576, 72, 8, 1)), "
                   "T([6, 4, 1, 1], f32), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1), {})"),
              ElementsAre(HasSubstr("NCHW")));
  EXPECT_THAT(
      Read("pytorch",
           "aten.convolution.default((T([2, 4, 9], f32), T([4, 1, 3], f32), None, [1], [1], "
           "[1], False, [0], 4), {})"),
      ElementsAre("depthwise_conv2d float32 NCHW in=2,4,1,9 filter=1,3,4,1 strides=1,1 "
                  "dilations=1,1 pads=0,0,1,1"));
}

std::string Backward(const std::string& tensors, const std::string& rest) {
  return "aten.convolution_backward.default((" + tensors + ", [6], [2, 2], [1, 1], [1, 1], " +
         rest + "), {})";
}

TEST(PyTorch, ReadsBackwardByItsMask) {
  const std::string tensors = "T([2, 6, 5, 4], f32), T([2, 4, 9, 8], f32), T([6, 4, 3, 3], f32)";
  const std::string rest =
      " float32 NCHW in=2,4,9,8 filter=3,3,4,6 strides=2,2 dilations=1,1 pads=1,1,1,1";
  EXPECT_THAT(Read("pytorch", Backward(tensors, "False, [0, 0], 1, [True, True, True]")),
              ElementsAre("conv2d_backprop_input" + rest, "conv2d_backprop_filter" + rest));
  EXPECT_THAT(Read("pytorch", Backward(tensors, "False, [0, 0], 1, [False, True, False]")),
              ElementsAre("conv2d_backprop_filter" + rest));
  EXPECT_THAT(Read("pytorch", Backward(tensors, "False, [0, 0], 1, [False, False, True]")),
              ElementsAre("refused: the gradient of a bias alone"));
  EXPECT_THAT(Read("pytorch", Backward("T([2, 6, 6, 4], f32), T([2, 4, 9, 8], f32), "
                                       "T([6, 4, 3, 3], f32)",
                                       "False, [0, 0], 1, [True, False, False]")),
              ElementsAre("refused: its numbers contradict each other"));
}

// Forward it is the input gradient of the convolution with the same filter; its gradients follow.
TEST(PyTorch, ReadsTransposed) {
  const std::string rest = " in=2,3,10,8 filter=3,3,3,6 strides=2,2 dilations=1,1 pads=1,1,1,1";
  EXPECT_THAT(Read("pytorch",
                   "aten.convolution.default((T([2, 6, 5, 4], f64), T([6, 3, 3, 3], f64), None, "
                   "[2, 2], [1, 1], [1, 1], True, [1, 1], 1), {})"),
              ElementsAre("conv2d_backprop_input float64 NCHW" + rest));
  EXPECT_THAT(
      Read("pytorch", Backward("T([2, 3, 10, 8], f32), T([2, 6, 5, 4], f32), "
                               "T([6, 3, 3, 3], f32)",
                               "True, [1, 1], 1, [True, True, False]")),
      ElementsAre("conv2d float32 NCHW" + rest, "conv2d_backprop_filter float32 NCHW" + rest));
}

TEST(PyTorch, RefusesWithReasons) {
  const struct {
    const char* arguments;
    const char* reason;
  } cases[] = {
      {"(T([1, 2, 3, 4, 5], f32), T([1, 2, 1, 1, 1], f32), None, [1, 1, 1], [0, 0, 0], [1, 1, 1], "
       "False, [0, 0, 0], 1), {})",
       "a 3-D convolution"},
      {"(T([1, 2, 4, 5], i8), T([1, 2, 1, 1], i8), None, [1, 1], [0, 0], [1, 1], False, [0, 0], "
       "1), "
       "{})",
       "type i8"},
      {"(T([1, 2, 4, 5], f32), T([1, 3, 1, 1], f32), None, [1, 1], [0, 0], [1, 1], False, [0, 0], "
       "1), {})",
       "contradict"},
      {"(T([1, 2, 4, 5], f32), T([1, 2, 1, 1], f16), None, [1, 1], [0, 0], [1, 1], False, [0, 0], "
       "1), {})",
       "different types"},
      {"(T([1, 2, 4, 5], f32), T([4611686018427387904, 4611686018427387904, 1, 1], f32), None, "
       "[1, 1], [0, 0], [1, 1], False, [0, 0], 4611686018427387904), {})",
       "beyond 2^30"},
      {"(T([1, 2, 4, 5], f32), T([1, 2, 1", "malformed"},
      {"(T([1, 2, 4, 5], f32), None), {})", "malformed"},
      {"", "malformed"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(Read("pytorch", std::string("aten.convolution.default(") + one.arguments),
                ElementsAre(HasSubstr(one.reason)))
        << one.arguments;
  }
  const std::string nested(100000, '(');
  EXPECT_THAT(Read("pytorch", "aten.convolution.default" + nested),
              ElementsAre("refused: malformed or truncated"));
}

TEST(Miopen, ReadsDirectionsAndDefaults) {
  const std::string rest = "in=4,8,14,12 filter=3,5,8,6 strides=2,1 dilations=1,2 pads=1,1,4,4";
  const std::string words =
      " -n 4 -c 8 -H 14 -W 12 -k 6 -y 3 -x 5 -p 1 -q 4 -u 2 -v 1 -l 1 -j 2 -m conv -g 1";
  EXPECT_THAT(Read("miopen", "MIOpenDriver convfp16" + words + " -F 1 -t 1"),
              ElementsAre("conv2d float16 NCHW " + rest));
  EXPECT_THAT(Read("miopen", "x ./bin/MIOpenDriver convbfp16" + words + " --forw 6"),
              ElementsAre("conv2d_backprop_input bfloat16 NCHW " + rest,
                          "conv2d_backprop_filter bfloat16 NCHW " + rest));
  EXPECT_EQ(Read("miopen", "MIOpenDriver conv" + words).size(), 3U);
  EXPECT_THAT(Read("miopen", "MIOpenDriver conv -F 1"),
              ElementsAre("conv2d float32 NCHW in=100,3,32,32 filter=3,3,3,32 strides=1,1 "
                          "dilations=1,1 pads=0,0,0,0"));
  EXPECT_THAT(Read("miopen", "MIOpenDriver conv -m trans -n 1 -c 6 -H 5 -W 5 -k 3 -u 2 -v 2 -F 1"),
              ElementsAre("conv2d_backprop_input float32 NCHW in=1,3,11,11 filter=3,3,3,6 "
                          "strides=2,2 dilations=1,1 pads=0,0,0,0"));
  EXPECT_THAT(Read("miopen", "MIOpenDriver convint8" + words),
              ElementsAre(HasSubstr("refused: type int8")));
  EXPECT_THAT(Read("miopen", "MIOpenDriver conv -_ 3"), ElementsAre(HasSubstr("3-D")));
  EXPECT_THAT(Read("miopen", "MIOpenDriver conv -n"), ElementsAre(HasSubstr("malformed")));
  EXPECT_THAT(Read("miopen", "MIOpenDriver conv -n x"), ElementsAre(HasSubstr("malformed")));
  EXPECT_THAT(Read("miopen", "MIOpenDriver conv -u 0 -F 1"), ElementsAre(HasSubstr("contradict")));
  EXPECT_THAT(Read("miopen", "MIOpenDriver bnorm -n 1"), IsEmpty());
}

TEST(Graphs, RefuseWhatIsNoSingleConvolution) {
  EXPECT_THAT(Read("cudnn", "{\"nodes\": 1"), IsEmpty());
  EXPECT_THAT(Read("cudnn", "{\"nodes\": [], \"tensors\": {}}"), IsEmpty());
  EXPECT_THAT(Read("cudnn",
                   "{\"nodes\": [{\"tag\": \"CONV_FPROP\"}, {\"tag\": \"POINTWISE\"}], "
                   "\"tensors\": {}}"),
              ElementsAre("refused: a graph of more than a single convolution"));
  EXPECT_THAT(Read("cudnn", "{\"nodes\": [{\"tag\": \"CONV_FPROP\"}], \"tensors\": {}}"),
              ElementsAre("refused: malformed or truncated"));
  EXPECT_THAT(Read("cudnn", "{\"tag\": \"CONV_FPROP\""),
              ElementsAre("refused: malformed or truncated"));
}

}  // namespace
}  // namespace convgrad::cli
