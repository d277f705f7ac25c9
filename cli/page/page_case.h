// One case, as the page of a report holds it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "measure/comparison.h"

namespace convgrad::cli {

// Words that come again and again, as numbers.
class PageWords {
 public:
  int NumberOf(const std::string& word);
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::vector<std::string> list_;
  std::unordered_map<std::string, int> numbers_;
};

// The words of each kind; each kind is a column of the page's table.
struct PageVocabulary {
  PageWords status, op, dtype, format, shape, tags, isa, algorithm, reason, mistake, bound, verdict;
};

// A case that was timed.
struct PageTiming {
  Estimate estimate;  // milliseconds
  std::optional<double> p5, p95, gflops, intensity, share, peak_gflops, peak_gbs;
  int bound = 0;
  // Against a baseline, if there was one.
  std::optional<double> ratio, ratio_low, ratio_high;
  int verdict = 0;
};

struct PageCase {
  int report = 0;
  int64_t index = 0;  // in its report
  std::string name;
  int status = 0, op = 0, dtype = 0, format = 0, shape = 0, tags = 0, isa = 0, algorithm = 0;
  int reason = 0, mistake = 0;
  int threads = 1;
  bool is_right = true;
  std::optional<double> milliseconds;
  std::optional<PageTiming> timing;
  std::string detail;   // JSON: what the entry says beyond all this
  std::string profile;  // JSON: how large the errors are where; may be empty
};

// `entry` is one of benchmarks[]. Throws Json::exception where it isn't.
PageCase PageCaseOf(const nlohmann::ordered_json& entry, PageVocabulary& words);

// Five digits are more than a page shows.
nlohmann::ordered_json Rounded(const std::optional<double>& value);

}  // namespace convgrad::cli
