#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/parallel.h"

namespace convgrad {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel

struct SystemErrorRow {
  int number;
  const char* code;
  const char* fix;
};

constexpr SystemErrorRow kSystemErrors[] = {
    {ENOENT, "io/not-found", "check the path"},
    {ENOTDIR, "io/not-found", "check the path"},
    {ENAMETOOLONG, "io/bad-path", "use a shorter path"},
    {ELOOP, "io/bad-path", "check the symbolic links"},
    {EACCES, "io/permission", "check the permissions"},
    {EPERM, "io/permission", "check the permissions"},
    {EROFS, "io/read-only", "write to another file system"},
    {EISDIR, "io/not-a-file", "name a file"},
    {ENXIO, "io/not-a-file", "name a regular file"},
    {ENOSPC, "io/no-space", "free space or write elsewhere"},
    {EDQUOT, "io/no-space", "free space or write elsewhere"},
    {EFBIG, "io/too-large", "raise the file-size limit (ulimit -f)"},
    {EMFILE, "io/descriptors", "raise the limit of open files (ulimit -n)"},
    {ENFILE, "io/descriptors", "close other programs' files"},
    {EPIPE, "io/broken-pipe", ""},
    {EBADF, "io/closed", "leave the standard stream open"},
    {EEXIST, "io/exists", "remove it or leave out --no-clobber"},
};

// Where an output will lie: its directory and its name there, known even before it exists.
using OutputPlace = std::tuple<FileIdentity, std::string>;

std::optional<OutputPlace> PlaceOf(const std::string& path) {
  const auto [directory, name] = SplitPath(FollowLinks(path));
  const std::optional<FileIdentity> identity = IdentityOf(directory);
  if (!identity) return std::nullopt;
  return OutputPlace(*identity, name);
}

std::string TextOf(const FileIdentity& identity) {
  return fmt::format("{:x}:{:x}", identity.device, identity.inode);
}

// One end of the work: a path, or for "-" the standard stream that it stands for.
struct End {
  const std::string& path;
  int stream;

  bool is_stream() const { return path == "-"; }
  bool GetStatus(struct stat& status) const {
    return (is_stream() ? fstat(stream, &status) : stat(path.c_str(), &status)) == 0;
  }
};

bool AreOneFile(const End& a, const End& b) {
  if (a.is_stream() && b.is_stream() && a.stream == b.stream) return false;
  struct stat a_status, b_status;
  const bool a_exists = a.GetStatus(a_status), b_exists = b.GetStatus(b_status);
  if ((a_exists && !S_ISREG(a_status.st_mode)) || (b_exists && !S_ISREG(b_status.st_mode))) {
    return false;
  }
  if (a_exists && b_exists && IdentityOf(a_status) == IdentityOf(b_status)) return true;
  if (a.is_stream() || b.is_stream()) return false;
  const std::optional<OutputPlace> place = PlaceOf(a.path);
  return place && place == PlaceOf(b.path);
}

// Makes `descriptor` one that fails with EBADF when used, if it is closed.
void OccupyIfClosed(int descriptor, int unusable_mode) {
  if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) return;
  const int opened = open("/dev/null", unusable_mode);  // the lowest free number: `descriptor`
  if (opened >= 0 && opened != descriptor) close(opened);
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void FileDescriptor::Close() noexcept {
  if (number_ >= 0) close(std::exchange(number_, -1));
}

void ThrowSystemError(const std::string& what, const std::string& doing, int error_number) {
  const std::string why =
      fmt::format("cannot be {}: {}", doing, std::generic_category().message(error_number));
  for (const SystemErrorRow& row : kSystemErrors) {
    if (row.number == error_number) ThrowIo(row.code, what, why, row.fix);
  }
  ThrowIo("io/failed", what, why);
}

void CheckPath(const std::string& path) {
  if (path.empty()) ThrowIo("io/bad-path", "path", "it is empty", "name a file");
  if (path.find('\0') != std::string::npos) {
    ThrowIo("io/bad-path", path, "the path contains a NUL byte", "name a file without one");
  }
}

std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

std::string FollowLinks(const std::string& path) {
  std::string current = path;
  char target[PATH_MAX];
  for (int links = 0; links <= kMaxLinks; ++links) {
    const ssize_t length = readlink(current.c_str(), target, sizeof(target));
    if (length < 0) return current;  // not a link, or nothing there
    const std::string next(target, static_cast<size_t>(length));
    current = next.starts_with('/') ? next : SplitPath(current).first + "/" + next;
  }
  ThrowSystemError(path, "followed", ELOOP);
}

void WaitFor(int descriptor, short events) {
  struct pollfd request = {descriptor, events, 0};
  if (poll(&request, 1, -1) < 0 && errno == EINTR) RetryUnlessStopped();
}

void RetryUnlessStopped() {
  if (MustEnd()) throw Stopped{};
}

FileIdentity IdentityOf(const struct stat& status) {
  return {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino)};
}

std::optional<FileIdentity> IdentityOf(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return IdentityOf(status);
}

bool Exists(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
  ThrowSystemError(path, "examined", errno);
}

void CheckDistinctFiles(std::span<const NamedPath> inputs, std::span<const NamedPath> outputs) {
  for (size_t at = 0; at < outputs.size(); ++at) {
    const End output = {outputs[at].path, STDOUT_FILENO};
    for (const NamedPath& input : inputs) {
      if (!AreOneFile({input.path, STDIN_FILENO}, output)) continue;
      ThrowUsage("io/same-file", fmt::format("{} {}", outputs[at].name, outputs[at].path),
                 fmt::format("it is the file of {} {}, and inputs are never changed", input.name,
                             input.path),
                 "write to another file");
    }
    for (const NamedPath& other : outputs.subspan(0, at)) {
      if (!AreOneFile({other.path, STDOUT_FILENO}, output)) continue;
      ThrowUsage("io/same-file", fmt::format("{} {}", outputs[at].name, outputs[at].path),
                 fmt::format("{} {} writes the same file", other.name, other.path),
                 "give each output a file of its own");
    }
  }
}

std::vector<std::string> FileKeys(const std::string& path) {
  std::vector<std::string> keys;
  struct stat status;
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return keys;
    keys.push_back("inode " + TextOf(IdentityOf(status)));
  }
  if (const std::optional<OutputPlace> place = PlaceOf(path)) {
    const auto& [directory, name] = *place;
    keys.push_back(fmt::format("place {} {}", TextOf(directory), name));
  } else {
    keys.push_back("path " + std::filesystem::path(path).lexically_normal().string());
  }
  return keys;
}

void PrepareStandardStreams() {
  OccupyIfClosed(STDIN_FILENO, O_WRONLY);
  OccupyIfClosed(STDOUT_FILENO, O_RDONLY);
  OccupyIfClosed(STDERR_FILENO, O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace convgrad
