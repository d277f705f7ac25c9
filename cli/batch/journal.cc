#include "cli/batch/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/error.h"
#include "base/input_file.h"

namespace convgrad::cli {
namespace {

constexpr std::string_view kIdentityKey = "\"identity\":\"";
constexpr size_t kIdentityDigits = 64;
constexpr std::string_view kBegin = "{\"";  // of every line

// The identity that the entry in `line` names; empty without one. The key stands near the front,
// after the name, in which quotes are escaped.
std::string_view IdentityIn(std::string_view line) {
  if (!line.starts_with('{') || !line.ends_with('}')) return {};
  const size_t at = line.find(kIdentityKey);
  if (at == std::string_view::npos) return {};
  const std::string_view identity = line.substr(at + kIdentityKey.size(), kIdentityDigits);
  return identity.size() == kIdentityDigits ? identity : std::string_view();
}

uint64_t KeyOf(std::string_view identity) {
  uint64_t key = 0;
  std::from_chars(identity.data(), identity.data() + 16, key, 16);
  return key;
}

}  // namespace

Journal::Journal(const std::string& path)
    : path_(path),
      file_(open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
                 0666)) {
  struct stat status;
  if (!file_.is_open() || fstat(file_.get(), &status) != 0) {
    ThrowSystemError(path, "opened", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    ThrowIo("io/not-a-file", path, "it is no regular file", "name one");
  }
  // Nothing is added to somebody's tensor or manifest that was named by mistake.
  char begin[kBegin.size()] = {};
  const ssize_t num_read = pread(file_.get(), begin, sizeof(begin), 0);
  if (num_read < 0) ThrowSystemError(path, "read", errno);
  if (!kBegin.starts_with(std::string_view(begin, static_cast<size_t>(num_read)))) {
    ThrowData("events/malformed", path, "it has no events of a batch, which would be appended",
              "name another file");
  }
  // A run that was killed may have left half a line.
  char last = '\n';
  if (status.st_size > 0 && pread(file_.get(), &last, 1, status.st_size - 1) == 1 && last != '\n') {
    Write("\n");
  }
}

void Journal::Add(const std::string& entry) {
  Write(entry + "\n");
}

void Journal::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(file_.get(), text.data(), text.size());
    if (done > 0) {
      text.remove_prefix(static_cast<size_t>(done));
    } else if (done == 0 || errno != EINTR) {
      ThrowSystemError(path_, "written", done == 0 ? ENOSPC : errno);
    }
  }
}

JournalIndex::JournalIndex(const std::string& path) {
  if (!Exists(path)) return;
  Read(path);
  for (size_t begin = 0; begin < text_.size();) {
    const size_t end = std::min(text_.find('\n', begin), text_.size());
    const std::string_view identity = IdentityIn(text_.substr(begin, end - begin));
    if (!identity.empty()) {
      lines_.push_back({KeyOf(identity), static_cast<int64_t>(begin), static_cast<int64_t>(end)});
    }
    begin = end + 1;
  }
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.key < b.key; });
}

void JournalIndex::Read(const std::string& path) {
  const std::shared_ptr<InputFile> file = InputFile::Open(path);
  mapping_ = file->Map();
  if (mapping_) {
    text_ = {reinterpret_cast<const char*>(mapping_->data()),
             static_cast<size_t>(mapping_->size())};
    return;
  }
  contents_ = file->ReadRest();
  text_ = contents_;
}

std::optional<std::string> JournalIndex::Find(const std::string& identity) const {
  const auto after =
      std::upper_bound(lines_.begin(), lines_.end(), KeyOf(identity),
                       [](uint64_t key, const Line& line) { return key < line.key; });
  for (auto line = after; line != lines_.begin();) {
    --line;
    const std::string_view text = text_.substr(static_cast<size_t>(line->begin),
                                               static_cast<size_t>(line->end - line->begin));
    if (IdentityIn(text) == identity) return std::string(text);
    if (line->key != KeyOf(identity)) break;
  }
  return std::nullopt;
}

}  // namespace convgrad::cli
