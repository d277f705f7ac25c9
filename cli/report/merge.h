// The reports of shards as one: refused unless together they are exactly one whole batch. Entries
// stay text; only their order changes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/report/report_index.h"

namespace convgrad::cli {

class MergedReport {
 public:
  // Throws I/O errors, and data errors that name what is missing or double: "report/malformed",
  // "merge/different-plans", "merge/different-shards", "merge/double", "merge/missing",
  // "merge/failed".
  explicit MergedReport(const std::vector<std::string>& paths);

  int64_t num_cases() const { return static_cast<int64_t>(entries_.size()); }
  int64_t num_shards() const { return static_cast<int64_t>(reports_.size()); }
  // The worst of all cases.
  ExitCode exit_code() const;

  // That of the first shard, of all cases now, by the command line that merged.
  Json Context(const std::string& command_line) const;

  // Differences between the shards that don't forbid a merge, for people.
  std::vector<std::string> Warnings() const;

  // The entries in the plan's order, as JSON text.
  void ForEachEntry(const std::function<void(std::string_view)>& use) const;

  // Throws "io/file-changed". Call it when the last entry has been used.
  void CheckUnchanged() const;

 private:
  struct Entry {
    const IndexedEntry* entry;
    const IndexedReport* report;
  };

  void CheckPlans() const;
  void CheckShards();
  void CollectEntries();
  void CheckNothingMissing() const;
  void CheckErrors() const;

  std::vector<IndexedReport> reports_;  // in the order of their shards
  std::vector<Entry> entries_;          // in the order of the plan
};

}  // namespace convgrad::cli
