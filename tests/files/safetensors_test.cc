// .safetensors files: what others write, what we write, and what nobody should.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "files/safetensors_header.h"
#include "files/tensor_file.h"
#include "support/archives.h"

namespace convgrad {
namespace {

using ::testing::ElementsAre;
using testing::ForeignFile;
using ::testing::HasSubstr;
using testing::LittleEndian;
using testing::SafetensorsOf;
using ::testing::StartsWith;

class SafetensorsTest : public testing::ArchiveTest {
 protected:
  SafetensorsTest() : ArchiveTest("x.safetensors") {}

  // The file has a header with these entries, before 24 bytes of data.
  std::string CodeOfHeader(const std::string& header) const {
    return CodeOf(SafetensorsOf(header, std::string(24, '\0')), "x");
  }
};

// One entry of six float32, which fill 24 bytes.
constexpr const char* kEntry = R"("x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";

std::string WithEntry(const std::string& entry) {
  return "{" + entry + "}";
}

TEST_F(SafetensorsTest, ReadsWhatItsOwnLibraryWrites) {
  WriteBytes(path_, ForeignFile("numpy.safetensors"));
  const TensorFile opened = OpenTensorFile(path_);
  EXPECT_THAT(opened.container->names(), ElementsAre("sizes", "x"));
  const Tensor x = ReadTensor(path_ + ":x").tensor;
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.data<float>()[5], 5);
  EXPECT_EQ(ReadTensor(path_ + ":sizes").tensor.data<int64_t>()[1], 3);
  EXPECT_EQ(ReadTensorHeader(path_ + ":x").stored_type, "F32");
  EXPECT_EQ(CodeOf(ForeignFile("numpy.safetensors"), "y"), "tensor/unknown-name");
}

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{0, 7}, Shape{40, 40, 40}}) {
      Tensor tensor(dtype, shape);
      std::memset(tensor.mutable_raw(), 0x3C, static_cast<size_t>(tensor.num_bytes()));
      WriteTensor(ParseTensorTarget(path_, "result"), tensor);
      EXPECT_THAT(OpenTensorFile(path_).container->names(), ElementsAre("result"));
      const StoredTensor again = ReadTensor(path_);
      EXPECT_EQ(again.tensor.dtype(), dtype);
      EXPECT_EQ(again.tensor.shape(), shape);
      EXPECT_FALSE(again.header.is_copied);
      EXPECT_EQ(std::memcmp(again.tensor.raw(), tensor.raw(), tensor.num_bytes()), 0);
    }
  }
  EXPECT_THAT(scratch_.Entries(), ElementsAre("x.safetensors"));  // no temporary file is left
}

TEST_F(SafetensorsTest, LargeTensorsAreMapped) {
  const Tensor zeros(DType::kFloat32, {256, 256});
  WriteTensor(ParseTensorTarget(path_ + ":conv/w:0", "result"), zeros);
  const StoredTensor read = ReadTensor(path_ + ":conv/w:0");
  EXPECT_TRUE(read.tensor.is_mapped());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read.tensor.raw()) % 64, 0u);
  read.CheckUnchanged();
  std::filesystem::resize_file(path_, 1000);
  EXPECT_EQ(CaughtCode([&] { read.CheckUnchanged(); }), "io/file-changed");
}

TEST_F(SafetensorsTest, OddOffsetsAreCopied) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("x":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}})";
  const float values[] = {1.5f, -2};
  const std::string data =
      "abc" + std::string(reinterpret_cast<const char*>(values), sizeof(values));
  WriteBytes(path_, SafetensorsOf(header + std::string((8 - header.size() % 8) % 8, ' '), data));
  const StoredTensor x = ReadTensor(path_ + ":x");
  EXPECT_TRUE(x.header.is_copied);
  EXPECT_EQ(x.tensor.data<float>()[1], -2);
}

TEST_F(SafetensorsTest, TypesAreNamed) {
  EXPECT_EQ(CodeOfHeader(WithEntry(kEntry)), "");
  for (const auto& [dtype, shape] :
       {std::pair("F8_E4M3", 24), {"I8", 24}, {"C64", 3}, {"F4", 48}, {"BOOL", 24}, {"Q7", 5}}) {
    const std::string header =
        fmt::format(R"({{"x":{{"dtype":"{}","shape":[{}],"data_offsets":[0,24]}}}})", dtype, shape);
    const std::optional<Error> error = ErrorOf(SafetensorsOf(header, std::string(24, '\0')));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), "safetensors/dtype");
    EXPECT_THAT(error->message(), HasSubstr(std::string("holds ") + dtype));
  }
  const std::string words = R"({"x":{"dtype":"U16","shape":[12],"data_offsets":[0,24]}})";
  EXPECT_THAT(ErrorOf(SafetensorsOf(words, std::string(24, '\0')))->message(),
              HasSubstr("--dtype bfloat16"));
  EXPECT_EQ(ReadTensor(path_, {.view_as = DType::kBFloat16}).tensor.dtype(), DType::kBFloat16);
}

TEST_F(SafetensorsTest, BadHeadersAreRefused) {
  const char* const headers[] = {
      "",
      "[]",
      "{",
      "{}}",
      "null",
      R"({"x":1})",
      R"({"x":[]})",
      R"({"x":{}})",
      R"({"x":{"dtype":"F32","shape":[2,3]}})",
      R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0]}})",
      R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24,24]}})",
      R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24],"more":1}})",
      R"({"x":{"dtype":"F32","dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
      R"({"x":{"dtype":32,"shape":[2,3],"data_offsets":[0,24]}})",
      R"({"x":{"dtype":["F32"],"shape":[2,3],"data_offsets":[0,24]}})",
      R"({"x":{"dtype":"F32","shape":[-2,3],"data_offsets":[0,24]}})",
      R"({"x":{"dtype":"F32","shape":[2.0,3],"data_offsets":[0,24]}})",
      R"({"x":{"dtype":"F32","shape":[[2,3]],"data_offsets":[0,24]}})",
      R"({"x":{"dtype":"F32","shape":6,"data_offsets":[0,24]}})",
      R"({"x":{"dtype":"F32","shape":["6"],"data_offsets":[0,24]}})",
      R"({"x":{"dtype":"F32","shape":[6],"data_offsets":[0,99999999999999999999]}})",
      R"({"x":{"dtype":"F32","shape":[6],"data_offsets":[0,9223372036854775808]}})",
      R"({"x":{"dtype":"F32","shape":[6],"data_offsets":{"a":1}}})",
      R"({"x":{"dtype":{"x":1},"shape":[6],"data_offsets":[0,24]}})",
      R"({"__metadata__":{"a":1},"x":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})",
      R"({"__metadata__":{"a":{}},"x":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})",
      R"({"__metadata__":"a","x":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})",
      "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}",
  };
  for (const char* header : headers)
    EXPECT_EQ(CodeOfHeader(header), "safetensors/header") << header;
  // Nested as deeply as a header may be long.
  EXPECT_EQ(CodeOfHeader("{\"x\":" + std::string(1'000'000, '[')), "safetensors/header");
  EXPECT_EQ(CodeOfHeader(std::string(1'000'000, '{')), "safetensors/header");
  EXPECT_EQ(CodeOfHeader(WithEntry(std::string(kEntry) + "," + kEntry)),
            "safetensors/duplicate-name");
}

TEST_F(SafetensorsTest, DataAreDividedWithoutGapOrOverlap) {
  const auto two = [](int a_end, int b_begin, int b_end) {
    return fmt::format(R"({{"x":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}},)"
                       R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                       a_end, a_end, b_end - b_begin, b_begin, b_end);
  };
  EXPECT_EQ(CodeOfHeader(two(8, 8, 24)), "safetensors/dtype");  // sound, but of bytes
  const struct {
    std::string header;
    const char* why;
  } rows[] = {
      {two(8, 7, 24), "overlaps"},
      {two(8, 0, 24), "overlaps"},
      {two(8, 9, 24), "leaves a gap"},
      {two(8, 8, 23), "1 bytes follow"},
      {two(8, 8, 25), "outside"},
      {R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[24,0]}})", "ends before"},
      {R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,23]}})", "takes 24"},
      {R"({"x":{"dtype":"F32","shape":[7],"data_offsets":[0,24]}})", "takes 28"},
      {R"({"x":{"dtype":"F64","shape":[2,3],"data_offsets":[0,24]}})", "takes 48"},
      {R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,24]}})", "63 bits"},
      {R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[1,25]}})", "outside"},
      {R"({})", "24 bytes follow"},
  };
  for (const auto& row : rows) {
    const std::optional<Error> error =
        ErrorOf(SafetensorsOf(row.header, std::string(24, '\0')), "x");
    ASSERT_TRUE(error) << row.header;
    EXPECT_EQ(error->code(), "safetensors/offsets") << error->message();
    EXPECT_THAT(error->message(), HasSubstr(row.why));
  }
  const NpyReadOptions trailing = {.allow_trailing = true};
  EXPECT_EQ(CodeOf(SafetensorsOf(WithEntry(kEntry), std::string(30, '\0')), "x", trailing), "");
  // Tensors without elements lie between others, or at the end.
  const std::string empty = R"(,"e":{"dtype":"F32","shape":[0,3],"data_offsets":[24,24]})";
  EXPECT_EQ(CodeOfHeader(WithEntry(kEntry + empty)), "");
}

TEST_F(SafetensorsTest, LimitsAreThoseOfNpy) {
  const auto file = [](const std::string& shape) {
    return SafetensorsOf(
        fmt::format(R"({{"x":{{"dtype":"F32","shape":[{}],"data_offsets":[0,0]}}}})", shape), "");
  };
  EXPECT_EQ(CodeOf(file("0,2147483647")), "");
  EXPECT_EQ(CodeOf(file("0,2147483648")), "safetensors/shape");
  std::string many = "0";
  for (int i = 1; i < 32; ++i) many += ",1";
  EXPECT_EQ(CodeOf(file(many)), "");
  EXPECT_EQ(CodeOf(file(many + ",1")), "safetensors/shape");
}

TEST_F(SafetensorsTest, ClaimsBeyondTheFileAreRefused) {
  const auto claims = [&](uint64_t length) {
    return LittleEndian().Put(length, 8).Put(WithEntry(kEntry)).text();
  };
  EXPECT_EQ(CodeOf(claims(uint64_t{1} << 60)), "safetensors/header-too-large");
  EXPECT_EQ(CodeOf(claims(~uint64_t{0})), "safetensors/header-too-large");
  EXPECT_EQ(CodeOf(claims(100'000'001)), "safetensors/header-too-large");
  EXPECT_EQ(CodeOf(claims(100'000'000)), "safetensors/truncated");
}

TEST_F(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string bytes = ForeignFile("numpy.safetensors");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(CodeOf(bytes.substr(0, size), "x"), StartsWith("safetensors/")) << size;
  }
}

TEST_F(SafetensorsTest, FlippedBitsDoNoMoreThanRaiseAnError) {
  const std::string good = ForeignFile("numpy.safetensors");
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    CodeOf(bytes, "x");
  }
}

TEST_F(SafetensorsTest, WritesNamesThatFilesCanHave) {
  const Tensor tensor(DType::kFloat32, {1});
  const std::string odd = "a\"b\\c\n\xC3\xA9";
  WriteTensor(ParseTensorTarget(path_ + ":" + odd, "x"), tensor);
  EXPECT_THAT(OpenTensorFile(path_).container->names(), ElementsAre(odd));
  for (const std::string name : {"", "__metadata__", "\xff"}) {
    EXPECT_EQ(CaughtCode([&] { ParseTensorTarget(path_ + ":" + name, "x"); }), "output/name");
  }
}

TEST_F(SafetensorsTest, BFloat16IsWrittenAsAsked) {
  Tensor tensor(DType::kBFloat16, {2});
  tensor.mutable_data<BFloat16>()[0] = ToBFloat16(1.5);
  tensor.mutable_data<BFloat16>()[1] = ToBFloat16(-2);
  const auto write = [&](BFloat16Form form) {
    WriteTensor(ParseTensorTarget(path_, "x"), tensor, {.bfloat16_as = form});
  };
  write(BFloat16Form::kV2);
  EXPECT_EQ(ReadTensorHeader(path_).stored_type, "BF16");
  write(BFloat16Form::kU2);
  EXPECT_EQ(ReadTensorHeader(path_, {.view_as = DType::kBFloat16}).stored_type, "U16");
  write(BFloat16Form::kF4);
  EXPECT_EQ(ReadTensorHeader(path_).stored_type, "F32");
  EXPECT_EQ(ReadTensor(path_).tensor.data<float>()[1], -2);
}

}  // namespace
}  // namespace convgrad
