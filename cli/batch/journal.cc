#include "cli/batch/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "cli/record/golden_record.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr std::string_view kIdentityKey = "\"identity\":\"";
constexpr size_t kIdentityDigits = 64;
// An entry begins with its name, in which quotes are escaped, and its number.
constexpr std::string_view kBegin = "{\"name\":\"";
constexpr std::string_view kAfterName = ",\"family_index\":";

// The identity that the entry in `line` names; empty without one. The key stands near the front.
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

// Says whether one of the two begins with the other.
bool Agree(std::string_view a, std::string_view b) {
  const size_t length = std::min(a.size(), b.size());
  return a.substr(0, length) == b.substr(0, length);
}

// Says whether `line`, as far as it goes, begins as entries do.
bool BeginsAsEntry(std::string_view line) {
  if (line.empty() || !Agree(line, kBegin)) return false;
  size_t at = kBegin.size();
  while (at < line.size() && line[at] != '"') at += line[at] == '\\' ? 2 : 1;
  return at >= line.size() || Agree(line.substr(at + 1), kAfterName);
}

bool IsEntry(const Json& json) try {
  return IsDataHash(json.at("identity").get<std::string>()) && json.at("status").is_string() &&
         json.at("exit_code").is_number_integer() &&
         (!json.contains("shard") || json["shard"].is_string());
} catch (const Json::exception&) {
  return false;
}

// The first entry of an events file, null where there is none yet; none for a file of something
// else. Only lines that kills cut short may come before it.
std::optional<Json> FirstEntry(std::string_view text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (!BeginsAsEntry(line)) return std::nullopt;
    const Json json = TryParseJson(line);
    if (!json.is_discarded()) return IsEntry(json) ? std::optional(json) : std::nullopt;
    begin = end + 1;
  }
  return Json();
}

// Nothing is added to somebody's tensor or manifest that was named by mistake, nor to the events of
// cases that were dealt otherwise.
void CheckIsOurs(std::string_view earlier, const std::string& path, const std::string& shard) {
  const std::optional<Json> first = FirstEntry(earlier);
  if (!first) {
    ThrowData("events/malformed", path, "it has no events of a batch, which would be appended",
              "name another file");
  }
  if (first->is_null()) return;
  const std::string theirs = first->value("shard", "");
  if (theirs == shard) return;
  const auto name = [](const std::string& of) { return of.empty() ? "all cases" : "shard " + of; };
  ThrowData("events/other-shard", path,
            fmt::format("it has the events of {}, this is {}", name(theirs), name(shard)),
            "name another file, or run the same shard");
}

}  // namespace

Journal::Journal(const std::string& path, std::string shard)
    : path_(path),
      shard_(std::move(shard)),
      file_(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
                 0666)) {
  struct stat status;
  if (!file_.is_open() || fstat(file_.get(), &status) != 0) {
    ThrowSystemError(path, "opened", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    ThrowIo("io/not-a-file", path, "it is no regular file", "name one");
  }
  const FileText earlier(path);
  CheckIsOurs(earlier.text(), path, shard_);
  // A run that was killed may have left half a line.
  if (!earlier.text().empty() && earlier.text().back() != '\n') Write("\n");
}

void Journal::Add(const std::string& entry) {
  const std::string_view open = std::string_view(entry).substr(0, entry.size() - 1);
  Write(shard_.empty() ? entry + "\n" : fmt::format("{},\"shard\":\"{}\"}}\n", open, shard_));
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
  file_.emplace(path);
  const std::string_view text = file_->text();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view identity = IdentityIn(text.substr(begin, end - begin));
    if (!identity.empty()) {
      lines_.push_back({KeyOf(identity), static_cast<int64_t>(begin), static_cast<int64_t>(end)});
    }
    begin = end + 1;
  }
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.key < b.key; });
}

std::optional<std::string> JournalIndex::Find(const std::string& identity) const {
  const auto after =
      std::upper_bound(lines_.begin(), lines_.end(), KeyOf(identity),
                       [](uint64_t key, const Line& line) { return key < line.key; });
  for (auto line = after; line != lines_.begin();) {
    --line;
    const std::string_view text = file_->text().substr(
        static_cast<size_t>(line->begin), static_cast<size_t>(line->end - line->begin));
    if (IdentityIn(text) == identity) return std::string(text);
    if (line->key != KeyOf(identity)) break;
  }
  return std::nullopt;
}

}  // namespace convgrad::cli
