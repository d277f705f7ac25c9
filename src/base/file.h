// All work with files shares these: descriptors that close themselves, errors in words, the
// identity of files, and standard streams fit for use. Must not know formats or what a file is for.
#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace convgrad {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Close(); }

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void Close() noexcept;

 private:
  int number_ = -1;
};

// Throws the I/O error of the system's `error_number`: code, reason and fix come from one table.
// `doing` is the step that failed, as in "cannot be DOING" ("opened", "written").
[[noreturn]] void ThrowSystemError(const std::string& what, const std::string& doing,
                                   int error_number);

// Throws "io/bad-path" for an empty path or one with a NUL in it.
void CheckPath(const std::string& path);

// "a/b/c" as "a/b" and "c"; "c" as "." and "c".
std::pair<std::string, std::string> SplitPath(const std::string& path);

// Where a path leads after its last part's symbolic links, even if nothing is there yet. Throws
// "io/bad-path" for a loop.
std::string FollowLinks(const std::string& path);

// Waits until a descriptor in non-blocking mode can go on; `events` as in poll().
void WaitFor(int descriptor, short events);

// After EINTR: throws Stopped if this thread's work has to end (MustEnd()), else returns so that
// the call is made again.
void RetryUnlessStopped();

// Bytes of a long copy between two such looks.
inline constexpr int64_t kPieceBytes = 8 << 20;

// Two names are one file if these are equal.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

FileIdentity IdentityOf(const struct stat& status);

// The identity of the file a path leads to, links followed; none if there is no such file.
std::optional<FileIdentity> IdentityOf(const std::string& path);

// True if there is anything at `path`, links followed. Throws I/O errors where nobody can tell.
bool Exists(const std::string& path);

// A path with the flag or role it came from, for messages.
struct NamedPath {
  std::string name;
  std::string path;
};

// Throws usage "io/same-file" when an output is also an input (by name, hard link or symbolic link)
// or two outputs would be one file, whether they exist yet or not. "-" is the file that standard
// input or output was redirected to; pipes and devices never clash.
void CheckDistinctFiles(std::span<const NamedPath> inputs, std::span<const NamedPath> outputs);

// Texts that tell files apart in bulk: two paths are one file, or would be one if they were
// written, if and only if they share one. Pipes and devices have none.
std::vector<std::string> FileKeys(const std::string& path);

// For the start of a process: a full pipe or a file-size limit becomes an error of the write
// instead of a deadly signal, and a closed standard stream can't be mistaken for the next file
// opened.
void PrepareStandardStreams();

}  // namespace convgrad
