// A finished report seen from outside: where its entries are and what a merge must know of them,
// without holding them. The text itself stays in the file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/report_scan.h"
#include "cli/text/file_text.h"
#include "cli/text/json.h"

namespace convgrad::cli {

class IndexedReport {
 public:
  // Throws I/O errors, and data "report/malformed" for anything but a batch's report.
  explicit IndexedReport(const std::string& path);

  const std::string& path() const { return path_; }
  const Json& context() const { return context_; }
  const std::vector<IndexedEntry>& entries() const { return entries_; }
  // The error beside the cases, if there was one.
  const std::optional<std::string>& error() const { return error_; }
  void CheckUnchanged() const { file_->CheckUnchanged(); }

  std::string plan_hash() const;
  int64_t num_cases() const;  // of the whole plan
  std::string shard() const;  // "3/8"; "1/1" for a report of all

 private:
  void Read();

  std::string path_;
  std::unique_ptr<const FileText> file_;
  Json context_;
  std::vector<IndexedEntry> entries_;
  std::optional<std::string> error_;
};

}  // namespace convgrad::cli
