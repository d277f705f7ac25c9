#include "cli/record/pending.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/beneath.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/options/flag_values.h"
#include "cli/record/golden_record.h"
#include "files/tensor_path.h"

namespace convgrad::cli {
namespace {

constexpr const char* kParent = "__";  // instead of "..", which would leave the directory
constexpr const char* kEnding = ".new";

// Beneath the directory.
std::string RelativePath(const std::string& golden) {
  std::filesystem::path path;
  const std::filesystem::path file = TensorFileOf(golden);
  for (const auto& part : file.lexically_normal().relative_path()) {
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

bool IsPendingName(const std::string& path) {
  return path.ends_with(kEnding);
}

void MakeDirectoriesOf(const std::string& path) {
  MakeDirectories(SplitPath(path).first);
}

void RemoveIfThere(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) ThrowSystemError(path, "removed", errno);
}

bool LiesOutside(const std::string& golden) {
  std::error_code error;
  const auto here = std::filesystem::canonical(".", error);
  const auto there =
      std::filesystem::weakly_canonical(std::filesystem::absolute(TensorFileOf(golden)), error);
  if (error) return true;
  const auto relative = there.lexically_relative(here);
  return relative.empty() || *relative.begin() == "..";
}

std::string AcceptCommand(const PendingRecord& pending) {
  const bool is_flag = pending.path.starts_with('-');
  std::vector<std::string> words = {"convgrad", "accept",
                                    is_flag ? "./" + pending.path : pending.path};
  if (LiesOutside(pending.golden)) words.push_back("--allow-outside");
  return ShellLine(words);
}

}  // namespace convgrad::cli
