#include "cli/bench/bench_tables.h"

#include <fmt/format.h>

#include "base/output_file.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

struct Column {
  const char* name;
  const char* pointer;              // into an entry
  const char* otherwise = nullptr;  // where it has nothing there
};

constexpr Column kColumns[] = {
    {"case", "/name"},
    {"threads", "/threads"},
    {"status", "/status"},
    {"median_ms", "/timing/median"},
    {"ci_low_ms", "/timing/ci/0"},
    {"ci_high_ms", "/timing/ci/1"},
    {"gflops", "/gflops"},
    {"bytes_per_second", "/bytes_per_second"},
    {"share", "/roofline/share"},
    {"bound", "/roofline/bound"},
    {"algorithm", "/run/algorithm"},
    {"verdict", "/baseline/verdict", "/baseline_bin/verdict"},
    {"ratio", "/baseline/ratio", "/baseline_bin/ratio"},
    {"before_ms", "/baseline/median", "/baseline_bin/median"},
    {"count", "/count"},
};

// Null where the entry has nothing at either place.
Json ValueOf(const Column& column, const Json& entry) {
  for (const char* pointer : {column.pointer, column.otherwise}) {
    if (pointer == nullptr) break;
    const auto at = Json::json_pointer(pointer);
    if (entry.contains(at)) return entry.at(at);
  }
  return Json();
}

std::string CsvCell(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return DumpJson(value);
  auto text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

std::string MarkdownCell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  if (!value.is_string()) return DumpJson(value);
  std::string escaped;
  for (const char letter : value.get<std::string>()) {
    if (std::string_view("|\\`*_<[").find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter == '\n' ? ' ' : letter;
  }
  return escaped;
}

}  // namespace

std::string BenchCsv(const std::vector<Json>& entries) {
  std::string text;
  for (const Column& column : kColumns)
    text += (text.empty() ? "" : ",") + std::string(column.name);
  text += "\n";
  for (const Json& entry : entries) {
    std::string line;
    for (const Column& column : kColumns) {
      line += (&column == kColumns ? "" : ",") + CsvCell(ValueOf(column, entry));
    }
    text += line + "\n";
  }
  return text;
}

std::string BenchMarkdown(const std::vector<Json>& entries) {
  std::string head = "|", line = "|";
  for (const Column& column : kColumns) {
    head += fmt::format(" {} |", column.name);
    line += "---|";
  }
  std::string text = head + "\n" + line + "\n";
  for (const Json& entry : entries) {
    text += "|";
    for (const Column& column : kColumns) {
      text += fmt::format(" {} |", MarkdownCell(ValueOf(column, entry)));
    }
    text += "\n";
  }
  return text;
}

void CheckBenchTables(const Arguments& arguments) {
  for (const FlagId id : {FlagId::kCsv, FlagId::kMarkdown}) {
    if (const std::string* path = arguments.Find(id)) CheckOutputPath(*path);
  }
}

void WriteBenchTables(const Arguments& arguments, const std::vector<Json>& entries) {
  if (const std::string* path = arguments.Find(FlagId::kCsv)) {
    WriteTextFile(*path, BenchCsv(entries));
  }
  if (const std::string* path = arguments.Find(FlagId::kMarkdown)) {
    WriteTextFile(*path, BenchMarkdown(entries));
  }
}

}  // namespace convgrad::cli
