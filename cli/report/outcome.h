// How one case of a batch ended, as other programs' formats want to hear it: taken from its entry
// in the report, so that a batch and a merge of shards say the same.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace convgrad::cli {

// kComputed: right as far as is known, but held against nothing.
enum class Ending { kPassed, kComputed, kFailed, kError, kSkipped };

struct CaseOutcome {
  int64_t index = 0;  // in the plan
  std::string name;
  Ending ending = Ending::kError;
  std::string status;  // as in the report: "SUSPECT"
  std::string code;    // what kind of failure: "golden/missing", "comparison/bits"
  double seconds = 0;
  std::string message;              // one line; empty for a plain pass
  std::vector<std::string> detail;  // further lines about a failure
  std::string cause;                // the same in short: what explains a failure best; may be empty
  std::string repro;
  std::string accept;  // how its result becomes the golden; empty unless it waits for review
};

// `entry` is one of benchmarks[]. Throws data "report/malformed" where it isn't.
CaseOutcome OutcomeOf(const nlohmann::ordered_json& entry);

}  // namespace convgrad::cli
