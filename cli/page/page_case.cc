#include "cli/page/page_case.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr size_t kMostReason = 200;  // bytes of a reason in the table

// Null where the entry has nothing there.
const Json* Find(const Json& entry, const char* pointer) {
  const Json::json_pointer at(pointer);
  return entry.contains(at) ? &entry.at(at) : nullptr;
}

std::string Text(const Json& entry, const char* pointer) {
  const Json* found = Find(entry, pointer);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> Number(const Json& entry, const char* pointer) {
  const Json* found = Find(entry, pointer);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// "3,3,1,8" of [3, 3, 1, 8].
std::string Numbers(const Json& list) {
  std::string text;
  for (const Json& one : list) text += (text.empty() ? "" : ",") + DumpJson(one);
  return text;
}

// As Problem::ToLine, but for the operation, the type and the format.
std::string ShapeOf(const Json& entry) {
  struct Part {
    const char *key, *name, *usual;
  };
  constexpr Part kParts[] = {{"input", "in", ""},
                             {"filter", "filter", ""},
                             {"strides", "strides", "1,1"},
                             {"dilations", "dilations", "1,1"},
                             {"pads", "pads", "0,0,0,0"}};
  const Json* problem = Find(entry, "/problem");
  if (problem == nullptr || !problem->is_object()) return "";
  std::string line;
  for (const Part& part : kParts) {
    const auto found = problem->find(part.key);
    if (found == problem->end()) continue;
    const std::string numbers = Numbers(*found);
    if (numbers == part.usual) continue;
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", part.name, numbers);
  }
  const std::string groups = Numbers(Json::array({problem->value("groups", Json(1))}));
  return groups == "1" ? line : line + " groups=" + groups;
}

std::string TagsOf(const Json& entry) {
  std::string tags;
  const Json* list = Find(entry, "/tags");
  if (list == nullptr || !list->is_array()) return "";
  for (const Json& tag : *list) tags += (tags.empty() ? "" : " ") + tag.get<std::string>();
  return tags;
}

std::string ReasonOf(const Json& entry) {
  std::string reason = Text(entry, "/error/message");
  if (reason.empty() && Text(entry, "/probe/status") == "FAILED") {
    reason = "probe: " + Text(entry, "/probe/reason");
  }
  if (reason.empty()) reason = Text(entry, "/check/reason");
  if (reason.size() <= kMostReason) return reason;
  size_t end = kMostReason;
  while (end > 0 && (static_cast<unsigned char>(reason[end]) & 0xC0) == 0x80) --end;
  return reason.substr(0, end) + " ...";
}

void SetInterval(const Json& entry, const char* pointer, std::optional<double>& low,
                 std::optional<double>& high) {
  const Json* interval = Find(entry, pointer);
  if (interval == nullptr || !interval->is_array() || interval->size() != 2) return;
  low = interval->at(0).get<double>();
  high = interval->at(1).get<double>();
}

std::optional<PageTiming> TimingOf(const Json& entry, PageVocabulary& words) {
  const auto median = Number(entry, "/timing/median");
  if (!median) return std::nullopt;
  PageTiming timing;
  timing.estimate.median = *median;
  std::optional<double> low, high;
  SetInterval(entry, "/timing/ci", low, high);
  if (low && high) timing.estimate.ci = Interval{*low, *high};
  timing.p5 = Number(entry, "/timing/p5");
  timing.p95 = Number(entry, "/timing/p95");
  timing.gflops = Number(entry, "/gflops");
  const auto flops = Number(entry, "/problem/flops"), read = Number(entry, "/problem/input_bytes"),
             written = Number(entry, "/problem/output_bytes");
  if (flops && read && written && *read + *written > 0) {
    timing.intensity = *flops / (*read + *written);
  }
  timing.share = Number(entry, "/roofline/share");
  timing.peak_gflops = Number(entry, "/roofline/peak_gflops");
  timing.peak_gbs = Number(entry, "/roofline/peak_gbs");
  timing.bound = words.bound.NumberOf(Text(entry, "/roofline/bound"));
  const std::string baseline = Find(entry, "/baseline") != nullptr ? "/baseline" : "/baseline_bin";
  timing.verdict = words.verdict.NumberOf(Text(entry, (baseline + "/verdict").c_str()));
  timing.ratio = Number(entry, (baseline + "/ratio").c_str());
  SetInterval(entry, (baseline + "/ci").c_str(), timing.ratio_low, timing.ratio_high);
  return timing;
}

// The facts that the table lacks. Hashes stay behind: they are of no use to a reader.
Json DetailOf(const Json& entry) {
  Json detail = Json::object();
  for (const char* key : {"check", "probe", "error", "pending", "repro", "inputs", "run", "output",
                          "baseline", "baseline_bin"}) {
    const auto found = entry.find(key);
    if (found != entry.end()) detail[key] = *found;
  }
  if (detail.contains("check") && detail["check"].is_object()) detail["check"].erase("profile");
  if (detail.contains("inputs") && detail["inputs"].is_array()) {
    for (Json& input : detail["inputs"]) {
      if (input.is_object()) input.erase("sha256");
    }
  }
  return detail;
}

}  // namespace

int PageWords::NumberOf(const std::string& word) {
  const auto [place, is_new] = numbers_.emplace(word, static_cast<int>(list_.size()));
  if (is_new) list_.push_back(word);
  return place->second;
}

PageCase PageCaseOf(const Json& entry, PageVocabulary& words) {
  PageCase one;
  one.name = entry.at("name").get<std::string>();
  one.status = words.status.NumberOf(entry.at("status").get<std::string>());
  one.index = entry.value("family_index", int64_t{-1});
  one.op = words.op.NumberOf(Text(entry, "/problem/op"));
  one.dtype = words.dtype.NumberOf(Text(entry, "/problem/dtype"));
  one.format = words.format.NumberOf(Text(entry, "/problem/data_format"));
  one.shape = words.shape.NumberOf(ShapeOf(entry));
  one.tags = words.tags.NumberOf(TagsOf(entry));
  one.isa = words.isa.NumberOf(Text(entry, "/run/isa"));
  one.algorithm = words.algorithm.NumberOf(Text(entry, "/run/algorithm"));
  one.mistake = words.mistake.NumberOf(Text(entry, "/check/diagnosis/hypothesis"));
  one.is_right = entry.value("exit_code", 0) == 0 && Text(entry, "/check/status") != "SUSPECT";
  one.reason = words.reason.NumberOf(one.is_right ? "" : ReasonOf(entry));
  one.threads = entry.value("threads", 1);
  one.timing = TimingOf(entry, words);
  one.milliseconds =
      one.timing ? std::optional(one.timing->estimate.median) : Number(entry, "/timing/total_ms");
  one.detail = DumpJson(DetailOf(entry));
  if (const Json* profile = Find(entry, "/check/profile")) one.profile = DumpJson(*profile);
  return one;
}

Json Rounded(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return std::strtod(fmt::format("{:.5g}", *value).c_str(), nullptr);
}

}  // namespace convgrad::cli
