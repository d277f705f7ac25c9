// Any bytes as a manifest: refused as a whole, or cases each of which is refused or parsed, always
// to the same identities.
#include <vector>

#include "cli/case/case.h"
#include "cli/manifest/manifest_plan.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

std::vector<std::string> Identities(const cli::ManifestFile& file,
                                    const cli::ManifestOptions& options) {
  std::vector<std::string> identities;
  cli::ManifestReader reader(file, options);
  while (const std::optional<cli::ManifestCase> one = reader.Next()) {
    identities.push_back(one->Identity());
    Accepts([&] { cli::ParseCase(one->request); });
  }
  return identities;
}

void Check(Bytes bytes) {
  static const Scratch scratch;
  const bool lines = bytes.Choose(2) == 1;
  const cli::ManifestFile file(scratch.Write(lines ? "any.jsonl" : "any.json", bytes.rest()));
  const cli::ManifestOptions options;
  std::vector<std::string> identities;
  const bool readable = Accepts([&] { identities = Identities(file, options); });
  cli::ManifestPlan plan;
  const bool planned = Accepts([&] {
    plan = PlanManifest(file, options, [](const cli::ManifestCase&) { return true; }, {});
  });
  if (!planned) return;
  Expect(readable, "planned, but can't be read");
  Expect(plan.num_cases == static_cast<int64_t>(identities.size()), "another number of cases");
  Expect(Identities(file, options) == identities, "other cases when read again");
}

}  // namespace
}  // namespace convgrad::fuzzing

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  convgrad::fuzzing::Check({data, size});
  return 0;
}
