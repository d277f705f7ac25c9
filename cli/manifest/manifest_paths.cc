#include "cli/manifest/manifest_paths.h"

#include <fmt/format.h>

#include <climits>

#include "base/error.h"
#include "cli/record/golden_record.h"
#include "files/tensor_path.h"

namespace convgrad::cli {
namespace {

constexpr size_t kShownBytes = 200;

std::string DirectoryOf(const std::string& path) {
  const std::string directory = SplitPath(path).first;
  return directory == "." ? "" : directory;
}

void CheckText(const std::string& given) {
  if (given.empty()) ThrowUsage("manifest/path", "path", "it is empty", "name a file");
  if (given.find('\0') != std::string::npos) {
    ThrowUsage("manifest/path", given.substr(0, kShownBytes), "the path contains a NUL character",
               "name a file without one");
  }
}

std::string Join(const std::string& directory, const std::string& given) {
  CheckText(given);
  const bool stands_alone = given.starts_with('/') || directory.empty();
  std::string path =
      stands_alone ? given : fmt::format("{}{}{}", directory, directory == "/" ? "" : "/", given);
  // On a command line it would be taken for a flag.
  if (path.starts_with('-')) path = "./" + path;
  if (path.size() >= PATH_MAX) {
    ThrowUsage("manifest/path", given.substr(0, kShownBytes) + "...",
               fmt::format("the path has {} bytes", path.size()),
               fmt::format("the system takes {}", PATH_MAX - 1));
  }
  return path;
}

}  // namespace

ManifestPaths::ManifestPaths(const std::string& manifest, const ManifestPathOptions& options)
    : directory_(manifest == "-" ? "" : DirectoryOf(manifest)),
      output_root_(options.output_root.value_or(directory_)) {
  if (options.allow_outside) return;
  tree_.emplace(output_root_.empty() ? "." : output_root_);
  if (options.records) goldens_tree_.emplace(directory_.empty() ? "." : directory_);
}

std::string ManifestPaths::ForReading(const std::string& given) const {
  return Join(directory_, given);
}

std::string ManifestPaths::ForWriting(const std::string& given) const {
  std::string path = Join(output_root_, given);
  if (tree_ && !tree_->Holds(TensorFileOf(given))) {
    ThrowUsage("manifest/outside", given.substr(0, kShownBytes),
               fmt::format("an output may not leave {}", tree_->path()),
               "name a place beneath it, or give --output-root or --allow-outside");
  }
  return path;
}

std::string ManifestPaths::ForGolden(const std::string& given) const {
  std::string path = ForReading(given);
  const bool is_held = !goldens_tree_ || (goldens_tree_->Holds(TensorFileOf(given)) &&
                                          goldens_tree_->Holds(RecordPathOf(given)));
  if (is_held) return path;
  ThrowUsage("manifest/outside", given.substr(0, kShownBytes),
             fmt::format("a golden that is recorded may not leave {}", goldens_tree_->path()),
             "name a place beneath it, or give --allow-outside");
}

}  // namespace convgrad::cli
