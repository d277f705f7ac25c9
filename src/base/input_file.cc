#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace convgrad {
namespace {

FileDescriptor OpenForReading(const std::string& path) {
  CheckPath(path);
  // O_NONBLOCK: opening a FIFO must not wait for a writer. It means nothing for regular files.
  for (;;) {
    FileDescriptor descriptor(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (descriptor.is_open()) return descriptor;
    if (errno != EINTR) ThrowSystemError(path, "opened", errno);
    RetryUnlessStopped();
  }
}

// The descriptor of this process that a path of the form /dev/fd/N names, if it is a pipe's.
std::optional<int> PipeAt(const std::string& path) {
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const char* end = path.data() + path.size();
    const auto [after, error] = std::from_chars(path.data() + folder.size(), end, number);
    struct stat status;
    if (error != std::errc() || after != end || number < 0) return std::nullopt;
    if (fstat(number, &status) == 0 && S_ISFIFO(status.st_mode)) return number;
  }
  return std::nullopt;
}

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

bool SameTime(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool SameContent(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && SameTime(a.st_mtim, b.st_mtim) && SameTime(a.st_ctim, b.st_ctim);
}

}  // namespace

bool IsStream(const std::string& path) {
  return path == "-" || PipeAt(path);
}

InputFile::InputFile(std::string name, FileDescriptor descriptor)
    : name_(std::move(name)), descriptor_(std::move(descriptor)) {
  if (fstat(descriptor_.get(), &opened_as_) != 0) ThrowSystemError(name_, "examined", errno);
}

std::shared_ptr<InputFile> InputFile::Open(const std::string& path) {
  const bool is_stdin = path == "-";
  const std::optional<int> pipe = is_stdin ? STDIN_FILENO : PipeAt(path);
  FileDescriptor descriptor =
      pipe ? FileDescriptor(fcntl(*pipe, F_DUPFD_CLOEXEC, 3)) : OpenForReading(path);
  const std::string name = is_stdin ? "standard input" : path;
  if (!descriptor.is_open()) ThrowSystemError(name, "read", errno);
  std::shared_ptr<InputFile> file(new InputFile(name, std::move(descriptor)));
  const mode_t mode = file->opened_as_.st_mode;
  if (S_ISDIR(mode) || (!pipe && !S_ISREG(mode))) {
    ThrowIo(
        "io/not-a-file", name, fmt::format("it is {}", KindOf(mode)),
        is_stdin ? "redirect a file or a pipe" : "name a regular file, or '-' for standard input");
  }
  const int descriptor_number = file->descriptor_.get();
  const bool at_start = !is_stdin || lseek(descriptor_number, 0, SEEK_CUR) == 0;
  // Files of /proc claim to be empty: whether one is shows only when it is read.
  if (S_ISREG(mode) && file->opened_as_.st_size > 0 && at_start) {
    file->size_ = file->opened_as_.st_size;
  }
  return file;
}

int64_t InputFile::Read(void* into, int64_t bytes) {
  char* const target = static_cast<char*>(into);
  const int64_t peeked = std::min(bytes, std::ssize(peeked_));
  std::copy_n(peeked_.data(), peeked, target);
  peeked_.erase(0, static_cast<size_t>(peeked));
  return peeked + ReadOn(target + peeked, bytes - peeked);
}

std::string_view InputFile::Peek(int64_t bytes) {
  const int64_t before = std::ssize(peeked_);
  if (before < bytes) {
    peeked_.resize(static_cast<size_t>(bytes));
    const int64_t got = ReadOn(peeked_.data() + before, bytes - before);
    peeked_.resize(static_cast<size_t>(before + got));
  }
  return std::string_view(peeked_).substr(0, static_cast<size_t>(bytes));
}

// From the file itself.
int64_t InputFile::ReadOn(char* into, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = read(descriptor_.get(), into + done, static_cast<size_t>(bytes - done));
    if (got == 0) break;
    if (got > 0) {
      done += got;
    } else if (errno == EAGAIN) {
      WaitFor(descriptor_.get(), POLLIN);
    } else if (errno == EINTR) {
      RetryUnlessStopped();
    } else {
      ThrowSystemError(name_, "read", errno);
    }
  }
  return done;
}

std::string InputFile::ReadRest(int64_t most) {
  constexpr int64_t kReadBytes = int64_t{1} << 16;
  std::string bytes;
  for (int64_t done = 0; done < most;) {
    const int64_t piece = std::min(kReadBytes, most - done);
    bytes.resize(static_cast<size_t>(done + piece));
    const int64_t got = Read(bytes.data() + done, piece);
    done += got;
    bytes.resize(static_cast<size_t>(done));
    if (got < piece) break;
  }
  return bytes;
}

std::shared_ptr<const MappedFile> InputFile::Map() {
  if (!mapping_ && size_) mapping_ = MappedFile::Map(descriptor_.get(), *size_);
  return mapping_;
}

void InputFile::CheckUnchanged() const {
  if (!size_) return;
  struct stat now;
  const bool known = fstat(descriptor_.get(), &now) == 0;
  if (known && SameContent(now, opened_as_) && !(mapping_ && mapping_->damaged())) return;
  ThrowIo("io/file-changed", name_, "the file changed or could not be read while it was in use",
          "run again when no other process writes it");
}

}  // namespace convgrad
