// The data of a page: all cases as compact columns, details of as many as a page of two megabytes
// takes, those that are not right first. Must not know how they are shown.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/page/page_case.h"

namespace convgrad::cli {

class PageData {
 public:
  // Cases that are added from here on belong to the report of this name.
  void Begin(const std::string& name);
  // One of benchmarks[], as JSON text. Throws data "report/malformed".
  void Add(std::string_view entry);
  // The report's own objects as JSON text; empty without them. Throws likewise.
  void Describe(std::string_view context, std::string_view error);
  // Something that a reader should know of how the report was read.
  void Note(const std::string& text);

  int64_t num_cases() const;

  // As JSON without '<' and without line separators: fit for a page's script element. Of
  // `most_bytes` it takes what it needs for the columns, then what is left for details.
  std::string Render(size_t most_bytes) const;

 private:
  struct Report {
    std::string name, context, error;
    std::vector<std::string> notes;
    std::map<std::string, int64_t> counts;  // by status
    int64_t left_out = 0;                   // right ones that the table lacks
  };

  std::vector<const PageCase*> InOrder() const;
  nlohmann::ordered_json Reports() const;

  std::vector<Report> reports_;
  std::vector<PageCase> cases_;
  PageVocabulary words_;
  size_t detail_bytes_ = 0;
};

}  // namespace convgrad::cli
