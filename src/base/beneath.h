// Decides if a path stays beneath a directory, whatever symbolic links it meets. Must not know why
// it should.
#pragma once

#include <string>

#include "base/file.h"

namespace convgrad {

class DirectoryTree {
 public:
  // Throws the I/O error of a directory that can't be opened.
  explicit DirectoryTree(const std::string& path);

  const std::string& path() const { return path_; }

  // True if `relative` leads to a place in the tree: neither absolute, nor through "..", nor
  // through a symbolic link that leads out. What does not exist yet leads nowhere else.
  bool Holds(const std::string& relative) const;

 private:
  std::string path_;
  FileDescriptor directory_;
};

}  // namespace convgrad
