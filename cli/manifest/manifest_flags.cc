#include "cli/manifest/manifest_flags.h"

#include "base/error.h"
#include "cli/manifest/selection.h"

namespace convgrad::cli {

ManifestOptions ParseManifestOptions(const Arguments& arguments) {
  ManifestOptions options;
  if (const std::string* root = arguments.Find(FlagId::kOutputRoot)) {
    options.paths.output_root = *root;
  }
  options.paths.allow_outside = arguments.Has(FlagId::kAllowOutside);
  options.paths.records = arguments.Has(FlagId::kRecord);
  if (const std::string* directory = arguments.Find(FlagId::kWritePending)) {
    options.paths.pending = *directory;
  }
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    const bool is_shared = entry.id == FlagId::kThreads || entry.id == FlagId::kMaxMemory;
    if (IsCaseKey(InfoOf(entry.id)) && !is_shared) options.overrides.Add(entry);
  }
  return options;
}

BatchFiles ParseBatchFiles(const Arguments& arguments) {
  BatchFiles files;
  files.inputs.push_back({"MANIFEST", arguments.operands().front()});
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    const Flag& flag = InfoOf(entry.id);
    if (IsCaseKey(flag) || entry.text == "-") continue;
    if (FileOf(flag) == FlagFile::kRead) files.inputs.push_back({Spell(flag), entry.text});
    if (FileOf(flag) == FlagFile::kWritten) files.outputs.push_back({Spell(flag), entry.text});
  }
  return files;
}

CaseSelection ParseSelection(const Arguments& arguments) {
  return [selection = Selection(arguments.flags())](const ManifestCase& one) {
    return selection.Takes(one);
  };
}

void RefuseManifestFlags(const FlagValues& flags) {
  for (const FlagValues::Entry& entry : flags.entries()) {
    const Flag& flag = InfoOf(entry.id);
    if (flag.group != FlagGroup::kManifest) continue;
    ThrowUsage("flag/no-effect", Spell(flag), "needs a manifest to select from", "leave it out");
  }
}

void RequireCases(const Arguments& arguments, const ManifestPlan& plan, const char* code) {
  if (plan.num_selected > 0 || arguments.Has(FlagId::kAllowEmpty)) return;
  const bool is_empty = plan.num_cases == 0;
  throw Error(ExitCode::kNothingRan, code, arguments.operands().front(),
              is_empty ? "it has no cases" : "no case matches",
              is_empty ? "write some, or give --allow-empty"
                       : "change --match or --tag, or give --allow-empty");
}

}  // namespace convgrad::cli
