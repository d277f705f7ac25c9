#include "cli/report/report_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

// Walks over a text and lets others see how far the parser has come: right behind the token that it
// last told of, since JSON's brackets need no look ahead.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** shown) : at_(at), shown_(shown) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *shown_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    Cursor old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** shown_;
};

// Notes where the context, the entries and the report's own error stand, and an entry's numbers.
class ReportScanner : public nlohmann::json_sax<Json> {
 public:
  explicit ReportScanner(std::string_view text) : position(text.data()) {}

  const char* position;  // set by the cursor
  ScannedReport report;
  std::string problem;  // of the syntax

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool key(string_t& key) override {
    if (depth_ == 1) section_ = key;
    if (InEntry() && depth_ == 3) key_ = key;
    if (InEntry() && depth_ == 3 && key == "split") report.entries.back().is_part = true;
    return true;
  }
  bool start_object(std::size_t) override {
    if (!Descend()) return false;
    if (depth_ == 3 && InEntry()) report.entries.push_back({-1, std::nullopt, {}, false});
    if (depth_ == (InEntry() ? 3 : 2)) begin_ = position - 1;
    key_.clear();
    return true;
  }
  bool end_object() override {
    const std::string_view text(begin_ == nullptr ? position : begin_,
                                begin_ == nullptr ? 0 : static_cast<size_t>(position - begin_));
    if (depth_ == 3 && InEntry()) report.entries.back().text = text;
    if (depth_ == 2 && section_ == "context") report.context = text;
    if (depth_ == 2 && section_ == "error") report.error = text;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return Descend(); }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    problem = WhyOf(exception);
    return false;
  }

 private:
  bool Descend() {
    if (++depth_ <= kMaxJsonDepth) return true;
    problem = "values are nested too deeply";
    return false;
  }
  bool InEntry() const { return section_ == "benchmarks"; }
  bool Number(int64_t value) {
    if (depth_ != 3 || !InEntry() || report.entries.empty()) return true;
    if (key_ == "family_index") report.entries.back().index = value;
    if (key_ == "exit_code") report.entries.back().exit_code = ToExitCode(value);
    return true;
  }

  int depth_ = 0;
  std::string section_, key_;
  const char* begin_ = nullptr;
};

}  // namespace

ScannedReport ScanReport(const std::string& path, std::string_view text) {
  ReportScanner scanner(text);
  const bool is_whole =
      Json::sax_parse(Cursor(text.data(), &scanner.position),
                      Cursor(text.data() + text.size(), &scanner.position), &scanner);
  if (!is_whole) RefuseReport(path, scanner.problem);
  if (scanner.report.context.empty()) RefuseReport(path, "has no context");
  return std::move(scanner.report);
}

void RefuseReport(const std::string& path, const std::string& why) {
  ThrowData("report/malformed", path, why, "give reports that 'convgrad --report' wrote");
}

void CheckReportSchema(const std::string& path, const std::string& schema) {
  if (schema != "convgrad-report/1") {
    RefuseReport(path, fmt::format("has the schema '{}', not convgrad-report/1", schema));
  }
}

}  // namespace convgrad::cli
