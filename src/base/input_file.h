// Files opened for reading: only regular ones (or standard input), read or mapped, and checked at
// the end for changes by others. Must not know formats.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/mapped_file.h"

namespace convgrad {

// True if what `path` names can be read but once: standard input, or a pipe that shells name for
// <(command).
bool IsStream(const std::string& path);

class InputFile {
 public:
  // `path`, or standard input for "-". Never waits for a writer and never touches a device:
  // anything but a regular file is "io/not-a-file" (standard input may be a pipe, and so may
  // /dev/fd/N, which shells give for <(command)).
  static std::shared_ptr<InputFile> Open(const std::string& path);

  // How messages call it: the path, or "standard input".
  const std::string& name() const { return name_; }

  // Bytes of a regular file; none for a pipe or for a file of the kernel that claims to be empty.
  std::optional<int64_t> size() const { return size_; }

  FileIdentity identity() const { return IdentityOf(opened_as_); }

  // The next bytes, up to `bytes`; fewer only at the end of the file.
  int64_t Read(void* into, int64_t bytes);

  // The same, but they stay the next.
  std::string_view Peek(int64_t bytes);

  // All that follow, or the first `most` of them.
  std::string ReadRest(int64_t most = INT64_MAX);

  // The whole file in memory, not read yet; nullptr if it has no size or can't be mapped.
  std::shared_ptr<const MappedFile> Map();

  // Throws "io/file-changed" if the file's size or times differ from those at opening, or a mapped
  // page could not be read. Call it when the last byte has been used, before a result counts.
  void CheckUnchanged() const;

 private:
  InputFile(std::string name, FileDescriptor descriptor);
  int64_t ReadOn(char* into, int64_t bytes);

  std::string name_;
  FileDescriptor descriptor_;
  struct stat opened_as_ = {};
  std::optional<int64_t> size_;
  std::string peeked_;  // read from the file, to be given again
  std::shared_ptr<const MappedFile> mapping_;
};

}  // namespace convgrad
