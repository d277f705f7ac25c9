#include "cli/report/outcome.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr const char* kComputed = "COMPUTED";

Ending EndingOf(const std::string& status, int exit_code) {
  if (status == "SKIPPED") return Ending::kSkipped;
  if (exit_code == 0) return status == kComputed ? Ending::kComputed : Ending::kPassed;
  return status == "FAILED" || status == "SUSPECT" ? Ending::kFailed : Ending::kError;
}

bool IsRight(const std::string& status) {
  return status == "PASSED" || status == "RECORDED" || status == "KEPT";
}

std::string Text(const Json& object, const char* key) {
  return object.value(key, std::string());
}

// Names the two values of an element.
const char* WordsFor(const Json& check) {
  return Text(check, "against") == "exact value"
             ? "worst by {}: at {}, yours is {} ({}), the exact value {} ({})"
             : "worst by {}: at {}, {} ({}) where {} ({}) is expected";
}

// Returns what explains a failure best.
std::string CauseOf(const Json& check, const std::string& where) {
  if (check.contains("diagnosis")) {
    const Json& diagnosis = check.at("diagnosis");
    return fmt::format("explained by {}, {}: {}", Text(diagnosis, "hypothesis"),
                       Text(diagnosis, "explains"), Text(diagnosis, "sentence"));
  }
  std::string detail = Text(check, "detail");
  if (where.empty()) return detail;
  return fmt::format("{}{}where: {}", detail, detail.empty() ? "" : "; ", where);
}

void DescribeCheck(const Json& check, CaseOutcome& outcome) {
  outcome.code = "comparison/" + Text(check, "policy");
  outcome.message = Text(check, "reason");
  if (!Text(check, "detail").empty()) outcome.detail.push_back(Text(check, "detail"));
  const Json& counts = check.at("counts");
  outcome.detail.push_back(fmt::format(
      "elements: {}, of which {} differ, {} are suspect, {} fail", DumpJson(counts.at("elements")),
      DumpJson(counts.at("differ")), DumpJson(counts.at("suspect")), DumpJson(counts.at("fail"))));
  for (const auto& [measure, worst] : check.at("worst").items()) {
    if (worst.is_null()) continue;
    outcome.detail.push_back(fmt::format(fmt::runtime(WordsFor(check)), measure,
                                         DumpJson(worst.at("index")), DumpJson(worst.at("actual")),
                                         Text(worst, "actual_bits"), DumpJson(worst.at("expected")),
                                         Text(worst, "expected_bits")));
  }
  const std::string where = Text(check.at("where"), "text");
  outcome.cause = CauseOf(check, where);
  if (check.contains("diagnosis")) outcome.detail.push_back(outcome.cause);
  if (!where.empty()) outcome.detail.push_back("where: " + where);
}

double SecondsOf(const Json& entry) {
  const auto timing = entry.find("timing");
  return timing == entry.end() ? 0 : timing->at("total_ms").get<double>() / 1e3;
}

}  // namespace

CaseOutcome OutcomeOf(const Json& entry) try {
  CaseOutcome outcome;
  outcome.index = entry.value("family_index", int64_t{0});
  outcome.name = entry.at("name").get<std::string>();
  outcome.status = entry.at("status").get<std::string>();
  outcome.ending = EndingOf(outcome.status, entry.at("exit_code").get<int>());
  outcome.seconds = SecondsOf(entry);
  outcome.repro = Text(entry, "repro");
  const auto pending = entry.find("pending");
  if (pending != entry.end()) {
    outcome.accept = Text(*pending, "accept");
    outcome.detail.push_back("the result waits for review; to accept it: " + outcome.accept);
  }
  if (IsRight(outcome.status)) return outcome;
  if (outcome.status == kComputed) {
    const auto split = entry.find("split");
    outcome.message = split == entry.end()
                          ? "there was no golden to compare with"
                          : fmt::format("part {} of {}, which merge puts together",
                                        DumpJson(split->at("part")), DumpJson(split->at("parts")));
    return outcome;
  }
  const auto error = entry.find("error");
  const auto check = entry.find("check");
  if (error != entry.end()) {
    outcome.code = Text(*error, "code");
    outcome.message = Text(*error, "message");
  } else if (check != entry.end()) {
    DescribeCheck(*check, outcome);
  } else {
    outcome.message = outcome.code = outcome.status;
  }
  return outcome;
} catch (const Json::exception& exception) {
  ThrowData("report/malformed", "entry of a report", WhyOf(exception));
}

}  // namespace convgrad::cli
