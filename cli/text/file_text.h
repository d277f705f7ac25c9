// The text of a whole file, mapped where that is possible. Must not know what it says.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/input_file.h"

namespace convgrad::cli {

class FileText {
 public:
  // Throws I/O errors.
  explicit FileText(const std::string& path);
  FileText(FileText&&) = delete;

  std::string_view text() const { return text_; }
  // Throws as InputFile::CheckUnchanged.
  void CheckUnchanged() const { file_->CheckUnchanged(); }

 private:
  const std::shared_ptr<InputFile> file_;
  const std::shared_ptr<const MappedFile> mapping_;
  std::string copy_;  // of what can't be mapped
  std::string_view text_;
};

}  // namespace convgrad::cli
