#include "cli/text/number_list.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/error.h"
#include "cli/text/trim.h"

namespace convgrad::cli {
namespace {

int DepthChange(char letter) {
  if (letter == '[' || letter == '(') return 1;
  return letter == ']' || letter == ')' ? -1 : 0;
}

// Says whether the last character closes the first bracket.
bool IsBracketed(std::string_view text) {
  if (text.size() < 2) return false;
  const bool match =
      (text.front() == '[' && text.back() == ']') || (text.front() == '(' && text.back() == ')');
  if (!match) return false;
  int depth = 0;
  for (const char letter : text.substr(0, text.size() - 1)) {
    depth += DepthChange(letter);
    if (depth == 0) return false;
  }
  return depth == 1;
}

class ListParser {
 public:
  ListParser(const std::string& flag, std::string_view text) : flag_(flag), text_(text) {}

  NumberList Parse() const {
    const std::vector<std::string_view> items = ItemsOf(Trim(text_));
    NumberList list;
    for (const std::string_view item : items) {
      const bool is_pair = IsBracketed(item);
      if (!list.values.empty() && is_pair != list.in_pairs) Refuse("mixes numbers and pairs");
      list.in_pairs = is_pair;
      if (!is_pair) {
        list.values.push_back(Number(item));
        continue;
      }
      const std::vector<std::string_view> pair = ItemsOf(item);
      if (pair.size() != 2) Refuse(fmt::format("'{}' is no pair", item.substr(0, kShown)));
      for (const std::string_view number : pair) list.values.push_back(Number(number));
    }
    return list;
  }

  [[noreturn]] void Refuse(const std::string& why) const {
    ThrowUsage("flag/value", fmt::format("{} '{}'", flag_, text_.substr(0, kShown)), why,
               "give whole numbers with commas between them");
  }

 private:
  static constexpr size_t kShown = 100;

  // Returns what the commas outside inner brackets part. In brackets, a comma may end the list,
  // as in Python's (1,).
  static std::vector<std::string_view> ItemsOf(std::string_view text) {
    const bool bracketed = IsBracketed(text);
    if (bracketed) text = Trim(text.substr(1, text.size() - 2));
    std::vector<std::string_view> items;
    if (text.empty()) return items;
    int depth = 0;
    size_t begin = 0;
    for (size_t at = 0; at <= text.size(); ++at) {
      if (at < text.size()) depth += DepthChange(text[at]);
      if (at < text.size() && (text[at] != ',' || depth > 0)) continue;
      items.push_back(Trim(text.substr(begin, at - begin)));
      begin = at + 1;
    }
    if (bracketed && items.size() > 1 && items.back().empty()) items.pop_back();
    return items;
  }

  int64_t Number(std::string_view item) const {
    int64_t value = 0;
    const char* end = item.data() + item.size();
    const auto [stop, error] = std::from_chars(item.data(), end, value);
    if (error == std::errc() && stop == end) return value;
    const bool is_large = error == std::errc::result_out_of_range;
    Refuse(fmt::format("'{}' is {}", item.substr(0, kShown),
                       is_large ? "too large" : "not a whole number"));
  }

  const std::string& flag_;
  const std::string_view text_;
};

}  // namespace

NumberList ParseNumberList(const std::string& flag, std::string_view text) {
  return ListParser(flag, text).Parse();
}

std::vector<int64_t> ParseIntegers(const std::string& flag, std::string_view text) {
  NumberList list = ParseNumberList(flag, text);
  if (list.in_pairs) ListParser(flag, text).Refuse("has lists in a list");
  return std::move(list.values);
}

bool LooksLikeNumbers(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  return !trimmed.empty() &&
         std::string_view("0123456789-+[(").find(trimmed.front()) != std::string_view::npos;
}

}  // namespace convgrad::cli
