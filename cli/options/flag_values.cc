#include "cli/options/flag_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/text/unicode.h"

namespace convgrad::cli {
namespace {

// $'...', where every byte but printable ASCII is in octal.
std::string QuoteBytes(const std::string& word) {
  std::string quoted = "$'";
  for (const char letter : word) {
    if (letter == '\'' || letter == '\\') {
      quoted += {'\\', letter};
    } else if (letter >= ' ' && letter <= '~') {
      quoted += letter;
    } else {
      quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(letter));
    }
  }
  return quoted + "'";
}

std::string Quote(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return ToValidUtf8(word) == word ? quoted + "'" : QuoteBytes(word);
}

}  // namespace

FlagValues FlagValues::OfCall() {
  FlagValues flags;
  flags.has_keys_ = true;
  return flags;
}

void FlagValues::Add(Entry entry) {
  const auto after = std::upper_bound(entries_.begin(), entries_.end(), entry.id,
                                      [](FlagId id, const Entry& other) { return id < other.id; });
  entries_.insert(after, std::move(entry));
}

const std::string* FlagValues::Find(FlagId id) const {
  for (const Entry& entry : entries_) {
    if (entry.id == id) return &entry.text;
  }
  return nullptr;
}

std::string FlagValues::Get(FlagId id, const std::string& otherwise) const {
  const std::string* text = Find(id);
  return text == nullptr ? otherwise : *text;
}

std::string FlagValues::NameOf(FlagId id) const {
  return has_keys_ ? KeyOf(InfoOf(id)) : Spell(InfoOf(id));
}

void FlagValues::Refuse(FlagId id, const Error& error) const {
  for (const Entry& entry : entries_) {
    if (entry.id == id && entry.place.line > 0) RefuseAt(entry.place, error);
  }
  RefuseAt(place_, error);
}

void FlagValues::RefuseAt(Place place, const Error& error) const {
  if (!source_) throw error;
  throw Error(error.exit_code(), error.code(), FormatPlace(*source_, place), error.message());
}

std::string FormatPlace(const std::string& source, Place place) {
  return fmt::format("{}:{}:{}", source, place.line, place.column);
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + Quote(word);
  return line;
}

std::vector<std::string> FlagWords(const FlagValues& flags, bool with_outputs) {
  std::vector<std::string> words;
  for (const FlagValues::Entry& entry : flags.entries()) {
    const Flag& flag = InfoOf(entry.id);
    if (!flag.in_repro && !with_outputs) continue;
    words.push_back(Spell(flag));
    if (flag.value == nullptr) continue;
    if (entry.text.starts_with("--")) {
      words.back() += "=" + entry.text;
    } else {
      words.push_back(entry.text);
    }
  }
  return words;
}

}  // namespace convgrad::cli
