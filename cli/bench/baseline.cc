#include "cli/bench/baseline.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/input_file.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

[[noreturn]] void ThrowMalformed(const std::string& path, const std::string& why) {
  ThrowData("baseline/malformed", path, why, "give a report that 'convgrad bench' wrote");
}

std::string ReadText(const std::string& path) {
  constexpr int64_t kChunk = 1 << 16;
  const auto file = InputFile::Open(path);
  std::string text;
  for (int64_t got = kChunk; got == kChunk;) {
    const size_t size = text.size();
    text.resize(size + kChunk);
    got = file->Read(text.data() + size, kChunk);
    text.resize(size + static_cast<size_t>(got));
  }
  return text;
}

// Milliseconds. The throwing accessors of the library are caught by the caller.
Estimate EstimateOf(const Json& entry) {
  const Json& timing = entry.at("timing");
  Estimate estimate;
  estimate.median = timing.at("median").get<double>();
  const Json& ci = timing.at("ci");
  if (!ci.is_null()) estimate.ci = Interval{ci.at(0).get<double>(), ci.at(1).get<double>()};
  return estimate;
}

// The problem itself, whatever the order of its keys.
nlohmann::json BareProblem(const Json& entry) {
  nlohmann::json problem = entry.value("problem", Json());
  if (!problem.is_object()) return problem;
  for (const char* key : {"use_cudnn_on_gpu", "filter_format"}) problem.erase(key);
  return problem;
}

// Why two measurements say nothing about each other; empty where they do.
std::string Obstacle(const Json& now, const Json& before, const std::string& cpu_model,
                     const std::string& cpu_model_before) {
  if (before.contains("problem") && BareProblem(before) != BareProblem(now)) {
    return "the baseline has another problem of that name";
  }
  if (!cpu_model_before.empty() && cpu_model_before != cpu_model) {
    return fmt::format("the baseline was measured on another machine ({})", cpu_model_before);
  }
  const std::string cache = TextAt(before, "/timing/cache");
  if (!cache.empty() && cache != TextAt(now, "/timing/cache")) {
    return fmt::format("the baseline was measured with --cache {}", cache);
  }
  return "";
}

// Names what the two did differently, though they can be compared.
std::vector<std::string> Differences(const Json& now, const Json& before) {
  std::vector<std::string> notes;
  for (const std::string name : {"isa", "algorithm"}) {
    const std::string pointer = "/run/" + name;
    const std::string old = TextAt(before, pointer.c_str()), own = TextAt(now, pointer.c_str());
    if (!old.empty() && old != own) {
      notes.push_back(fmt::format("{} was {}, is {}", name, old, own));
    }
  }
  return notes;
}

}  // namespace

std::string TextAt(const Json& json, const char* pointer) {
  const auto at = Json::json_pointer(pointer);
  return json.contains(at) && json.at(at).is_string() ? json.at(at).get<std::string>() : "";
}

int64_t ThreadsOf(const Json& entry) {
  const auto threads = entry.find("threads");
  return threads != entry.end() && threads->is_number_integer() ? threads->get<int64_t>() : 1;
}

Baseline::Baseline(const std::string& path, double tolerance) : path_(path), tolerance_(tolerance) {
  const Json report = TryParseJson(ReadText(path));
  if (report.is_discarded()) ThrowMalformed(path, "is no JSON");
  if (!report.is_object() || !report.contains("benchmarks") || !report["benchmarks"].is_array()) {
    ThrowMalformed(path, "has no list 'benchmarks'");
  }
  for (const Json& entry : report["benchmarks"]) {
    if (TextAt(entry, "/name").empty()) ThrowMalformed(path, "has a case without a name");
  }
  report_ = std::make_shared<const Json>(report);
}

const Json& Baseline::entries() const {
  return (*report_)["benchmarks"];
}

std::string Baseline::cpu_model() const {
  return TextAt(*report_, "/context/cpu_model");
}

std::string Baseline::error() const {
  if (!report_->contains("error")) return "";
  const std::string message = TextAt(*report_, "/error/message");
  return message.empty() ? "it does not say why" : message;
}

const Json* Baseline::Find(const Json& entry) const {
  for (const Json& before : entries()) {
    if (before["name"] == entry["name"] && ThreadsOf(before) == ThreadsOf(entry)) return &before;
  }
  return nullptr;
}

ComparisonRecord Baseline::Judge(const Json& entry, const std::string& cpu_model) const {
  ComparisonRecord record;
  record.against = path_;
  record.tolerance = tolerance_;
  const Json* before = Find(entry);
  if (before == nullptr) {
    record.presence = ComparisonRecord::Presence::kNew;
    record.notes = {
        fmt::format("the baseline has no case of that name with {} threads", ThreadsOf(entry))};
    return record;
  }
  Estimate estimate;
  try {
    estimate = EstimateOf(*before);
  } catch (const Json::exception&) {
    record.notes = {"the baseline has no median with its interval of that case"};
    return record;
  }
  if (!(estimate.median > 0)) ThrowMalformed(path_, "has a median that is no time");
  const std::string obstacle = Obstacle(entry, *before, cpu_model, this->cpu_model());
  const Estimate now = EstimateOf(entry);
  record.before_ms = estimate.median;
  record.comparison = CompareRuns(now, estimate, tolerance_);
  if (!obstacle.empty()) {
    record.comparison.verdict = Change::kInconclusive;
    record.notes = {obstacle};
    return record;
  }
  record.is_comparable = record.comparison.ci.has_value();
  record.notes = Differences(entry, *before);
  if (!record.comparison.ci) record.notes.push_back("too few samples for an interval");
  return record;
}

}  // namespace convgrad::cli
