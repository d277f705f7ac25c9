#include "base/temporary_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace convgrad {
namespace {

constexpr std::string_view kMark = ".tmp-";
constexpr size_t kRandomDigits = 16;  // hexadecimal
// How often a new file may be lost before it is certain that the file system, and not another
// process's cleaning, takes it away.
constexpr int kMaxTries = 100;

// A signal handler reads this: fixed memory, filled before `live` is set. A name is never used
// twice, so removing one that has just been renamed does nothing.
struct NameSlot {
  std::atomic<bool> taken;
  std::atomic<bool> live;
  int directory;
  char name[NAME_MAX + 1];
};

constexpr int kMostNames = 256;
NameSlot name_slots[kMostNames];

// -1 if all are taken: then only the next run's cleaning covers a deadly signal.
int Register(int directory, const std::string& name) {
  for (int at = 0; at < kMostNames; ++at) {
    if (name_slots[at].taken.exchange(true)) continue;
    name_slots[at].directory = directory;
    name.copy(name_slots[at].name, NAME_MAX);
    name_slots[at].name[name.size()] = '\0';
    name_slots[at].live = true;
    return at;
  }
  return -1;
}

void Unregister(int at) {
  if (at < 0) return;
  name_slots[at].live = false;
  name_slots[at].taken = false;
}

std::string NewName(const std::string& name) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
    static std::atomic<uint64_t> count;
    random = static_cast<uint64_t>(std::time(nullptr)) * 0x9E3779B97F4A7C15u + ++count;
  }
  const std::string tail = fmt::format("{}{}-{:0{}x}", kMark, getpid(), random, kRandomDigits);
  return "." + name.substr(0, NAME_MAX - 1 - tail.size()) + tail;
}

// The process that made the temporary file `name`, or none if it isn't one: whatever differs in
// anything from the names above is a user's own file.
std::optional<pid_t> MakerOf(std::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (name.empty() || name[0] != '.' || mark == std::string_view::npos || mark < 2)
    return std::nullopt;
  const std::string_view tail = name.substr(mark + kMark.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(tail.data(), tail.data() + tail.size(), pid);
  const std::string_view random = tail.substr(end - tail.data());
  if (error != std::errc() || pid <= 0 || tail[0] == '0') return std::nullopt;
  if (random.size() != 1 + kRandomDigits || random[0] != '-') return std::nullopt;
  if (random.find_first_not_of("0123456789abcdef", 1) != random.npos) return std::nullopt;
  return pid;
}

// A process that has ended but that nobody waits for, as in containers without an init, keeps its
// number.
bool IsZombie(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[128];  // the number, the name in parentheses (at most 15 letters), the state
  const ssize_t length = file.is_open() ? read(file.get(), text, sizeof(text)) : 0;
  const std::string_view stat(text, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  const size_t name_end = stat.rfind(") ");
  return name_end != std::string_view::npos && stat.substr(name_end + 2).starts_with('Z');
}

bool IsGone(pid_t pid) {
  return (kill(pid, 0) != 0 && errno == ESRCH) || IsZombie(pid);
}

// A dead process number alone proves nothing when several machines or containers share the
// directory; the lock, which ends with its process wherever that runs, does.
void RemoveIfUnlocked(int directory, const char* name) {
  const FileDescriptor file(
      openat(directory, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat status;
  if (!file.is_open() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (status.st_uid != geteuid()) return;
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlinkat(directory, name, 0);
}

// Calls use(name) for each; for none where the directory can't be listed.
template <class Use>
void ForEachEntry(int directory, const Use& use) {
  const int listed = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listed < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(listed), closedir);
  if (!entries) {
    close(listed);
    return;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): unsafe only for one stream read by several threads
  while (const struct dirent* entry = readdir(entries.get())) use(entry->d_name);
}

// True the first time this process sees a directory (a fork begins anew).
bool IsFirstVisit(int directory) {
  static std::mutex mutex;
  static std::set<FileIdentity> visited;
  static pid_t visitor = 0;
  struct stat status;
  if (fstat(directory, &status) != 0) return false;
  const std::lock_guard lock(mutex);
  if (std::exchange(visitor, getpid()) != getpid()) visited.clear();
  return visited.insert(IdentityOf(status)).second;
}

}  // namespace

TemporaryFile::TemporaryFile(int directory, const std::string& name, const std::string& path) {
  for (int tries = 0; tries < kMaxTries; ++tries) {
    if (tries > 0) RetryUnlessStopped();
    if (Create(directory, name, path)) {
      if (IsKept(path)) return;
      Discard();
    }
  }
  ThrowIo("io/failed", path, "cannot be created: each new file beside it is lost at once",
          "write to another file system");
}

bool TemporaryFile::Create(int directory, const std::string& name, const std::string& path) {
  name_ = NewName(name);
  slot_ = Register(directory, name_);
  descriptor_ = FileDescriptor(
      openat(directory, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor_.is_open()) {
    directory_ = directory;
    return true;
  }
  const int error = errno;
  Unregister(std::exchange(slot_, -1));
  if (error != EINTR && error != EEXIST) ThrowSystemError(path, "created", error);
  return false;
}

// Another process's cleaning may have met the file before it was locked. A file system without
// locks is none the worse: cleaning finds no lock there either.
bool TemporaryFile::IsKept(const std::string& path) {
  if (flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat status;
  if (fstat(descriptor_.get(), &status) == 0) return status.st_nlink > 0;
  const int error = errno;
  Discard();
  ThrowSystemError(path, "created", error);
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : directory_(std::exchange(other.directory_, -1)),
      slot_(std::exchange(other.slot_, -1)),
      name_(std::move(other.name_)),
      descriptor_(std::move(other.descriptor_)) {}

TemporaryFile& TemporaryFile::operator=(TemporaryFile&& other) noexcept {
  if (this != &other) {
    Discard();
    directory_ = std::exchange(other.directory_, -1);
    slot_ = std::exchange(other.slot_, -1);
    name_ = std::move(other.name_);
    descriptor_ = std::move(other.descriptor_);
  }
  return *this;
}

int TemporaryFile::RenameTo(const std::string& name, bool replace) {
  const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
  int error =
      renameat2(directory_, name_.c_str(), directory_, name.c_str(), flags) == 0 ? 0 : errno;
  // NFS and others know no RENAME_NOREPLACE; a hard link refuses an existing name as well, and
  // Discard() then removes the first name.
  if (!replace && (error == EINVAL || error == ENOSYS)) {
    return linkat(directory_, name_.c_str(), directory_, name.c_str(), 0) == 0 ? 0 : errno;
  }
  if (error == 0) {
    Unregister(std::exchange(slot_, -1));
    directory_ = -1;
  }
  return error;
}

void TemporaryFile::Discard() noexcept {
  if (directory_ >= 0) unlinkat(directory_, name_.c_str(), 0);
  Unregister(std::exchange(slot_, -1));
  directory_ = -1;
  descriptor_.Close();
}

void RemoveTemporaryFiles() {
  const int saved_errno = errno;
  for (const NameSlot& slot : name_slots) {
    if (slot.live) unlinkat(slot.directory, slot.name, 0);
  }
  errno = saved_errno;
}

void RemoveTemporaryFilesOf(int pid, const std::string& directory) {
  const FileDescriptor opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) return;
  ForEachEntry(opened.get(), [&](const char* name) {
    if (MakerOf(name) == pid) RemoveIfUnlocked(opened.get(), name);
  });
}

void RemoveStaleTemporaryFiles(int directory) {
  if (!IsFirstVisit(directory)) return;
  ForEachEntry(directory, [&](const char* name) {
    const std::optional<pid_t> maker = MakerOf(name);
    if (maker && IsGone(*maker)) RemoveIfUnlocked(directory, name);
  });
}

}  // namespace convgrad
