// Any bytes as a manifest: refused as a whole, or cases each of which is refused or parsed, always
// to the same identities.
#include <vector>

#include "cli/case/case.h"
#include "cli/manifest/manifest_plan.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

// The cases that were read of a manifest.
struct Cases {
  std::vector<std::string> identities;
  bool all_are_parsed = true;

  bool operator==(const Cases&) const = default;
};

Cases ReadCases(const cli::ManifestFile& file, const cli::ManifestOptions& options) {
  Cases cases;
  cli::ManifestReader reader(file, options);
  while (const std::optional<cli::ManifestCase> one = reader.Next()) {
    cases.identities.push_back(one->Identity());
    cases.all_are_parsed &= Accepts([&] { cli::ParseCase(one->request); });
  }
  return cases;
}

}  // namespace

bool Check(Bytes bytes) {
  static const Scratch scratch;
  const bool lines = bytes.Choose(2) == 1;
  const cli::ManifestFile file(scratch.Write(lines ? "any.jsonl" : "any.json", bytes.rest()));
  const cli::ManifestOptions options;
  Cases cases;
  const bool readable = Accepts([&] { cases = ReadCases(file, options); });
  cli::ManifestPlan plan;
  const bool planned = Accepts([&] {
    plan = PlanManifest(file, options, [](const cli::ManifestCase&) { return true; }, {});
  });
  if (!planned) return false;
  Expect(readable && cases.all_are_parsed, "planned, but can't be read");
  Expect(plan.num_cases == static_cast<int64_t>(cases.identities.size()),
         "another number of cases");
  Expect(ReadCases(file, options) == cases, "other cases when read again");
  return plan.num_cases > 0;
}

}  // namespace convgrad::fuzzing
