#include "cli/dialects/python_literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/dialects/logged_conv.h"
#include "cli/dialects/words.h"

namespace convgrad::cli {
namespace {

constexpr int kMaxDepth = 32;

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  PythonValue Value(int depth = 0) {
    if (depth > kMaxDepth) throw Refusal(kMalformed, "values are nested too deeply");
    SkipBlanks();
    if (rest_.empty()) throw Refusal(kMalformed, "the line ends early");
    const char first = rest_.front();
    if (first == '[' || first == '(') return List(depth);
    if (first == '{') return Dictionary(depth);
    if (first == '\'' || first == '"') return String();
    if (first == '-' || first == '+' || IsDigit(first)) return Number();
    if (rest_.starts_with("T(")) return Tensor(depth);
    return Word();
  }

 private:
  using Kind = PythonValue::Kind;

  static bool IsDigit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }
  static bool IsOfName(char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.';
  }

  void SkipBlanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }
  bool Take(char letter) {
    SkipBlanks();
    if (rest_.empty() || rest_.front() != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }
  [[noreturn]] void Refuse() const {
    if (rest_.empty()) throw Refusal(kMalformed, "the line ends early");
    throw Refusal(kMalformed, fmt::format("at '{}'", rest_.substr(0, 40)));
  }
  std::string_view TakeWhile(bool (*belongs)(char)) {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), belongs);
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  PythonValue List(int depth) {
    const char closing = rest_.front() == '[' ? ']' : ')';
    rest_.remove_prefix(1);
    PythonValue list;
    list.kind = Kind::kList;
    while (!Take(closing)) {
      list.items.push_back(Value(depth + 1));
      if (Take(',')) continue;
      if (!Take(closing)) Refuse();
      break;
    }
    return list;
  }

  PythonValue Dictionary(int depth) {
    rest_.remove_prefix(1);
    while (!Take('}')) {
      Value(depth + 1);
      if (!Take(':')) Refuse();
      Value(depth + 1);
      if (Take(',')) continue;
      if (!Take('}')) Refuse();
      break;
    }
    return {};
  }

  PythonValue String() {
    const char quote = rest_.front();
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) throw Refusal(kMalformed, "the line ends early");
    rest_.remove_prefix(end + 1);
    return {};
  }

  PythonValue Number() {
    const std::string_view text =
        TakeWhile([](char letter) { return IsOfName(letter) || letter == '-' || letter == '+'; });
    PythonValue value;
    if (const auto number = ReadInteger(text)) {
      value.kind = Kind::kInteger;
      value.number = *number;
    }
    return value;
  }

  PythonValue Word() {
    PythonValue value;
    value.kind = Kind::kWord;
    value.word = TakeWhile(IsOfName);
    if (value.word.empty()) Refuse();
    return value;
  }

  std::vector<int64_t> Numbers(int depth) {
    const PythonValue list = Value(depth + 1);
    std::vector<int64_t> numbers;
    for (const PythonValue& item : list.items) {
      if (item.kind != Kind::kInteger) throw Refusal(kMalformed, "a shape is no list of numbers");
      numbers.push_back(item.number);
    }
    return numbers;
  }

  PythonValue Tensor(int depth) {
    rest_.remove_prefix(2);
    PythonValue tensor;
    tensor.kind = Kind::kTensor;
    tensor.shape = Numbers(depth);
    if (!Take(',')) Refuse();
    tensor.word = Value(depth + 1).word;
    while (Take(',')) {
      SkipBlanks();
      const std::string_view name = TakeWhile(IsOfName);
      if (!Take('=')) Refuse();
      if (name == "stride") {
        tensor.strides = Numbers(depth);
      } else {
        Value(depth + 1);
      }
    }
    if (!Take(')')) Refuse();
    if (!tensor.strides.empty() && tensor.strides.size() != tensor.shape.size()) {
      throw Refusal(kContradiction, "a tensor has as many strides as dimensions");
    }
    return tensor;
  }

  std::string_view rest_;
};

}  // namespace

PythonValue ParsePythonValue(std::string_view text) {
  return Parser(text).Value();
}

}  // namespace convgrad::cli
