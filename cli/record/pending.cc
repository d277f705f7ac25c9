#include "cli/record/pending.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "cli/options/flag_values.h"
#include "cli/record/golden_record.h"

namespace convgrad::cli {
namespace {

constexpr const char* kParent = "__";  // instead of "..", which would leave the directory
constexpr const char* kEnding = ".new";

}  // namespace

std::string PendingPath(const std::string& directory, const std::string& golden) {
  std::filesystem::path path = directory;
  for (const auto& part : std::filesystem::path(golden).lexically_normal().relative_path()) {
    path /= part == ".." ? std::filesystem::path(kParent) : part;
  }
  return path.string() + kEnding;
}

void MakeDirectoriesOf(const std::string& path) {
  const std::string directory = SplitPath(path).first;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) ThrowSystemError(directory, "created", error.value());
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
