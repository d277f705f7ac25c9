#include "base/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace convgrad {
namespace {

[[noreturn]] void ThrowIsDirectory(const std::string& path) {
  ThrowIo("io/not-a-file", path, "it is a directory", "name a file in it");
}

// Makes the directory's new entry durable. Some file systems can't, and a directory that may be
// written but not listed can't be opened for it: then there is nothing to do.
void SyncDirectory(int directory, const std::string& path) {
  const FileDescriptor listed(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!listed.is_open() && errno == EACCES) return;
  if (!listed.is_open()) ThrowSystemError(path, "made durable", errno);
  while (fsync(listed.get()) != 0) {
    if (errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) return;
    if (errno != EINTR) ThrowSystemError(path, "made durable", errno);
  }
}

}  // namespace

OutputFile::OutputFile(const std::string& path, const OutputFileOptions& options)
    : name_(path == "-" ? "standard output" : path), options_(options) {
  if (path == "-") {
    stream_ = FileDescriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!stream_.is_open()) ThrowSystemError(name_, "written", errno);
    return;
  }
  CheckPath(path);
  struct stat status;
  const bool exists = stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT && errno != ENOTDIR) ThrowSystemError(path, "created", errno);
  if (path.back() == '/' || (exists && S_ISDIR(status.st_mode))) ThrowIsDirectory(path);
  if (exists && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode))) {
    OpenStream(path);
  } else if (exists && !S_ISREG(status.st_mode)) {
    ThrowIo("io/not-a-file", path, "it is a block device or a socket", "name a regular file");
  } else {
    if (exists && options.no_clobber) ThrowSystemError(path, "written", EEXIST);
    // Replacing needs no permission on the old file, but a write-protected one is meant to stay.
    if (exists && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
      ThrowSystemError(path, "replaced", errno);
    }
    OpenBeside(FollowLinks(path));
  }
}

void OutputFile::OpenStream(const std::string& path) {
  // O_NONBLOCK: a pipe without a reader is an error, not a wait. WaitFor() does the waiting later.
  stream_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!stream_.is_open()) ThrowSystemError(path, "opened", errno);
}

void OutputFile::OpenBeside(const std::string& path) {
  const auto [directory, file_name] = SplitPath(path);
  directory_ = FileDescriptor(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory_.is_open()) {
    if (errno != ENOENT && errno != ENOTDIR) ThrowSystemError(name_, "created", errno);
    ThrowIo("io/no-directory", name_, "there is no directory " + directory, "create it first");
  }
  file_name_ = file_name;
  RemoveStaleTemporaryFiles(directory_.get());
  temporary_ = TemporaryFile(directory_.get(), file_name_, name_);
}

void OutputFile::Reserve(int64_t bytes) {
  if (!temporary_.is_open() || bytes <= 0) return;
  // fallocate, not posix_fallocate: the latter writes every block where the file system can't.
  while (fallocate(temporary_.descriptor(), 0, 0, bytes) != 0) {
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
      ThrowSystemError(name_, "written", errno);
    if (errno != EINTR) return;
    RetryUnlessStopped();
  }
}

void OutputFile::Write(const void* from, int64_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t done =
        write(descriptor(), next, static_cast<size_t>(std::min(bytes, kPieceBytes)));
    if (done > 0) {
      next += done;
      bytes -= done;
    } else if (done == 0) {
      ThrowSystemError(name_, "written", ENOSPC);
    } else if (errno == EAGAIN) {
      WaitFor(descriptor(), POLLOUT);
    } else if (errno == EINTR) {
      RetryUnlessStopped();
    } else {
      ThrowSystemError(name_, "written", errno);
    }
  }
}

// Network file systems report a failed write when a descriptor is closed. Closing a copy asks for
// that while the file stays open, and so locked.
void OutputFile::CheckFlushed() const {
  const int copy = fcntl(descriptor(), F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || close(copy) != 0) ThrowSystemError(name_, "written", errno);
}

void OutputFile::Commit() {
  if (stream_.is_open()) {
    CheckFlushed();
    stream_.Close();
    return;
  }
  // After a failed fsync the kernel may have dropped the data: only one that a signal interrupted
  // is tried again.
  while (fsync(temporary_.descriptor()) != 0) {
    if (errno != EINTR) ThrowSystemError(name_, "made durable", errno);
    RetryUnlessStopped();
  }
  CheckFlushed();
  const int error = temporary_.RenameTo(file_name_, !options_.no_clobber);
  if (error != 0) ThrowSystemError(name_, "put in place", error);
  temporary_.Discard();
  SyncDirectory(directory_.get(), name_);
}

void CheckOutputPath(const std::string& path, const OutputFileOptions& options) {
  const OutputFile file(path, options);
}

void WriteTextFile(const std::string& path, std::string_view text,
                   const OutputFileOptions& options) {
  OutputFile file(path, options);
  file.Reserve(static_cast<int64_t>(text.size()));
  file.Write(text);
  file.Commit();
}

}  // namespace convgrad
