// The unfinished files beside outputs: their names, the list from which a signal handler removes
// them, and the removal of those that a killed process left. Must not know what is written.
#pragma once

#include <string>

#include "base/file.h"

namespace convgrad {

// A file ".NAME.tmp-PID-RANDOM", RANDOM 16 hexadecimal digits, in an open directory, locked while
// this process writes it, removed when it goes out of scope unless it was renamed.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  // Creates it for the output `name` in `directory` (which must stay open as long as this lives).
  // Throws the I/O error of `path`, the output's path for messages, and Stopped.
  TemporaryFile(int directory, const std::string& name, const std::string& path);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&& other) noexcept;
  ~TemporaryFile() { Discard(); }

  bool is_open() const { return descriptor_.is_open(); }
  int descriptor() const { return descriptor_.get(); }

  // Gives it its final name, replacing a file there, or failing with EEXIST if told not to.
  // Returns 0 or the error number.
  int RenameTo(const std::string& name, bool replace);

  void Discard() noexcept;

 private:
  // True if there is a new file; false to try again.
  bool Create(int directory, const std::string& name, const std::string& path);
  // True if it is locked and still there; false if another process removes it.
  bool IsKept(const std::string& path);

  int directory_ = -1;
  int slot_ = -1;  // in the list below
  std::string name_;
  FileDescriptor descriptor_;
};

// Removes every temporary file of this process. Async-signal-safe.
void RemoveTemporaryFiles();

// Removes those that the process `pid`, which has ended, left in a directory; not those that a
// process of the same number is writing on another machine or in another container.
void RemoveTemporaryFilesOf(int pid, const std::string& directory);

// Removes from a directory, once per process and directory, temporary files whose process is gone.
void RemoveStaleTemporaryFiles(int directory);

}  // namespace convgrad
