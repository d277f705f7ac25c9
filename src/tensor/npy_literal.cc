#include "tensor/npy_literal.h"

#include <fmt/format.h>

#include <cstddef>

namespace convgrad {
namespace {

constexpr int kMaxDepth = 8;  // a structured type needs four; nobody needs 3000

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsWordPart(char c) {
  return IsDigit(c) || IsLetter(c);
}

// The escapes that Python 2's plain strings had. \u was none of them: it stands for itself.
bool IsEscape(char c) {
  return std::string_view("\\'\"abfnrtvx01234567\n\r").find(c) != std::string_view::npos;
}

std::string Show(char c) {
  return c >= 0x20 && c < 0x7F ? fmt::format("'{}'", c)
                               : fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c));
}

// Brackets still open, innermost last, and what may come next.
class ValueSyntax {
 public:
  // Takes the next token of the value; true when the value is complete.
  bool Take(const Token& token) {
    if (token.kind != TokenKind::kPunctuation) {
      if (!value_may_come_) Fail(token, "a comma is missing");
      return EndValue();
    }
    const char c = token.text[0];
    if (c == '(' || c == '[' || c == '{') return Open(token);
    if (c == ',') return Comma(token);
    if (c == ':') return Colon(token);
    return Close(token);
  }

  [[noreturn]] static void Fail(const Token& token, const char* why) {
    throw LiteralSyntaxError{token.at, why};
  }

 private:
  struct Level {
    char closing;
    bool in_key;  // of a dictionary, before the colon
  };

  bool Open(const Token& token) {
    if (!value_may_come_) Fail(token, "a comma is missing");
    if (depth_ == kMaxDepth) Fail(token, "brackets are nested too deeply");
    const char c = token.text[0];
    levels_[depth_++] = {c == '(' ? ')' : c == '[' ? ']' : '}', c == '{'};
    may_close_ = true;
    return false;
  }

  bool Comma(const Token& token) {
    if (depth_ == 0 || value_may_come_) Fail(token, "a value is missing before the comma");
    Level& level = levels_[depth_ - 1];
    if (level.closing == '}' && level.in_key) Fail(token, "a key has no value");
    level.in_key = level.closing == '}';
    value_may_come_ = may_close_ = true;
    return false;
  }

  bool Colon(const Token& token) {
    if (depth_ == 0 || value_may_come_ || !levels_[depth_ - 1].in_key) {
      Fail(token, "a colon is out of place");
    }
    levels_[depth_ - 1].in_key = false;
    value_may_come_ = true;
    may_close_ = false;
    return false;
  }

  bool Close(const Token& token) {
    if (depth_ == 0 || levels_[depth_ - 1].closing != token.text[0]) {
      Fail(token, "a bracket does not match");
    }
    if (value_may_come_ && !may_close_) Fail(token, "a value is missing");
    if (levels_[depth_ - 1].in_key && !value_may_come_) Fail(token, "a key has no value");
    --depth_;
    return EndValue();
  }

  bool EndValue() {
    value_may_come_ = may_close_ = false;
    return depth_ == 0;
  }

  Level levels_[kMaxDepth];
  int depth_ = 0;
  bool value_may_come_ = true;
  bool may_close_ = false;  // meaningful while a value may come
};

}  // namespace

char LiteralLexer::Peek(int64_t ahead) const {
  const size_t at = static_cast<size_t>(at_ + ahead);
  return at < text_.size() ? text_[at] : '\0';
}

void LiteralLexer::SkipBlanks() {
  while (at_ < static_cast<int64_t>(text_.size()) &&
         std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) {
    ++at_;
  }
}

Token LiteralLexer::Next() {
  SkipBlanks();
  const int64_t start = at_;
  if (start == static_cast<int64_t>(text_.size())) return {TokenKind::kEnd, {}, start};
  const char c = Peek();
  if (std::string_view("()[]{},:").find(c) != std::string_view::npos) {
    ++at_;
    return {TokenKind::kPunctuation, text_.substr(start, 1), start};
  }
  const bool quote_follows = Peek(1) == '\'' || Peek(1) == '"';
  if (c == '\'' || c == '"') return LexString(start, TokenKind::kString);
  if (quote_follows && (c == 'u' || c == 'U' || c == 'b' || c == 'B')) {
    ++at_;
    return LexString(start, c == 'b' || c == 'B' ? TokenKind::kBytes : TokenKind::kString);
  }
  if (IsDigit(c) || c == '.' || (c == '-' && (IsDigit(Peek(1)) || Peek(1) == '.'))) {
    return LexNumber(start);
  }
  if (IsLetter(c)) return LexName(start);
  throw LiteralSyntaxError{start, Show(c) + " is out of place"};
}

Token LiteralLexer::LexString(int64_t start, TokenKind kind) {
  const char quote = Peek();
  if (Peek(1) == quote && Peek(2) == quote) throw LiteralSyntaxError{start, "triple quotes"};
  const int64_t content = ++at_;
  for (;; ++at_) {
    const char c = Peek();
    if (at_ >= static_cast<int64_t>(text_.size()) || c == '\n' || c == '\r') {
      throw LiteralSyntaxError{start, "a string has no end"};
    }
    if (c == '\\' && IsEscape(Peek(1))) throw LiteralSyntaxError{at_, "an escape in a string"};
    if (c == quote) break;
  }
  const std::string_view text = text_.substr(content, at_ - content);
  ++at_;
  return {kind, text, start};
}

// A number, and "2+0j" as one.
Token LiteralLexer::LexNumber(int64_t start) {
  Token token = LexDigits(start);
  if ((Peek() == '+' || Peek() == '-') && (IsDigit(Peek(1)) || Peek(1) == '.')) {
    const int64_t sign = at_++;
    const Token imaginary = LexDigits(at_);
    if (imaginary.kind != TokenKind::kNumber || imaginary.text.back() != 'j') {
      throw LiteralSyntaxError{sign, "arithmetic"};
    }
    token = {TokenKind::kNumber, text_.substr(start, at_ - start), start};
  }
  return token;
}

Token LiteralLexer::LexDigits(int64_t start) {
  if (Peek() == '-') ++at_;
  const int64_t digits = at_;
  while (IsDigit(Peek())) ++at_;
  const int64_t num_digits = at_ - digits;
  if (!IsWordPart(Peek()) && Peek() != '.') {
    if (num_digits > 1 && text_[digits] == '0') {
      throw LiteralSyntaxError{start, "an integer with a leading zero"};
    }
    return {TokenKind::kInteger, text_.substr(start, at_ - start), start};
  }
  if (Peek() == 'L' && !IsWordPart(Peek(1)) && Peek(1) != '.' && allow_long_suffix_) {
    const Token token = {TokenKind::kInteger, text_.substr(start, at_ - start), start, true};
    ++at_;
    return token;
  }
  while (IsDigit(Peek()) || Peek() == '.') ++at_;
  if ((Peek() == 'e' || Peek() == 'E') && (IsDigit(Peek(1)) || Peek(1) == '-' || Peek(1) == '+')) {
    at_ += 2;
    while (IsDigit(Peek())) ++at_;
  }
  if (Peek() == 'j') ++at_;
  if (IsWordPart(Peek()) || Peek() == '.') {
    throw LiteralSyntaxError{start, "an integer that is not plain decimal digits"};
  }
  return {TokenKind::kNumber, text_.substr(start, at_ - start), start};
}

Token LiteralLexer::LexName(int64_t start) {
  while (IsWordPart(Peek())) ++at_;
  return {TokenKind::kName, text_.substr(start, at_ - start), start};
}

Token SkipValue(LiteralLexer& lexer, const Token& first) {
  ValueSyntax syntax;
  Token token = first;
  for (;;) {
    if (token.kind == TokenKind::kEnd) ValueSyntax::Fail(token, "the header ends inside a value");
    if (syntax.Take(token)) return lexer.Next();
    token = lexer.Next();
  }
}

}  // namespace convgrad
