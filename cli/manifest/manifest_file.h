// A manifest's text is read here, from a file, a stream or memory. This file must not know what a
// manifest says.
#pragma once

#include <memory>
#include <string>

#include "base/input_file.h"
#include "cli/manifest/json_reader.h"

namespace convgrad::cli {

// A manifest that can be read several times and stays the same meanwhile.
class ManifestFile {
 public:
  // JSON Lines if the name ends in .jsonl or .ndjson, else JSON. "-" is standard input, which is
  // kept in memory and may be either. Throws I/O errors.
  explicit ManifestFile(const std::string& path);
  // JSON Lines that lie nowhere; `name` as messages call them.
  ManifestFile(std::string name, std::string lines);

  const std::string& path() const { return path_; }
  // As messages call it.
  const std::string& name() const { return name_; }

  // From the first byte.
  JsonReader Open() const;

  // Throws "io/file-changed" if the file is no longer what it was at first.
  void CheckUnchanged() const;

 private:
  std::string path_;
  std::string name_;
  JsonReader::Form form_ = JsonReader::Form::kDocument;
  std::shared_ptr<const InputFile> first_;       // for CheckUnchanged
  std::shared_ptr<const std::string> contents_;  // of standard input
};

}  // namespace convgrad::cli
