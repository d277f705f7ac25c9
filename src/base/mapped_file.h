// Files mapped into memory for reading, safe against another process that cuts the file short.
// Must not know who reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace convgrad {

// The first `size()` bytes of a file. At least kAlignment bytes after them are readable too.
//
// A page that can't be read (the file was truncated, or the disk failed) would end the process with
// SIGBUS. A handler puts a page of zeros there instead and marks the mapping as damaged, so that
// the computation runs to its end and whoever uses its result asks damaged() first. Faults at other
// addresses go to the handler that was installed before.
class MappedFile {
 public:
  // nullptr where mapping is not possible (no memory, a file system without it): read instead.
  static std::shared_ptr<const MappedFile> Map(int descriptor, int64_t size);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  bool damaged() const;

  // Reads this part of the file now, in large pieces, so that loading is not counted as computing;
  // nothing where it would not fit in memory.
  void ReadAhead(int64_t offset, int64_t bytes) const;

 private:
  MappedFile(const std::byte* data, int64_t size, size_t reserved_bytes, int slot)
      : data_(data), size_(size), reserved_bytes_(reserved_bytes), slot_(slot) {}

  const std::byte* data_;
  int64_t size_;
  size_t reserved_bytes_;
  int slot_;  // in the handler's list
};

}  // namespace convgrad
