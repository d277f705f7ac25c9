// The command `accept`: results that a batch left for review become the goldens.
#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/resources.h"
#include "cli/case/golden_recorder.h"
#include "cli/case/pending_golden.h"
#include "cli/options/commands.h"
#include "cli/record/pending.h"
#include "cli/session/session.h"
#include "files/tensor_path.h"

namespace convgrad::cli {

namespace {

// A file that came from elsewhere must not say what is written elsewhere.
void CheckPlace(const PendingGolden& one, bool allow_outside) {
  if (allow_outside || !LiesOutside(one.golden())) return;
  ThrowUsage("pending/outside", one.path(),
             fmt::format("its golden {} lies outside the current directory", one.golden()),
             "go where the batch ran, or give --allow-outside if that is meant");
}

// Reads and checks them all.
std::vector<PendingGolden> ReadPending(const Arguments& arguments) {
  std::vector<PendingGolden> pending;
  std::set<std::string> goldens;
  for (const std::string& path : FindPending(arguments.operands())) {
    const PendingGolden& one = pending.emplace_back(path);
    CheckPlace(one, arguments.Has(FlagId::kAllowOutside));
    one.Check();
    if (goldens.insert(TensorFileOf(one.golden())).second) continue;
    ThrowUsage("pending/double", one.golden(), "two of the results would replace it",
               "accept one of them");
  }
  if (!pending.empty()) return pending;
  throw Error(ExitCode::kNothingRan, "pending/none", arguments.operands().front(),
              "no result waits for review there", "run batch with --write-pending first");
}

}  // namespace

// Nothing is written before all were checked. Each is shown when it was taken over, so that what is
// shown is true also where a later one fails.
ExitCode Accept(Session& session) {
  const Arguments& arguments = session.arguments;
  const bool is_list = arguments.Has(FlagId::kList);
  if (!is_list) RefuseInCi("accept");
  std::optional<std::string> reason;
  if (const std::string* text = arguments.Find(FlagId::kReason)) reason = *text;
  const Parallel parallel(UsableCpus());
  for (const PendingGolden& one : ReadPending(arguments)) {
    const std::string difference = one.Difference(parallel);
    if (!is_list) one.Accept(reason);
    session.console.Result(fmt::format("{}  {}\n  {}\n", is_list ? "PENDING" : "ACCEPTED",
                                       EscapeControls(one.golden()), difference));
    session.console.Flush();
  }
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
