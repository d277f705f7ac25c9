// .npy files written byte for byte as NumPy writes them, and read back from every order.
#include "tensor/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "support/file_testing.h"
#include "tensor/reorder.h"
#include "tensor/tensor_hash.h"

namespace convgrad {
namespace {

// 0, 1, 2, ... ; as bfloat16 the upper halves of these float32 numbers.
Tensor Counting(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  for (int64_t at = 0; at < tensor.num_elements(); ++at) {
    switch (dtype) {
      case DType::kInt32: tensor.mutable_data<int32_t>()[at] = static_cast<int32_t>(at); break;
      case DType::kInt64: tensor.mutable_data<int64_t>()[at] = at; break;
      case DType::kBFloat16: {
        const float value = static_cast<float>(at);
        std::memcpy(tensor.mutable_data<uint16_t>() + at, reinterpret_cast<const char*>(&value) + 2,
                    2);
        break;
      }
      default:
        VisitFloat(dtype, [&](auto tag) {
          using T = typename decltype(tag)::Type;
          tensor.mutable_data<T>()[at] = Narrow<T>(static_cast<double>(at));
        });
    }
  }
  return tensor;
}

Tensor RandomBits(DType dtype, const Shape& shape, std::mt19937_64& random) {
  Tensor tensor(dtype, shape);
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_raw());
  for (int64_t at = 0; at < tensor.num_bytes(); ++at)
    bytes[at] = static_cast<unsigned char>(random());
  return tensor;
}

Shape RandomShape(std::mt19937_64& random, int max_rank, int64_t max_elements) {
  Shape shape(random() % (max_rank + 1));
  int64_t elements = 1;
  for (int64_t& size : shape) {
    size = 1 + static_cast<int64_t>(random() % (random() % 4 == 0 ? 90 : 7));
    if (elements * size > max_elements) size = 1;
    elements *= size;
  }
  return shape;
}

void ExpectSame(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape(), expected.shape());
  EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(expected.num_bytes())),
            0);
}

class NpyTest : public testing::Test {
 protected:
  ScratchDirectory directory_;
  std::string path_ = directory_ / "array.npy";
};

TEST_F(NpyTest, WritesNumPysBytes) {
  int written = 0;
  for (const auto& row : ReadTable("numpy_files.tsv", 4)) {
    if (row[0] != "write") continue;
    SCOPED_TRACE(row[1] + " " + row[2]);
    const DType dtype = *ParseDType(row[1]);
    const Tensor tensor = Counting(dtype, ParseShapeCell(row[2]));
    WriteNpy(path_, tensor);
    EXPECT_EQ(ReadBytes(path_), Unescape(row[3]));
    ExpectSame(ReadNpy(path_, {.view_as = DType::kBFloat16}).tensor, tensor);
    ++written;
  }
  EXPECT_GT(written, 50);
}

TEST_F(NpyTest, WritesNumPysHeadersForAllShapes) {
  for (const auto& row : ReadTable("numpy_headers.tsv", 3)) {
    EXPECT_EQ(NpyHeaderBytes(*ParseDType(row[0]), ParseShapeCell(row[1])), Unescape(row[2]))
        << row[0] << " " << row[1];
  }
}

TEST_F(NpyTest, ReadsFortranOrderAndBigEndian) {
  int read = 0;
  for (const auto& row : ReadTable("numpy_files.tsv", 4)) {
    if (!row[0].starts_with("read")) continue;
    SCOPED_TRACE(row[0] + " " + row[1] + " " + row[2]);
    WriteBytes(path_, Unescape(row[3]));
    const NpyArray array = ReadNpy(path_);
    EXPECT_EQ(array.header.swapped, row[0].find("big-endian") != std::string::npos);
    ExpectSame(array.tensor, Counting(*ParseDType(row[1]), ParseShapeCell(row[2])));
    ++read;
  }
  EXPECT_GT(read, 50);
}

TEST_F(NpyTest, WritesBFloat16InThreeForms) {
  const Tensor tensor = Counting(DType::kBFloat16, {2, 3});
  WriteNpy(path_, tensor, {.bfloat16_as = BFloat16Form::kU2});
  EXPECT_EQ(ReadNpyHeader(path_, {.view_as = DType::kBFloat16}).descr, "<u2");
  ExpectSame(ReadNpy(path_, {.view_as = DType::kBFloat16}).tensor, tensor);
  WriteNpy(path_, tensor, {.bfloat16_as = BFloat16Form::kF4});
  ExpectSame(ReadNpy(path_).tensor, Counting(DType::kFloat32, {2, 3}));
}

TEST_F(NpyTest, ReadsBackWhatItWrote) {
  std::mt19937_64 random(20240611);
  for (int round = 0; round < 200; ++round) {
    const DType dtype = AllDTypes()[random() % AllDTypes().size()].dtype;
    const Tensor tensor = RandomBits(dtype, RandomShape(random, 6, 100000), random);
    SCOPED_TRACE(ToString(tensor.shape()) + " round " + std::to_string(round));
    const std::string hash = WriteNpy(path_, tensor, {.hash = true});
    const Tensor read = ReadNpy(path_, {.view_as = DType::kBFloat16}).tensor;
    ExpectSame(read, tensor);
    EXPECT_EQ(hash, DataHash(read));
  }
}

// The plain definition: element (i0, i1, ...) lies at i0 + n0 * (i1 + n1 * (...)) in Fortran order.
Tensor NaiveFromFortran(DType dtype, const Shape& shape, const std::byte* source) {
  Tensor tensor(dtype, shape);
  const int bytes = InfoOf(dtype).bytes;
  for (int64_t at = 0; at < tensor.num_elements(); ++at) {
    int64_t rest = at, from = 0;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      int64_t stride = 1;
      for (size_t before = 0; before < axis; ++before) stride *= shape[before];
      from += rest % shape[axis] * stride;
    }
    std::memcpy(static_cast<std::byte*>(tensor.mutable_raw()) + at * bytes, source + from * bytes,
                bytes);
  }
  return tensor;
}

TEST_F(NpyTest, ReversesAxesOfAnyShape) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const DType dtype = AllDTypes()[random() % AllDTypes().size()].dtype;
    const Shape shape = RandomShape(random, 5, 60000);
    SCOPED_TRACE(ToString(shape) + " round " + std::to_string(round));
    const Tensor source = RandomBits(dtype, shape, random);
    const auto* bytes = static_cast<const std::byte*>(source.raw());
    Tensor actual(dtype, shape);
    auto* target = static_cast<std::byte*>(actual.mutable_raw());
    CopyFromFortranOrder(shape, InfoOf(dtype).bytes, false, bytes, target);
    Tensor expected = NaiveFromFortran(dtype, shape, bytes);
    ExpectSame(actual, expected);
    CopyFromFortranOrder(shape, InfoOf(dtype).bytes, true, bytes, target);
    SwapBytes(InfoOf(dtype).bytes, actual.num_elements(), target);
    ExpectSame(actual, expected);
  }
}

TEST_F(NpyTest, MapsLargeFilesAndCopiesWhereItMust) {
  const Shape shape = {1 << 16};
  const Tensor tensor = Counting(DType::kFloat32, shape);
  WriteNpy(path_, tensor);
  const NpyArray mapped = ReadNpy(path_, {.max_copied_bytes = 1});
  EXPECT_TRUE(mapped.tensor.is_mapped());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped.tensor.raw()) % 64, 0u);
  ExpectSame(mapped.tensor, tensor);

  std::string bytes = ReadBytes(path_);
  bytes[8] = static_cast<char>(bytes[8] + 1);  // a header one byte longer: unaligned elements
  bytes.insert(20, " ");
  WriteBytes(path_, bytes);
  const NpyArray unaligned = ReadNpy(path_);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(unaligned.tensor.raw()) % 64, 0u);
  ExpectSame(unaligned.tensor, tensor);
  EXPECT_EQ(CaughtCode([&] { ReadNpy(path_, {.max_copied_bytes = 1}); }), "memory/limit");
}

// As it lies in the file, and in C order.
TEST_F(NpyTest, FortranOrderIsCopiedTwice) {
  const Tensor tensor = Counting(DType::kFloat32, {10, 10});
  std::string bytes = NpyHeaderBytes(tensor.dtype(), tensor.shape());
  bytes.replace(bytes.find("False"), 5, "True ");
  WriteBytes(path_, bytes + std::string(static_cast<const char*>(tensor.raw()), 400));
  EXPECT_EQ(CaughtCode([&] { ReadNpy(path_, {.max_copied_bytes = 799}); }), "memory/limit");
  EXPECT_EQ(ReadNpy(path_, {.max_copied_bytes = 800}).tensor.data<float>()[1], 10);
}

TEST_F(NpyTest, LimitsAreCheckedAgainstTheFileFirst) {
  const std::string header = NpyHeaderBytes(DType::kFloat16, {int64_t{1} << 31});
  WriteBytes(path_, header);
  EXPECT_EQ(CaughtCode([&] { ReadNpy(path_); }), "npy/short-data");
  std::filesystem::resize_file(path_, header.size() + (uint64_t{1} << 32));  // sparse
  EXPECT_EQ(CaughtCode([&] { ReadNpy(path_); }), "npy/shape");
}

// Made with Python's hashlib.
TEST_F(NpyTest, HashesTheValues) {
  EXPECT_EQ(DataHash(Counting(DType::kFloat32, {2, 3})),
            "c186beef70f19d7211ba2952e6e1ebf3729f6671eccae305597ad5b797b907a5");
  EXPECT_EQ(DataHash(Counting(DType::kFloat64, {})),
            "cb0e8465a2aa5b67e4077aba19652b63a5af3456c9dfb155245d0b8acbac319f");
  EXPECT_EQ(DataHash(Counting(DType::kBFloat16, {0, 4})),
            "10ff95452b9f90fbf80e04895681bd92aaab6fa4e90c1ef31f2f075c68a87bdd");
  DataHasher pieces(DType::kFloat32, {2, 3});
  const Tensor tensor = Counting(DType::kFloat32, {2, 3});
  pieces.Update(tensor.raw(), 7);
  pieces.Update(static_cast<const char*>(tensor.raw()) + 7, 17);
  EXPECT_EQ(pieces.Finish(), DataHash(tensor));
}

}  // namespace
}  // namespace convgrad
