// The command `prune`: goldens that no case names any more.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/manifest/manifest.h"
#include "cli/options/commands.h"
#include "cli/record/golden_record.h"
#include "cli/record/pending.h"
#include "cli/session/session.h"
#include "files/tensor_path.h"

namespace convgrad::cli {
namespace {

// Under all the names by which a file can be told from others.
using FileSet = std::set<std::string>;

bool Holds(const FileSet& files, const std::string& path) {
  const std::vector<std::string> keys = FileKeys(path);
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return files.contains(key); });
}

// Returns the number of the manifest's cases.
int64_t AddNamed(const std::string& manifest, FileSet& named) {
  const ManifestFile file(manifest);
  ManifestOptions options;
  options.paths.allow_outside = true;
  ManifestReader reader(file, options);
  int64_t num_cases = 0;
  while (const std::optional<ManifestCase> one = reader.Next()) {
    ++num_cases;
    for (const FlagValues::Entry& entry : one->request.flags.entries()) {
      if (entry.given.empty()) continue;
      for (const std::string& key : FileKeys(TensorFileOf(entry.text))) named.insert(key);
    }
  }
  return num_cases;
}

bool IsRecord(const std::string& path, const Console& console) try {
  return ReadRecord(path).has_value();
} catch (const Error& error) {
  if (error.exit_code() != ExitCode::kData) throw;
  console.Warn(error.message());
  return false;
}

// The goldens in the directory and beneath it that have a record: others may be anybody's, and so
// may what is no record in spite of its name.
std::vector<std::string> GoldensBeneath(const std::string& directory, const Console& console) {
  const std::string ending = RecordPathOf("");
  std::vector<std::string> goldens;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entries(directory, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    const std::string path = entries->path().lexically_normal().string();
    if (!path.ends_with(ending)) continue;
    const std::string golden = path.substr(0, path.size() - ending.size());
    if (!IsPendingName(golden) && IsRecord(path, console)) goldens.push_back(golden);
  }
  if (error) ThrowSystemError(directory, "read", error.value());
  std::sort(goldens.begin(), goldens.end());
  return goldens;
}

}  // namespace

ExitCode Prune(Session& session) {
  const Arguments& arguments = session.arguments;
  FileSet named;
  std::set<std::string> goldens;
  for (const std::string& manifest : arguments.operands()) {
    if (manifest == "-") {
      ThrowUsage("operand/stdin", "prune -", "goldens lie beside a manifest", "give its file");
    }
    if (AddNamed(manifest, named) == 0 && arguments.Has(FlagId::kDelete)) {
      throw Error(ExitCode::kNothingRan, "manifest/nothing-selected", manifest,
                  "has no case: no golden would be left beside it",
                  "leave --delete out to see them");
    }
    for (const std::string& golden : GoldensBeneath(SplitPath(manifest).first, session.console)) {
      goldens.insert(golden);
    }
  }
  for (const std::string& golden : goldens) {
    if (Holds(named, golden)) continue;
    for (const std::string& path : {golden, RecordPathOf(golden)}) {
      if (!Exists(path)) continue;
      if (arguments.Has(FlagId::kDelete)) RemoveIfThere(path);
      session.console.Print(EscapeControls(path) + "\n");
    }
  }
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
