// Files of several tensors, made byte by byte, so that each claim in them can be false.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/tensor_file.h"
#include "support/file_testing.h"
#include "tensor/npy.h"

namespace convgrad::testing {

// The bytes of a .npy of float32.
inline std::string NpyOf(const Shape& shape, const std::vector<float>& values) {
  return NpyHeaderBytes(DType::kFloat32, shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

// As zip archives have it.
inline uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320 & (0 - (crc & 1)));
  }
  return ~crc;
}

// `bytes`, fewer than 64 KiB, as a deflated stream of one block that is not compressed.
inline std::string Deflated(const std::string& bytes) {
  const auto size = static_cast<uint16_t>(bytes.size());
  const auto byte = [](int value) { return static_cast<char>(value & 0xFF); };
  return std::string{1, byte(size), byte(size >> 8), byte(~size), byte(~size >> 8)} + bytes;
}

struct ZipMember {
  std::string name;
  std::string bytes;  // as they are stored
  int method = 0;     // 8: deflated
  int flags = 0;      // 1: encrypted
  uint64_t size = 0;  // claimed
  uint64_t stored = 0;
  uint32_t crc = 0;
};

// A member whose claims are true.
inline ZipMember Stored(const std::string& name, const std::string& bytes) {
  return {name, bytes, 0, 0, bytes.size(), bytes.size(), Crc32(bytes)};
}
inline ZipMember DeflatedMember(const std::string& name, const std::string& bytes) {
  const std::string stored = Deflated(bytes);
  return {name, stored, 8, 0, bytes.size(), stored.size(), Crc32(bytes)};
}

class LittleEndian {
 public:
  LittleEndian& Put(uint64_t value, int num_bytes) {
    for (int at = 0; at < num_bytes; ++at) text_ += static_cast<char>(value >> (8 * at) & 0xFF);
    return *this;
  }
  LittleEndian& Put(const std::string& bytes) {
    text_ += bytes;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The archive of these members, with sizes of 64 bits where they need them.
inline std::string ZipOf(const std::vector<ZipMember>& members) {
  LittleEndian archive, directory;
  for (const ZipMember& member : members) {
    constexpr uint64_t kFull = 0xFFFFFFFF;
    const bool is_large = member.size >= kFull || member.stored >= kFull;
    LittleEndian common;  // of both headers
    common.Put(45, 2).Put(member.flags, 2).Put(member.method, 2).Put(0, 4).Put(member.crc, 4);
    common.Put(is_large ? kFull : member.stored, 4).Put(is_large ? kFull : member.size, 4);
    LittleEndian extra;
    if (is_large) extra.Put(1, 2).Put(16, 2).Put(member.size, 8).Put(member.stored, 8);
    common.Put(member.name.size(), 2).Put(extra.text().size(), 2);
    const size_t offset = archive.text().size();
    archive.Put("PK\x03\x04").Put(common.text()).Put(member.name).Put(extra.text());
    archive.Put(member.bytes);
    directory.Put("PK\x01\x02").Put(45, 2).Put(common.text());
    directory.Put(0, 2).Put(0, 2).Put(0, 2).Put(0, 4).Put(offset, 4);
    directory.Put(member.name).Put(extra.text());
  }
  LittleEndian end;
  end.Put("PK\x05\x06").Put(0, 2).Put(0, 2).Put(members.size(), 2).Put(members.size(), 2);
  end.Put(directory.text().size(), 4).Put(archive.text().size(), 4).Put(0, 2);
  return archive.text() + directory.text() + end.text();
}

// A .safetensors file of this header and these data.
inline std::string SafetensorsOf(const std::string& header, const std::string& data) {
  return LittleEndian().Put(header.size(), 8).Put(header).Put(data).text();
}

// The bytes of a file of tests/data/tensor_files.tsv.
inline std::string ForeignFile(const std::string& name) {
  for (const auto& row : ReadTable("tensor_files.tsv", 3)) {
    if (row[0] == name) return Unescape(row[2]);
  }
  ADD_FAILURE() << name;
  return "";
}

// A file of several tensors, and what reading it comes to.
class ArchiveTest : public ::testing::Test {
 protected:
  explicit ArchiveTest(const std::string& file) : path_(scratch_ / file) {}

  // Opens a file with these bytes.
  TensorFile OpenBytes(const std::string& bytes, const NpyReadOptions& options = {}) const {
    WriteBytes(path_, bytes);
    return OpenTensorFile(path_, options);
  }
  // The error of reading tensor `name` ("": the only one) of a file with these bytes.
  std::optional<Error> ErrorOf(const std::string& bytes, const std::string& name = "",
                               const NpyReadOptions& options = {}) const {
    WriteBytes(path_, bytes);
    return CaughtError([&] { ReadTensor(name.empty() ? path_ : path_ + ":" + name, options); });
  }
  // Its code, after a look at its message: one line that names the file.
  std::string CodeOf(const std::string& bytes, const std::string& name = "",
                     const NpyReadOptions& options = {}) const {
    const std::optional<Error> error = ErrorOf(bytes, name, options);
    if (!error) return "";
    const bool is_of_data = !error->code().starts_with("memory/");
    EXPECT_EQ(error->exit_code(), is_of_data ? ExitCode::kData : ExitCode::kIo);
    EXPECT_EQ(error->message().find('\n'), std::string::npos);
    EXPECT_TRUE(error->message().starts_with(path_)) << error->message();
    return error->code();
  }

  ScratchDirectory scratch_;
  const std::string path_;
};

}  // namespace convgrad::testing
