// A report written while its cases finish, in whatever order, so that a million of them take no
// memory. The file itself appears when it is whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/output_file.h"
#include "cli/report/report.h"

namespace convgrad::cli {

class ReportWriter {
 public:
  // Writes the context of `report`. Throws I/O errors, as everything here.
  ReportWriter(const std::string& path, const Report& report);

  // The rendered entry of the case at `position`, from 0; each position at most once.
  void Add(int64_t position, std::string entry);

  // The position whose entry must come before any other is written: what lies behind it waits in
  // memory.
  int64_t next_position() const { return next_; }

  // Without the entries that never came. The error is that of `report`.
  void Finish(const Report& report);

 private:
  void Write(const std::string& entry);

  OutputFile file_;
  int64_t next_ = 0;
  bool has_entries_ = false;
  std::map<int64_t, std::string> waiting_;
  std::string buffer_;
};

}  // namespace convgrad::cli
