#include "base/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace convgrad {
namespace {

bool HasDotDot(const std::string& path) {
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    if (part == "..") return true;
  }
  return false;
}

// The kernel's own walk: the error number, or 0.
int OpenBeneath(int directory, const std::string& relative) {
  struct open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH;
  const auto opened = syscall(SYS_openat2, directory, relative.c_str(), &how, sizeof(how));
  if (opened < 0) return errno;
  close(static_cast<int>(opened));
  return 0;
}

// The same by resolving names, for kernels before 5.6 and sandboxes that refuse the call.
bool ResolvesBeneath(const std::string& directory, const std::string& relative) {
  std::error_code error;
  const auto root = std::filesystem::canonical(directory, error);
  if (error) return false;
  const auto target = std::filesystem::weakly_canonical(root / FollowLinks(root / relative), error);
  if (error) return false;
  const auto rest = target.lexically_relative(root);
  return !rest.empty() && *rest.begin() != "..";
}

}  // namespace

DirectoryTree::DirectoryTree(const std::string& path)
    : path_(path), directory_(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (!directory_.is_open()) ThrowSystemError(path, "opened", errno);
}

bool DirectoryTree::Holds(const std::string& relative) const {
  if (relative.starts_with('/') || HasDotDot(relative)) return false;
  const int error = OpenBeneath(directory_.get(), relative);
  if (error == ENOSYS || error == EPERM) return ResolvesBeneath(path_, relative);
  return error != EXDEV;
}

}  // namespace convgrad
