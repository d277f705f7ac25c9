// The reports of shards as one: refused unless together they are exactly one whole batch. Entries
// stay text; only their order changes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/report/report.h"
#include "cli/report/report_index.h"

namespace convgrad::cli {

class MergedReport {
 public:
  // Throws I/O errors, and data errors that name what is missing or double: "report/malformed",
  // "merge/different-plans", "merge/different-shards", "merge/double"; and unless what is missing
  // is allowed to be, "merge/missing" and "merge/failed".
  explicit MergedReport(const std::vector<std::string>& paths, bool allow_missing = false);

  int64_t num_cases() const { return static_cast<int64_t>(entries_.size()); }
  // Numbers and code of the whole batch.
  int64_t num_planned() const { return reports_.front().num_cases(); }
  int64_t num_shards() const { return static_cast<int64_t>(reports_.size()); }
  // A case whose images were dealt to several shards, and the entries of its parts that there are.
  struct PartEntry {
    std::string_view text;
    std::string report;  // its path
    ExitCode exit_code;
  };
  struct SplitCase {
    int64_t index;  // in the plan
    std::vector<PartEntry> parts;
  };
  // They are no cases of this report before each has been given its entry, or has been refused.
  const std::vector<SplitCase>& split_cases() const { return split_cases_; }
  void SetEntry(const SplitCase& one, std::string entry, ExitCode exit_code);
  // Throws `error`; where what is missing may be, the case is.
  void Refuse(const Error& error);

  // The worst of all cases, and of what is missing.
  ExitCode exit_code() const;

  // That of the first shard, of all cases now, by the command line that merged.
  Json Context(const std::string& command_line) const;

  // Differences between the shards that don't forbid a merge, and what is missing, for people.
  std::vector<std::string> Warnings() const;

  // Names what is missing, if anything is; the merged report has it as its error, so that nobody
  // takes a part for the whole.
  const std::optional<ErrorRecord>& incomplete() const { return incomplete_; }

  // The entries in the plan's order, as JSON text.
  void ForEachEntry(const std::function<void(std::string_view)>& use) const;
  // Those of cases that are not right.
  void ForEachBadEntry(const std::function<void(std::string_view)>& use) const;

  // Throws "io/file-changed". Call it when the last entry has been used.
  void CheckUnchanged() const;

 private:
  struct Entry {
    const IndexedEntry* entry;
    const IndexedReport* report;  // null: it was made of parts
  };

  void CheckPlans() const;
  void CheckShards();
  void CollectEntries();
  void FindMissing();
  void FindErrors();
  void SetSplitCasesApart();
  void SortEntries();

  std::vector<IndexedReport> reports_;  // in the order of their shards
  std::vector<Entry> entries_;          // in the order of the plan
  std::vector<SplitCase> split_cases_;  // likewise
  std::deque<std::string> texts_;       // of entries that were made of parts
  std::deque<IndexedEntry> made_;
  std::vector<std::string> gaps_;  // what is missing, for people
  std::optional<ErrorRecord> incomplete_;
  bool allow_missing_;
};

}  // namespace convgrad::cli
