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
  // anything but an entry, "events/other-shard" for one whose entries are of another shard than
  // `shard` ("3/8"; empty: all cases run here); such files stay as they are.
  explicit Journal(const std::string& path, std::string shard = "");

  // `entry`, an object without a line feed; in the file its shard is added to it. One thread at a
  // time.
  void Add(const std::string& entry);

 private:
  void Write(std::string_view text);

  std::string path_;
  std::string shard_;
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
