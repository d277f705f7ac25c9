// The events file of a batch: a line of JSON for each finished case, and what a later run may take
// from it. Must not know how cases are run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "cli/text/file_text.h"

namespace convgrad::cli {

// Appends. A line is in the file whole when Add() returns, whatever happens to this process later.
class Journal {
 public:
  // Throws I/O errors, as everything here, and data "events/malformed" for a file that begins with
  // anything but an entry; such a file stays as it is.
  explicit Journal(const std::string& path);

  // `entry` without a line feed. One thread at a time.
  void Add(const std::string& entry);

 private:
  void Write(std::string_view text);

  std::string path_;
  FileDescriptor file_;
};

// The last line of each case, by the case's identity.
class JournalIndex {
 public:
  // Empty where there is no file. Lines that are cut short or no entries are passed over.
  explicit JournalIndex(const std::string& path);

  // The line whose entry has this identity; none without one.
  std::optional<std::string> Find(const std::string& identity) const;

 private:
  struct Line {
    uint64_t key;  // the first digits of the identity
    int64_t begin, end;
  };

  std::optional<FileText> file_;
  std::vector<Line> lines_;  // by key, later lines after earlier ones
};

}  // namespace convgrad::cli
