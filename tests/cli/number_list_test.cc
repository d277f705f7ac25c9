// Lists of numbers as people type them and as Python prints them.
#include "cli/text/number_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string MessageOf(const std::string& text, bool pairs = true) {
  try {
    pairs ? ParseNumberList("--list", text).values : ParseIntegers("--list", text);
    return "not refused";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(NumberList, TakesNumbersWithAndWithoutBrackets) {
  for (const char* text : {"1,2,2,1", " 1, 2 ,2,1 ", "[1, 2, 2, 1]", "(1,2,2,1)", "[1,2,2,1,]"}) {
    EXPECT_THAT(ParseIntegers("--list", text), ElementsAre(1, 2, 2, 1)) << text;
  }
  EXPECT_THAT(ParseIntegers("--list", "(3,)"), ElementsAre(3));
  EXPECT_THAT(ParseIntegers("--list", "-7"), ElementsAre(-7));
  for (const char* text : {"", " ", "[]", "()"}) {
    EXPECT_THAT(ParseIntegers("--list", text), IsEmpty()) << text;
  }
}

TEST(NumberList, TakesPairs) {
  for (const char* text : {"[[0,0],[1,2]]", "((0, 0), (1, 2))", "[(0,0),(1,2)]", "(0,0),(1,2)"}) {
    const NumberList list = ParseNumberList("--list", text);
    EXPECT_TRUE(list.in_pairs) << text;
    EXPECT_THAT(list.values, ElementsAre(0, 0, 1, 2)) << text;
  }
  EXPECT_FALSE(ParseNumberList("--list", "(1,2)").in_pairs);
  EXPECT_TRUE(ParseNumberList("--list", "[[1,2]]").in_pairs);
}

TEST(NumberList, RefusesEverythingElse) {
  for (const char* text : {"1,,2", "1,", ",", "[1", "1]", "[1)", "[1,2]]", "[[1,2]", "1.5", "2e0",
                           "x", "[,]", "[1,[2,3]]", "[[1,2],3]", "[[1]]", "[[1,2,3],[1,2,3]]",
                           "[[[1,2]]]", "[[],[]]", "9223372036854775808"}) {
    EXPECT_THAT(MessageOf(text), HasSubstr("--list '")) << text;
  }
  EXPECT_THAT(MessageOf("[[0,0],[1,1]]", false), HasSubstr("has lists in a list"));
  EXPECT_LT(MessageOf(std::string(1'000'000, '[')).size(), 400u);
}

TEST(Choice, IsFoundWhateverItsLetterCase) {
  constexpr std::string_view kChoices[] = {"SAME", "VALID"};
  EXPECT_EQ(ParseChoice("--padding", "valid", kChoices), 1u);
  EXPECT_THROW(ParseChoice("--padding", "valid ", kChoices), Error);
}

TEST(FloatType, IsKnownByItsNamesElsewhere) {
  for (const char* text : {"float32", "float", "f32", "Float", "torch.float32", "torch.float"}) {
    EXPECT_EQ(ParseFloatType("--dtype", text), DType::kFloat32) << text;
  }
  for (const char* text : {"half", "f16", "fp16", "np.float16"}) {
    EXPECT_EQ(ParseFloatType("--dtype", text), DType::kFloat16) << text;
  }
  for (const char* text : {"bf16", "BF16", "torch.bfloat16", "ml_dtypes.bfloat16"}) {
    EXPECT_EQ(ParseFloatType("--dtype", text), DType::kBFloat16) << text;
  }
  EXPECT_EQ(ParseFloatType("--dtype", "double"), DType::kFloat64);
  for (const char* text : {"int32", "float8", "torch.", ""}) {
    EXPECT_THROW(ParseFloatType("--dtype", text), Error) << text;
  }
}

}  // namespace
}  // namespace convgrad::cli
