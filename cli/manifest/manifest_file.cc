#include "cli/manifest/manifest_file.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"

namespace convgrad::cli {
namespace {

constexpr size_t kMaxStandardInputBytes = size_t{256} << 20;

std::string ReadStream(const std::string& path) {
  const std::shared_ptr<InputFile> file = InputFile::Open(path);
  std::string contents;
  std::vector<char> piece(size_t{64} << 10);
  while (const int64_t got = file->Read(piece.data(), static_cast<int64_t>(piece.size()))) {
    contents.append(piece.data(), static_cast<size_t>(got));
    if (contents.size() > kMaxStandardInputBytes) {
      ThrowIo("io/too-large", file->name(),
              fmt::format("a manifest from there may have {} bytes", kMaxStandardInputBytes),
              "give a file");
    }
  }
  return contents;
}

// Says whether the first line is a whole object without the key `cases`.
bool LooksLikeLines(const std::string& contents) {
  const std::string line = contents.substr(0, contents.find('\n'));
  const size_t last = line.find_last_not_of(" \t\r");
  return last != std::string::npos && line[last] == '}' &&
         line.find("\"cases\"") == std::string::npos && line.find('{') != std::string::npos;
}

}  // namespace

ManifestFile::ManifestFile(const std::string& path)
    : path_(path), name_(path == "-" ? "standard input" : path) {
  if (IsStream(path)) {
    contents_ = std::make_shared<const std::string>(ReadStream(path));
    if (LooksLikeLines(*contents_)) form_ = JsonReader::Form::kLines;
    return;
  }
  first_ = InputFile::Open(path);
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) form_ = JsonReader::Form::kLines;
}

ManifestFile::ManifestFile(std::string name, std::string lines)
    : path_("-"),
      name_(std::move(name)),
      form_(JsonReader::Form::kLines),
      contents_(std::make_shared<const std::string>(std::move(lines))) {}

JsonReader ManifestFile::Open() const {
  if (contents_) {
    return JsonReader(
        name_,
        [contents = contents_, at = size_t{0}](char* into, size_t bytes) mutable {
          const size_t count = contents->copy(into, bytes, at);
          at += count;
          return count;
        },
        form_);
  }
  const std::shared_ptr<InputFile> file = InputFile::Open(path_);
  if (file->identity() != first_->identity()) {
    ThrowIo("io/file-changed", name_, "another file took its place while it was in use",
            "run again when no other process writes it");
  }
  return JsonReader(
      name_,
      [file](char* into, size_t bytes) {
        return static_cast<size_t>(file->Read(into, static_cast<int64_t>(bytes)));
      },
      form_);
}

void ManifestFile::CheckUnchanged() const {
  if (first_) first_->CheckUnchanged();
}

}  // namespace convgrad::cli
