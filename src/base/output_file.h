// Files written whole or not at all: until Commit() the path holds what it held before. Must not
// know formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/temporary_file.h"

namespace convgrad {

struct OutputFileOptions {
  bool no_clobber = false;  // an existing file is "io/exists"
};

// One output. What is written goes to a temporary file beside the final place; Commit() makes it
// durable and renames it. A symbolic link is kept and the file it leads to replaced; a character
// device, a pipe and standard output ("-") are written as they are. New files get 0666 less the
// umask.
class OutputFile {
 public:
  // Opens before anything is computed, so that a missing directory, a directory in the file's
  // place, a read-only file system or a full disk shows early. All errors are I/O errors.
  explicit OutputFile(const std::string& path, const OutputFileOptions& options = {});
  OutputFile(OutputFile&&) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;

  // How messages call it: the path, or "standard output".
  const std::string& name() const { return name_; }

  // Claims disk space for `bytes` in all, where the file system can, so that a full disk is an
  // error now.
  void Reserve(int64_t bytes);

  void Write(const void* from, int64_t bytes);
  void Write(std::string_view text) { Write(text.data(), static_cast<int64_t>(text.size())); }

  // All was written. Without it the destructor leaves the path as it was.
  void Commit();

 private:
  void OpenStream(const std::string& path);
  void OpenBeside(const std::string& path);
  int descriptor() const { return stream_.is_open() ? stream_.get() : temporary_.descriptor(); }
  void CheckFlushed() const;

  std::string name_;
  OutputFileOptions options_;
  FileDescriptor stream_;     // written directly
  FileDescriptor directory_;  // of the final file; outlives temporary_
  std::string file_name_;     // in it
  TemporaryFile temporary_;
};

// Throws the error that opening `path` as an output would throw; leaves nothing behind.
void CheckOutputPath(const std::string& path, const OutputFileOptions& options = {});

// Writes `text` to `path` whole or not at all.
void WriteTextFile(const std::string& path, std::string_view text,
                   const OutputFileOptions& options = {});

}  // namespace convgrad
