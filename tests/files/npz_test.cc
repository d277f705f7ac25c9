// .npz archives: what NumPy writes, and what it would not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/tensor_file.h"
#include "support/archives.h"
#include "tensor/tensor_hash.h"

namespace convgrad {
namespace {

using testing::DeflatedMember;
using ::testing::ElementsAre;
using testing::ForeignFile;
using ::testing::HasSubstr;
using testing::NpyOf;
using ::testing::StartsWith;
using testing::Stored;
using testing::ZipMember;
using testing::ZipOf;

const std::vector<float> kValues = {0, 1, 2, 3, 4, 5};

class NpzTest : public testing::ArchiveTest {
 protected:
  NpzTest() : ArchiveTest("x.npz") {}

  std::vector<float> Floats(const std::string& name) const {
    const Tensor tensor = ReadTensor(path_ + ":" + name).tensor;
    EXPECT_EQ(tensor.dtype(), DType::kFloat32);
    return {tensor.data<float>(), tensor.data<float>() + tensor.num_elements()};
  }
};

TEST_F(NpzTest, ReadsWhatNumpyWrites) {
  for (const char* file : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(file);
    const TensorFile opened = OpenBytes(ForeignFile(file));
    EXPECT_THAT(opened.container->names(), ElementsAre("x", "w", "sizes"));
    EXPECT_EQ(Floats("x"), kValues);
    const StoredTensor w = ReadTensor(path_ + ":w");
    EXPECT_EQ(w.tensor.dtype(), DType::kFloat16);
    EXPECT_EQ(w.tensor.shape(), Shape({2, 3}));
    EXPECT_TRUE(w.header.fortran_order && w.header.swapped && w.header.is_copied);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(ToFloat(w.tensor.data<Float16>()[i]), kValues[i]);
    const Tensor sizes = ReadTensor(path_ + ":sizes").tensor;
    EXPECT_EQ(sizes.data<int64_t>()[1], 3);
    EXPECT_EQ(ReadTensorHeader(path_ + ":w").shape, Shape({2, 3}));
  }
}

TEST_F(NpzTest, OneTensorNeedsNoName) {
  for (const char* file : {"one.npz", "streamed.npz"}) {
    WriteBytes(path_, ForeignFile(file));
    EXPECT_EQ(ReadTensor(path_).tensor.data<float>()[5], 5) << file;
    EXPECT_EQ(ReadTensorHeader(path_).shape, Shape({2, 3})) << file;
  }
}

TEST_F(NpzTest, AWrongNameListsThoseThereAre) {
  const std::string bytes = ForeignFile("stored.npz");
  const std::optional<Error> unknown = ErrorOf(bytes, "y");
  EXPECT_EQ(unknown->code(), "tensor/unknown-name");
  EXPECT_THAT(unknown->message(), HasSubstr("x, w, sizes"));
  EXPECT_EQ(unknown->exit_code(), ExitCode::kData);
  const std::optional<Error> none = ErrorOf(bytes);
  EXPECT_EQ(none->code(), "tensor/name-needed");
  EXPECT_THAT(none->message(), HasSubstr("3 tensors; name one, as in " + path_ + ":x"));
  EXPECT_EQ(CodeOf(ZipOf({})), "tensor/name-needed");
  EXPECT_EQ(CodeOf(NpyOf({2, 3}, kValues), "x"), "tensor/unknown-name");
  std::vector<ZipMember> many;
  for (int i = 0; i < 30; ++i) many.push_back(Stored(std::to_string(i), ""));
  EXPECT_THAT(ErrorOf(ZipOf(many), "a")->message(), HasSubstr("18, 19 and 10 more"));
}

// The contents of the file count, not how it is called.
TEST_F(NpzTest, TheFirstBytesSayTheFormat) {
  const std::string other = scratch_ / "x.npy";
  WriteBytes(other, ForeignFile("one.npz"));
  EXPECT_EQ(ReadTensor(other).tensor.num_elements(), 6);
  WriteBytes(path_, NpyOf({2, 3}, kValues));
  EXPECT_EQ(ReadTensor(path_).tensor.num_elements(), 6);
  EXPECT_EQ(CodeOf("hello"), "npz/malformed");
  EXPECT_EQ(CodeOf(""), "npz/malformed");
}

TEST_F(NpzTest, LargeMembersAreWhole) {
  std::vector<float> values(100000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::string npy = NpyOf({100, 1000}, values);
  WriteBytes(path_, ZipOf({Stored("x.npy", npy)}));
  EXPECT_EQ(Floats("x"), values);
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.npy", npy)}), "x", {.max_copied_bytes = 1000}), "memory/limit");
}

TEST_F(NpzTest, BadMembersAreRefused) {
  const std::string npy = NpyOf({2, 3}, kValues);
  const auto with = [&](const std::function<void(ZipMember&)>& change, bool deflated = false) {
    ZipMember member = deflated ? DeflatedMember("x.npy", npy) : Stored("x.npy", npy);
    change(member);
    return ZipOf({member});
  };
  using Member = ZipMember;
  EXPECT_EQ(CodeOf(with([](Member&) {})), "");
  EXPECT_EQ(CodeOf(with([](Member&) {}, true)), "");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.crc ^= 1; })), "npz/malformed");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.crc ^= 1; }, true)), "npz/malformed");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.bytes[0] = 7; }, true)), "npz/malformed");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.bytes.back() ^= 1; }, true)), "npz/malformed");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.size -= 1; })), "npz/malformed");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.size -= 1; }, true)), "npy/short-data");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.size += 1; }, true)), "npy/trailing-data");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.size += 1; }, true), "", {.allow_trailing = true}),
            "npz/malformed");
  EXPECT_EQ(CodeOf(with([](Member& m) { m.flags = 1; })), "npz/encrypted");
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.npy", npy + "more")})), "npy/trailing-data");
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.npy", npy + "more")}), "", {.allow_trailing = true}), "");
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.npy", npy.substr(0, npy.size() - 1))})), "npy/short-data");
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.npy", npy.substr(0, 100))})), "npy/truncated-header");
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.npy", "")})), "npy/not-npy");
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.txt", "no array")})), "npy/not-npy");
  EXPECT_EQ(CodeOf(ZipOf({Stored("a\nb", "no array")})), "npy/not-npy");
}

TEST_F(NpzTest, OtherCompressionsAreNamed) {
  ZipMember member = Stored("x.npy", NpyOf({2, 3}, kValues));
  for (const auto& [method, name] : {std::pair(9, "Deflate64"),
                                     {12, "bzip2"},
                                     {14, "LZMA"},
                                     {93, "Zstandard"},
                                     {77, "unknown"}}) {
    member.method = method;
    const std::optional<Error> error = ErrorOf(ZipOf({member}));
    EXPECT_EQ(error->code(), "npz/compression");
    EXPECT_THAT(error->message(), HasSubstr(std::string(name) + " (method "));
  }
}

TEST_F(NpzTest, TwoMembersOfOneNameAreRefused) {
  const ZipMember member = Stored("x.npy", NpyOf({2, 3}, kValues));
  ZipMember bare = member;
  bare.name = "x";
  for (const ZipMember& other : {member, bare}) {
    EXPECT_EQ(CodeOf(ZipOf({member, Stored("y.npy", ""), other}), "y"), "npz/duplicate-name");
  }
}

// One that can't be read hides no other.
TEST_F(NpzTest, BadMembersLeaveOthers) {
  ZipMember bad = Stored("bad.npy", NpyOf({2, 3}, kValues));
  bad.flags = 1;
  WriteBytes(path_, ZipOf({bad, Stored("x.npy", NpyOf({2, 3}, kValues))}));
  EXPECT_EQ(Floats("x"), kValues);
}

// A limit on copies that what is there keeps: an archive that claims more is refused for its claim,
// not after memory was taken for it.
TEST_F(NpzTest, ClaimsBeyondTheFileTakeNoMemory) {
  const NpyReadOptions limited = {.max_copied_bytes = 1 << 20};
  const std::string header = NpyHeaderBytes(DType::kFloat32, {int64_t{1} << 40});
  const uint64_t claimed = (uint64_t{4} << 40) + header.size();
  for (const uint64_t size : {claimed, uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1} << 31}) {
    ZipMember stored = Stored("x.npy", header);
    stored.size = stored.stored = size;
    EXPECT_EQ(CodeOf(ZipOf({stored}), "", limited), "npz/malformed") << size;
    ZipMember deflated = DeflatedMember("x.npy", header);
    deflated.size = size;
    EXPECT_EQ(CodeOf(ZipOf({deflated}), "", limited), "npz/malformed") << size;
    deflated.stored = size;
    EXPECT_EQ(CodeOf(ZipOf({deflated}), "", limited), "npz/malformed") << size;
  }
  // The most that deflated bytes could hold, which these do not.
  ZipMember most = DeflatedMember("x.npy", header);
  most.size = 1032 * most.stored;
  EXPECT_EQ(CodeOf(ZipOf({most}), "", limited), "npy/short-data");
  // The array claims more than its member.
  EXPECT_EQ(CodeOf(ZipOf({Stored("x.npy", header)}), "", limited), "npy/short-data");
}

TEST_F(NpzTest, EveryTruncationIsAnError) {
  for (const char* file : {"stored.npz", "deflated.npz", "streamed.npz"}) {
    const std::string bytes = ForeignFile(file);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THAT(CodeOf(bytes.substr(0, size), "x"), StartsWith("npz/")) << file << " " << size;
    }
  }
}

// Numbers are held by a checksum.
TEST_F(NpzTest, EveryFlippedBitIsAnErrorOrChangesNoNumber) {
  for (const char* file : {"one.npz", "streamed.npz"}) {
    const std::string good = ForeignFile(file);
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      WriteBytes(path_, bytes);
      std::string hash;
      const std::optional<Error> error =
          CaughtError([&] { hash = DataHash(ReadTensor(path_).tensor); });
      if (error) {
        EXPECT_EQ(error->exit_code(), ExitCode::kData) << error->message();
        continue;
      }
      EXPECT_EQ(hash, "c186beef70f19d7211ba2952e6e1ebf3729f6671eccae305597ad5b797b907a5")
          << file << " bit " << bit;
    }
  }
}

TEST_F(NpzTest, NothingWritesOne) {
  EXPECT_EQ(CaughtCode([&] { ParseTensorTarget(path_, "x"); }), "output/format");
  EXPECT_EQ(CaughtCode([&] { ParseTensorTarget("-:x", "x"); }), "output/format");
}

}  // namespace
}  // namespace convgrad
