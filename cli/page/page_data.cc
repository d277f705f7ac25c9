#include "cli/page/page_data.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr size_t kMostCases = 100'000;             // in the table
constexpr size_t kFewCases = 256;                  // of which the right ones have details too
constexpr size_t kMostKept = size_t{16} << 20;     // bytes of details until the page is written
constexpr size_t kLeastDetails = size_t{1} << 16;  // whatever the columns take
// The part of the room for details that those of all cases take, before any case's profile.
constexpr double kShareOfDetails = 0.7;
constexpr double kTolerance = 0.05;  // of times: what bench --regress says by default

using Cases = std::vector<const PageCase*>;

// Text that may stand in a script element of a page: nothing ends it, nothing breaks its lines.
std::string ForScript(const std::string& json) {
  std::string text;
  text.reserve(json.size() + json.size() / 64);
  for (size_t at = 0; at < json.size(); ++at) {
    const std::string_view rest = std::string_view(json).substr(at, 3);
    if (rest[0] == '<') {
      text += "\\u003c";
    } else if (rest == "\xE2\x80\xA8" || rest == "\xE2\x80\xA9") {
      text += rest[2] == '\xA8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      text += rest[0];
    }
  }
  return text;
}

template <class Value>
Json ColumnOf(const Cases& cases, const Value& value) {
  Json column = Json::array();
  for (const PageCase* one : cases) column.push_back(value(*one));
  return column;
}

// The words of a column in the order in which the cases have them: the same page, whatever the
// order in which cases finished.
class OrderedWords {
 public:
  explicit OrderedWords(const PageWords& words)
      : words_(words.list()), numbers_(words_.size(), kNone) {}

  int NumberOf(int word) {
    int& number = numbers_[static_cast<size_t>(word)];
    if (number == kNone) {
      number = static_cast<int>(list_.size());
      list_.push_back(words_[static_cast<size_t>(word)]);
    }
    return number;
  }
  const Json& list() const { return list_; }

 private:
  static constexpr int kNone = -1;

  const std::vector<std::string>& words_;
  std::vector<int> numbers_;
  Json list_ = Json::array();
};

// Their words go to `words`.
Json Columns(const Cases& cases, const PageVocabulary& vocabulary, Json& words) {
  Json columns = {
      {"report", ColumnOf(cases, [](const PageCase& one) { return one.report; })},
      {"index", ColumnOf(cases, [](const PageCase& one) { return one.index; })},
      {"name", ColumnOf(cases, [](const PageCase& one) { return one.name; })},
      {"threads", ColumnOf(cases, [](const PageCase& one) { return one.threads; })},
      {"right", ColumnOf(cases, [](const PageCase& one) { return one.is_right ? 1 : 0; })},
      {"ms", ColumnOf(cases, [](const PageCase& one) { return Rounded(one.milliseconds); })}};
  struct Column {
    const char* name;
    PageWords PageVocabulary::*words;
    int PageCase::*word;
  };
  constexpr Column kColumns[] = {{"status", &PageVocabulary::status, &PageCase::status},
                                 {"op", &PageVocabulary::op, &PageCase::op},
                                 {"dtype", &PageVocabulary::dtype, &PageCase::dtype},
                                 {"format", &PageVocabulary::format, &PageCase::format},
                                 {"shape", &PageVocabulary::shape, &PageCase::shape},
                                 {"tags", &PageVocabulary::tags, &PageCase::tags},
                                 {"isa", &PageVocabulary::isa, &PageCase::isa},
                                 {"algorithm", &PageVocabulary::algorithm, &PageCase::algorithm},
                                 {"reason", &PageVocabulary::reason, &PageCase::reason},
                                 {"mistake", &PageVocabulary::mistake, &PageCase::mistake}};
  for (const Column& column : kColumns) {
    OrderedWords ordered(vocabulary.*column.words);
    columns[column.name] =
        ColumnOf(cases, [&](const PageCase& one) { return ordered.NumberOf(one.*column.word); });
    words[column.name] = ordered.list();
  }
  return columns;
}

// The timed cases, by the names of their columns; likewise.
Json Timings(const Cases& cases, const PageVocabulary& vocabulary, Json& words) {
  Json columns = Json::object();
  const auto put = [&](const char* name, const auto& value) {
    for (size_t row = 0; row < cases.size(); ++row) {
      if (cases[row]->timing) columns[name].push_back(value(*cases[row]->timing, row));
    }
  };
  const auto put_number = [&](const char* name, std::optional<double> PageTiming::*member) {
    put(name, [&](const PageTiming& timing, size_t) { return Rounded(timing.*member); });
  };
  const auto put_word = [&](const char* name, const PageWords& list, int PageTiming::*member) {
    OrderedWords ordered(list);
    put(name, [&](const PageTiming& timing, size_t) { return ordered.NumberOf(timing.*member); });
    words[name] = ordered.list();
  };
  const auto put_end = [&](const char* name, double Interval::*end) {
    put(name, [&](const PageTiming& timing, size_t) {
      const auto& ci = timing.estimate.ci;
      return Rounded(ci ? std::optional((*ci).*end) : std::nullopt);
    });
  };
  put("row", [](const PageTiming&, size_t row) { return row; });
  put("median", [](const PageTiming& timing, size_t) { return Rounded(timing.estimate.median); });
  put_end("low", &Interval::low);
  put_end("high", &Interval::high);
  put_number("p5", &PageTiming::p5);
  put_number("p95", &PageTiming::p95);
  put_number("gflops", &PageTiming::gflops);
  put_number("intensity", &PageTiming::intensity);
  put_number("share", &PageTiming::share);
  put_number("peak_gflops", &PageTiming::peak_gflops);
  put_number("peak_gbs", &PageTiming::peak_gbs);
  put_word("bound", vocabulary.bound, &PageTiming::bound);
  put_number("ratio", &PageTiming::ratio);
  put_number("ratio_low", &PageTiming::ratio_low);
  put_number("ratio_high", &PageTiming::ratio_high);
  put_word("verdict", vocabulary.verdict, &PageTiming::verdict);
  return columns;
}

// Each case of a later report that the first has too, by name and threads: the rows of both, and
// where both were timed, the ratio of their times.
Json Compared(const Cases& cases) {
  const auto key_of = [](const PageCase& one) { return std::pair(one.name, one.threads); };
  std::map<std::pair<std::string, int>, size_t> first;
  for (size_t row = 0; row < cases.size(); ++row) {
    if (cases[row]->report == 0) first.emplace(key_of(*cases[row]), row);
  }
  Json columns = Json::object();
  for (size_t row = 0; row < cases.size(); ++row) {
    const PageCase& now = *cases[row];
    const auto found = now.report == 0 ? first.end() : first.find(key_of(now));
    if (found == first.end()) continue;
    const PageCase& before = *cases[found->second];
    std::optional<Comparison> times;
    const auto is_timed = [](const PageCase& one) {
      return one.timing && one.timing->estimate.median > 0;
    };
    if (is_timed(now) && is_timed(before)) {
      times = CompareRuns(now.timing->estimate, before.timing->estimate, kTolerance);
    }
    columns["row"].push_back(row);
    columns["base"].push_back(found->second);
    columns["ratio"].push_back(Rounded(times ? std::optional(times->ratio) : std::nullopt));
    const bool has_interval = times && times->ci;
    columns["low"].push_back(has_interval ? Rounded(times->ci->low) : Json());
    columns["high"].push_back(has_interval ? Rounded(times->ci->high) : Json());
    columns["verdict"].push_back(times ? Json(NameOf(times->verdict)) : Json());
  }
  return columns;
}

// As many of the cases' texts as fit, as an object by their rows.
class FittingTexts {
 public:
  explicit FittingTexts(size_t budget) : budget_(budget) {}

  void Add(const Cases& cases, std::string PageCase::*text, bool right_ones) {
    for (size_t row = 0; row < cases.size(); ++row) {
      const std::string& json = cases[row]->*text;
      if (json.empty() || cases[row]->is_right != right_ones) continue;
      std::string item = "\"" + std::to_string(row) + "\":" + ForScript(json);
      if (used() + item.size() > budget_) continue;
      text_ += (text_.empty() ? "" : ",") + item;
      ++count_;
    }
  }

  size_t used() const { return text_.size(); }
  int64_t count() const { return count_; }
  std::string object() const { return "{" + text_ + "}"; }

 private:
  size_t budget_;
  std::string text_;
  int64_t count_ = 0;
};

// A context, as far as a reader wants it.
Json ShortContext(const std::string& text) {
  Json context = text.empty() ? Json::object() : ParseJson(text);
  for (const char* key : {"load", "caches", "num_cpus"}) context.erase(key);
  return context;
}

}  // namespace

void PageData::Begin(const std::string& name) {
  reports_.emplace_back();
  reports_.back().name = name;
}

void PageData::Add(std::string_view entry) try {
  PageCase one = PageCaseOf(ParseJson(entry), words_);
  Report& report = reports_.back();
  ++report.counts[words_.status.list()[static_cast<size_t>(one.status)]];
  if (one.is_right && cases_.size() >= kMostCases) {
    ++report.left_out;
    return;
  }
  one.report = static_cast<int>(reports_.size()) - 1;
  if (one.index < 0) one.index = static_cast<int64_t>(cases_.size());
  const bool keeps_detail =
      (!one.is_right || cases_.size() < kFewCases) && detail_bytes_ < kMostKept;
  if (!keeps_detail) one.detail = one.profile = "";
  detail_bytes_ += one.detail.size() + one.profile.size();
  cases_.push_back(std::move(one));
} catch (const Json::exception& exception) {
  ThrowData("report/malformed", reports_.back().name, "an entry: " + WhyOf(exception));
}

void PageData::Describe(std::string_view context, std::string_view error) {
  reports_.back().context = context;
  reports_.back().error = error;
}

void PageData::Note(const std::string& text) {
  reports_.back().notes.push_back(text);
}

int64_t PageData::num_cases() const {
  int64_t count = 0;
  for (const Report& report : reports_) {
    for (const auto& [status, number] : report.counts) count += number;
  }
  return count;
}

// Cases of a batch finish in any order.
Cases PageData::InOrder() const {
  Cases cases;
  for (const PageCase& one : cases_) cases.push_back(&one);
  std::stable_sort(cases.begin(), cases.end(), [](const PageCase* a, const PageCase* b) {
    return std::pair(a->report, a->index) < std::pair(b->report, b->index);
  });
  return cases;
}

Json PageData::Reports() const try {
  Json reports = Json::array();
  for (const Report& report : reports_) {
    Json counts = Json::object();
    for (const auto& [status, number] : report.counts) counts[status] = number;
    reports.push_back({{"name", report.name},
                       {"context", ShortContext(report.context)},
                       {"error", report.error.empty() ? Json() : ParseJson(report.error)},
                       {"notes", report.notes},
                       {"counts", std::move(counts)},
                       {"left_out", report.left_out}});
  }
  return reports;
} catch (const Json::exception& exception) {
  ThrowData("report/malformed", reports_.back().name, "its context: " + WhyOf(exception));
}

std::string PageData::Render(size_t most_bytes) const {
  const Cases cases = InOrder();
  Json words = Json::object();
  Json json = {{"reports", Reports()},
               {"cases", Columns(cases, words_, words)},
               {"timings", Timings(cases, words_, words)},
               {"compared", Compared(cases)}};
  json["words"] = std::move(words);
  std::string text = ForScript(DumpJson(json));
  const size_t left = most_bytes > text.size() ? most_bytes - text.size() : 0;
  const size_t budget = std::max(left, kLeastDetails);
  FittingTexts details(static_cast<size_t>(kShareOfDetails * static_cast<double>(budget)));
  details.Add(cases, &PageCase::detail, /*right_ones=*/false);
  const auto is_bad = [](const PageCase* one) { return !one->is_right; };
  const int64_t without = std::count_if(cases.begin(), cases.end(), is_bad) - details.count();
  if (cases.size() <= kFewCases) details.Add(cases, &PageCase::detail, /*right_ones=*/true);
  FittingTexts profiles(budget - details.used());
  profiles.Add(cases, &PageCase::profile, /*right_ones=*/false);
  text.pop_back();
  return text + ",\"details\":" + details.object() + ",\"profiles\":" + profiles.object() +
         ",\"without_details\":" + std::to_string(without) + "}";
}

}  // namespace convgrad::cli
