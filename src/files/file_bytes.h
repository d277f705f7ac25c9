// All bytes of a file in memory, mapped where that is possible. Must not know formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/input_file.h"
#include "base/memory.h"

namespace convgrad {

// The remedy where bytes are missing or damaged.
inline constexpr const char* kCopyAgain = "copy or write the file again";

class FileBytes {
 public:
  // Reads what of `file` was not read yet, but by Peek(): a pipe to its end; memory grows with
  // what has come. Throws "memory/limit" for more than `max_copied_bytes` (0: no limit) that can't
  // be mapped, and I/O errors.
  static std::shared_ptr<const FileBytes> Of(const std::shared_ptr<InputFile>& file,
                                             int64_t max_copied_bytes);

  const std::string& name() const { return file_->name(); }
  int64_t size() const { return size_; }
  // At least kAlignment bytes after the last are readable too.
  const std::byte* data() const { return data_; }
  std::string_view text(int64_t offset, int64_t bytes) const {
    return {reinterpret_cast<const char*>(data_) + offset, static_cast<size_t>(bytes)};
  }

  // The owner that keeps the bytes in place.
  const std::shared_ptr<const void>& storage() const { return storage_; }

  // As MappedFile's; nothing for bytes that are in memory.
  void ReadAhead(int64_t offset, int64_t bytes) const;

  // Throws "io/file-changed".
  void CheckUnchanged() const { file_->CheckUnchanged(); }

 private:
  explicit FileBytes(std::shared_ptr<InputFile> file) : file_(std::move(file)) {}
  void Read(int64_t max_copied_bytes);

  std::shared_ptr<InputFile> file_;
  std::shared_ptr<const MappedFile> mapping_;
  std::shared_ptr<const void> storage_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace convgrad
