#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

InputFile::InputFile(std::string name, FileDescriptor descriptor)
    : name_(std::move(name)), descriptor_(std::move(descriptor)) {
  if (fstat(descriptor_.get(), &opened_as_) != 0) ThrowSystemError(name_, "examined", errno);
}

std::shared_ptr<InputFile> InputFile::Open(const std::string& path) {
  const bool is_stdin = path == "-";
  FileDescriptor descriptor =
      is_stdin ? FileDescriptor(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) : OpenForReading(path);
  const std::string name = is_stdin ? "standard input" : path;
  if (!descriptor.is_open()) ThrowSystemError(name, "read", errno);
  std::shared_ptr<InputFile> file(new InputFile(name, std::move(descriptor)));
  const mode_t mode = file->opened_as_.st_mode;
  if (S_ISDIR(mode) || (!is_stdin && !S_ISREG(mode))) {
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
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        read(descriptor_.get(), static_cast<char*>(into) + done, static_cast<size_t>(bytes - done));
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
  constexpr int64_t kPieceBytes = int64_t{1} << 16;
  std::string bytes;
  for (int64_t done = 0; done < most;) {
    const int64_t piece = std::min(kPieceBytes, most - done);
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
