// A log read to its end: convolutions that came several times become one case with a count,
// whatever can't be a case is counted with its reason. Must not know where lines come from or where
// cases go.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cli/dialects/dialect.h"
#include "cli/dialects/record_reader.h"

namespace convgrad::cli {

class LogImport {
 public:
  // Different problems of one log; more are refused.
  static constexpr size_t kMaxCases = size_t{1} << 20;

  // `source` as names of cases begin: "verbose.log" of "verbose.log:17". A record is tried in each
  // of `dialects`; the first that speaks of it counts. `on_refusal` hears of each record's first.
  LogImport(const std::string& source, std::span<const Dialect* const> dialects,
            std::function<void(const std::string&)> on_refusal = nullptr);

  // Reads to the end. Throws Stopped when the process was asked to end.
  void Read(const RecordReader::Source& source);

  // How often, and where first.
  struct Tally {
    int64_t count = 0;
    std::string first;
  };

  int64_t num_lines() const { return num_lines_; }
  int64_t num_other_lines() const { return num_other_; }
  int64_t num_refused() const { return num_refused_; }
  // Convolutions, each as often as the log says it came.
  int64_t num_calls() const { return num_calls_; }
  size_t num_cases() const { return cases_.size(); }

  // By reason; what was left out of cases, a bias say.
  const std::map<std::string, Tally>& refusals() const { return refusals_; }
  const std::map<std::string, Tally>& left_out() const { return left_out_; }

  // JSON Lines of a manifest, a line a call: its header, then the cases in the order in which they
  // first came. With `is_checked`, each asks to be checked, not run.
  void WriteCases(bool is_checked, const std::function<void(const std::string&)>& write) const;

  // For people; empty parts are left out.
  std::string Summary() const;

 private:
  struct Case {
    std::string name;
    int64_t count;
  };
  using Cases = std::unordered_map<std::string, Case>;  // by their keys
  struct Reader {
    const Dialect* dialect;
    std::unique_ptr<DialectReader> reader;
  };

  void Take(const RecordReader::Record& record);
  Reading ReadRecord(const RecordReader::Record& record, const Dialect*& dialect);
  void AddConv(const LoggedConv& conv, int64_t count, const std::string& place,
               const std::string& name, const Dialect& dialect);
  void AddRefusal(const Refusal& refusal, int64_t count, const std::string& place);
  static void Add(std::map<std::string, Tally>& tallies, const std::string& what, int64_t count,
                  const std::string& first);

  std::string source_;
  std::vector<Reader> readers_;
  bool joins_objects_ = false;
  std::function<void(const std::string&)> on_refusal_;
  Cases cases_;
  std::vector<const Cases::value_type*> order_;  // in which they first came
  std::map<std::string, Tally> refusals_, left_out_;
  int64_t num_lines_ = 0, num_other_ = 0, num_refused_ = 0, num_calls_ = 0;
};

}  // namespace convgrad::cli
