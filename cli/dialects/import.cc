#include "cli/dialects/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/text/json.h"
#include "cli/text/unicode.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

// Reasons may name what a line has; so many different ones are told apart.
constexpr size_t kMaxReasons = 1000;
constexpr size_t kMaxSourceBytes = 3000;

constexpr const char* kHeader = R"({"schema": "convgrad-manifest/1"})"
                                "\n";

std::string Rows(const char* title, const std::map<std::string, LogImport::Tally>& tallies) {
  using Row = std::pair<std::string, LogImport::Tally>;
  std::vector<Row> rows(tallies.begin(), tallies.end());
  std::stable_sort(rows.begin(), rows.end(), [](const Row& one, const Row& other) {
    return one.second.count > other.second.count;
  });
  std::string text;
  for (const auto& [what, tally] : rows) {
    text += fmt::format("  {:<12} {}  {}; first {}\n", text.empty() ? title : "", tally.count, what,
                        tally.first);
  }
  return text;
}

}  // namespace

LogImport::LogImport(const std::string& source, std::span<const Dialect* const> dialects,
                     std::function<void(const std::string&)> on_refusal)
    : source_(ToValidUtf8(source)), on_refusal_(std::move(on_refusal)) {
  // Names have a limit; the last part of a path still points back.
  if (source_.size() > kMaxSourceBytes) source_ = source_.substr(source_.rfind('/') + 1);
  for (const Dialect* dialect : dialects) {
    if (dialect->make_reader == nullptr) continue;
    readers_.push_back({dialect, dialect->make_reader()});
    joins_objects_ = joins_objects_ || dialect->is_json;
  }
}

void LogImport::Read(const RecordReader::Source& source) {
  RecordReader records(source, joins_objects_);
  while (const auto record = records.Next()) {
    if (StopRequested()) throw Stopped{};
    Take(*record);
  }
}

Reading LogImport::ReadRecord(const RecordReader::Record& record, const Dialect*& dialect) {
  for (Reader& one : readers_) {
    if (one.dialect->is_json != record.is_object) continue;
    Reading reading = one.reader->Read(record.text);
    dialect = one.dialect;
    if (!reading.convs.empty() || !reading.refusals.empty()) return reading;
  }
  return {};
}

void LogImport::Take(const RecordReader::Record& record) {
  num_lines_ += record.lines;
  const std::string place = fmt::format("{}:{}", source_, record.line);
  if (!record.is_whole) {
    AddRefusal(
        Refusal(
            record.is_object
                ? "a JSON object that is too long or does not end: lines behind it are read alone"
                : "a line that is too long"),
        1, place);
    return;
  }
  const Dialect* dialect = nullptr;
  const Reading reading = ReadRecord(record, dialect);
  if (reading.convs.empty() && reading.refusals.empty()) {
    num_other_ += record.lines;
    return;
  }
  for (const Refusal& refusal : reading.refusals) AddRefusal(refusal, reading.count, place);
  for (size_t i = 0; i < reading.convs.size(); ++i) {
    const std::string name = i == 0 ? place : fmt::format("{}#{}", place, i + 1);
    AddConv(reading.convs[i], reading.count, place, name, *dialect);
  }
}

void LogImport::AddConv(const LoggedConv& conv, int64_t count, const std::string& place,
                        const std::string& name, const Dialect& dialect) {
  try {
    const std::string keys =
        fmt::format(R"({}, "tags": ["{}"])", CaseKeysOf(conv, conv.ToProblem()), dialect.name);
    const auto known = cases_.find(keys);
    if (known != cases_.end()) {
      known->second.count += count;
    } else if (cases_.size() == kMaxCases) {
      throw Refusal(fmt::format("more than {} different problems", kMaxCases), "split the log");
    } else {
      order_.push_back(&*cases_.emplace(keys, Case{name, count}).first);
    }
  } catch (const Refusal& refusal) {
    AddRefusal(refusal, count, place);
    return;
  }
  num_calls_ += count;
  if (conv.has_bias) Add(left_out_, "a bias, or its gradient", count, place);
  if (conv.has_post_ops) Add(left_out_, "what is done to the result after the sum", count, place);
}

void LogImport::AddRefusal(const Refusal& refusal, int64_t count, const std::string& place) {
  const std::string detail = refusal.detail().empty() ? "" : ToValidUtf8(refusal.detail());
  const std::string reason = ToValidUtf8(refusal.reason());
  const std::string what = detail.empty() ? reason : reason + ": " + detail;
  if (on_refusal_) on_refusal_(fmt::format("{}: refused: {}", place, what));
  num_refused_ += count;
  Add(refusals_, reason, count, detail.empty() ? place : fmt::format("{}: {}", place, detail));
}

void LogImport::Add(std::map<std::string, Tally>& tallies, const std::string& what, int64_t count,
                    const std::string& first) {
  const bool fits = tallies.size() < kMaxReasons || tallies.contains(what);
  Tally& tally = tallies[fits ? what : "other reasons"];
  if (tally.count == 0) tally.first = first;
  tally.count += count;
}

void LogImport::WriteCases(bool is_checked,
                           const std::function<void(const std::string&)>& write) const {
  write(kHeader);
  for (const Cases::value_type* one : order_) {
    const auto& [name, count] = one->second;
    write(fmt::format("{{\"name\": {}, {}{}{}}}\n", DumpJson(Json(name)), one->first,
                      count > 1 ? fmt::format(", \"count\": {}", count) : "",
                      is_checked ? ", \"tolerance\": \"auto\"" : ""));
  }
}

std::string LogImport::Summary() const {
  std::string text = fmt::format("{}: {}, {} as {}", source_, Plural(num_lines_, "line"),
                                 Plural(num_calls_, "convolution"),
                                 Plural(static_cast<int64_t>(cases_.size()), "case"));
  if (num_refused_ > 0) text += fmt::format(", {} refused", num_refused_);
  if (num_other_ > 0) text += fmt::format(", {} of other output", Plural(num_other_, "line"));
  return text + "\n" + Rows("refused", refusals_) + Rows("left out", left_out_);
}

}  // namespace convgrad::cli
