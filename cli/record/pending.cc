#include "cli/record/pending.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/beneath.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/options/flag_values.h"
#include "cli/record/golden_record.h"

namespace convgrad::cli {
namespace {

constexpr const char* kParent = "__";  // instead of "..", which would leave the directory
constexpr const char* kEnding = ".new";

// Beneath the directory.
std::string RelativePath(const std::string& golden) {
  std::filesystem::path path;
  for (const auto& part : std::filesystem::path(golden).lexically_normal().relative_path()) {
    path /= part == ".." ? std::filesystem::path(kParent) : part;
  }
  return path.string() + kEnding;
}

void MakeDirectories(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) ThrowSystemError(directory, "created", error.value());
}

}  // namespace

std::string PendingPath(const std::string& directory, const std::string& golden) {
  return (std::filesystem::path(directory) / RelativePath(golden)).string();
}

void MakePendingPlace(const std::string& directory, const std::string& golden) {
  MakeDirectories(directory);
  const std::string relative = RelativePath(golden);
  const DirectoryTree tree(directory);
  if (!tree.Holds(relative) || !tree.Holds(RecordPathOf(relative))) {
    ThrowUsage("pending/outside", PendingPath(directory, golden),
               fmt::format("a symbolic link leads out of {} (--write-pending)", directory),
               "remove it, or name another directory");
  }
  MakeDirectories(SplitPath(PendingPath(directory, golden)).first);
}

std::string AcceptCommand(const PendingRecord& pending) {
  const auto no_flag = [](const std::string& path) {
    return path.starts_with('-') ? "./" + path : path;
  };
  const auto move = [&](const std::string& from, const std::string& to) {
    return ShellLine({"mv", no_flag(from), no_flag(to)});
  };
  const std::string directory = SplitPath(pending.golden).first;
  std::error_code unknown;
  const bool exists = std::filesystem::is_directory(directory, unknown);
  const std::string make = exists ? "" : ShellLine({"mkdir", "-p", no_flag(directory)}) + " && ";
  return fmt::format("{}{} && {}", make, move(pending.path, pending.golden),
                     move(RecordPathOf(pending.path), RecordPathOf(pending.golden)));
}

}  // namespace convgrad::cli
