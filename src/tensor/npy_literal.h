// The part of Python's literal syntax that .npy headers use, as tokens and as values with their
// extent. Must not know what the values mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace convgrad {

enum class TokenKind : uint8_t {
  kEnd,
  kPunctuation,  // one of ( ) [ ] { } , :
  kString,       // content between the quotes
  kBytes,        // b'...'
  kInteger,      // digits, perhaps with a sign or Python 2's L
  kNumber,       // floating-point or complex
  kName,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // of a string: its content
  int64_t at = 0;         // where it starts
  bool long_suffix = false;

  bool Is(char punctuation) const {
    return kind == TokenKind::kPunctuation && text[0] == punctuation;
  }
};

// Says what is wrong with a text and where; caught by whoever knows the file's name.
struct LiteralSyntaxError {
  int64_t at;
  std::string why;
};

// Cuts a text into tokens, one at a time.
class LiteralLexer {
 public:
  // Python 2 wrote long integers as 3L; `allow_long_suffix` where that may be.
  LiteralLexer(std::string_view text, bool allow_long_suffix, int64_t start = 0)
      : text_(text), allow_long_suffix_(allow_long_suffix), at_(start) {}

  Token Next();
  int64_t position() const { return at_; }

 private:
  char Peek(int64_t ahead = 0) const;
  void SkipBlanks();
  Token LexString(int64_t start, TokenKind kind);
  Token LexNumber(int64_t start);
  Token LexDigits(int64_t start);
  Token LexName(int64_t start);

  std::string_view text_;
  bool allow_long_suffix_;
  int64_t at_;
};

// Reads one whole value (a scalar, or brackets with all they hold, at most 8 deep) that starts with
// `first` and checks its syntax. Returns the token after it; the value's text ends before that.
Token SkipValue(LiteralLexer& lexer, const Token& first);

}  // namespace convgrad
