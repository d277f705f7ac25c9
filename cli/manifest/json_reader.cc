#include "cli/manifest/json_reader.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "base/error.h"
#include "cli/text/unicode.h"

namespace convgrad::cli {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;

bool IsDigit(int byte) {
  return byte >= '0' && byte <= '9';
}

// RFC 8259 calls this a number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
bool IsNumber(const std::string& text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto skip_digits = [&] {
    const size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > begin;
  };
  const bool has_leading_zero = at + 1 < text.size() && text[at] == '0' && IsDigit(text[at + 1]);
  if (has_leading_zero || !skip_digits()) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!skip_digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!skip_digits()) return false;
  }
  return at == text.size();
}

void AppendUtf8(std::string& text, unsigned code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string Describe(int byte) {
  if (byte > 0x20 && byte < 0x7F) return fmt::format("'{}'", static_cast<char>(byte));
  return byte == '\n' ? "the end of the line" : fmt::format("the byte 0x{:02x}", byte);
}

// These words often stand where JSON wants something else.
std::string FixFor(int byte) {
  if (byte == '/' || byte == '#') return "JSON has no comments; remove it";
  if (byte == '\'') return "write strings in double quotes";
  if (byte == 0) return "save the file as UTF-8 text";
  return "";
}

}  // namespace

const char* NameOf(JsonKind kind) {
  switch (kind) {
    case JsonKind::kBeginObject: return "an object";
    case JsonKind::kEndObject: return "the end of an object";
    case JsonKind::kBeginArray: return "an array";
    case JsonKind::kEndArray: return "the end of an array";
    case JsonKind::kKey: return "a key";
    case JsonKind::kString: return "a string";
    case JsonKind::kNumber: return "a number";
    case JsonKind::kTrue: return "true";
    case JsonKind::kFalse: return "false";
    case JsonKind::kNull: return "null";
    case JsonKind::kEnd: return "the end of the file";
  }
  return "";
}

JsonReader::JsonReader(std::string name, Source source, Form form)
    : name_(std::move(name)), source_(std::move(source)), form_(form), buffer_(kBufferBytes) {}

void JsonReader::Refuse(Place place, const std::string& why, const std::string& fix) const {
  ThrowUsage("manifest/syntax", FormatPlace(name_, place), why, fix);
}

int JsonReader::Peek() {
  if (at_ == end_) {
    at_ = 0;
    end_ = source_(buffer_.data(), buffer_.size());
    if (end_ == 0) return -1;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

int JsonReader::Get() {
  const int byte = Peek();
  if (byte < 0) return byte;
  ++at_;
  if (byte == '\n') {
    here_ = {here_.line + 1, 1};
  } else if ((byte & 0xC0) != 0x80) {  // columns count characters
    ++here_.column;
  }
  return byte;
}

void JsonReader::SkipByteOrderMark() {
  started_ = true;
  if (Peek() < 0) return;
  const auto byte = [this](size_t k) {
    return at_ + k < end_ ? static_cast<unsigned char>(buffer_[at_ + k]) : 0x100;
  };
  const bool is_utf16 = (byte(0) == 0xFE && byte(1) == 0xFF) ||
                        (byte(0) == 0xFF && byte(1) == 0xFE) || (byte(0) == 0) != (byte(1) == 0);
  if (is_utf16) Refuse(here_, "the text is UTF-16 or UTF-32", "save it as UTF-8");
  if (byte(0) == 0xEF && byte(1) == 0xBB && byte(2) == 0xBF) at_ += 3;
}

void JsonReader::SkipBlanks() {
  const bool keeps_lines =
      form_ == Form::kLines && (!open_.empty() || state_ == State::kAfterValue);
  for (int next = Peek(); next == ' ' || next == '\t' || next == '\r' || next == '\n';
       next = Peek()) {
    if (next == '\n' && keeps_lines) return;
    Get();
  }
}

void JsonReader::RefuseEnd() {
  const Container& last = open_.back();
  Refuse(here_,
         fmt::format("the text ends inside {} that begins at line {}, column {}", NameOf(last.kind),
                     last.place.line, last.place.column),
         "it may have been cut short");
}

void JsonReader::RefuseNext(const std::string& expected) {
  const int next = Peek();
  if (next < 0 && !open_.empty()) RefuseEnd();
  if (next < 0) Refuse(here_, fmt::format("the text ends where {} is expected", expected));
  Refuse(here_, fmt::format("{} is expected, not {}", expected, Describe(next)), FixFor(next));
}

JsonToken JsonReader::Next() {
  if (!started_) SkipByteOrderMark();
  SkipBlanks();
  return open_.empty() ? NextOutside(Peek()) : NextInside(Peek());
}

// Before or after a whole value.
JsonToken JsonReader::NextOutside(int next) {
  if (state_ == State::kAfterValue && form_ == Form::kLines && next == '\n') {
    state_ = State::kValue;
    SkipBlanks();
    next = Peek();
  }
  if (next < 0 && (state_ == State::kAfterValue || form_ == Form::kLines)) {
    return {JsonKind::kEnd, "", here_};
  }
  if (next < 0) Refuse(here_, "there is nothing in it", "see 'convgrad help batch'");
  if (state_ == State::kAfterValue) {
    RefuseNext(form_ == Form::kLines ? "the end of the line" : "the end of the file");
  }
  return ReadValue();
}

JsonToken JsonReader::NextInside(int next) {
  const bool in_object = open_.back().kind == JsonKind::kBeginObject;
  const char closer = in_object ? '}' : ']';
  const JsonKind end = in_object ? JsonKind::kEndObject : JsonKind::kEndArray;
  const bool is_first = state_ == State::kFirstKey || state_ == State::kFirstItem;
  if (next == closer && (is_first || state_ == State::kAfterValue)) return Close(end);
  if (state_ == State::kAfterValue) {
    if (next != ',') RefuseNext(fmt::format("',' or '{}'", closer));
    const Place comma = here_;
    Get();
    SkipBlanks();
    if (Peek() == closer) {
      Refuse(comma, fmt::format("there is a comma before '{}'", closer), "remove it");
    }
    state_ = in_object ? State::kKey : State::kValue;
  }
  if (state_ == State::kFirstKey || state_ == State::kKey) return ReadKey();
  return ReadValue();
}

JsonToken JsonReader::ReadKey() {
  if (Peek() != '"') RefuseNext("a key in double quotes");
  JsonToken token = {JsonKind::kKey, "", here_};
  token.text = ReadString();
  SkipBlanks();
  if (Peek() != ':') RefuseNext(fmt::format("':' after the key '{}'", token.text.substr(0, 100)));
  Get();
  state_ = State::kValue;
  return token;
}

JsonToken JsonReader::ReadValue() {
  const int next = Peek();
  if (next == '{') return Open(JsonKind::kBeginObject);
  if (next == '[') return Open(JsonKind::kBeginArray);
  JsonToken token = {JsonKind::kString, "", here_};
  if (next == '"') {
    token.text = ReadString();
  } else if (next == '-' || IsDigit(next)) {
    token.kind = JsonKind::kNumber;
    token.text = ReadNumber();
  } else if (next > 0 && std::isalpha(next) != 0) {
    token.kind = ReadWord();
  } else {
    RefuseNext("a value");
  }
  state_ = State::kAfterValue;
  return token;
}

JsonToken JsonReader::Open(JsonKind kind) {
  if (open_.size() == kMaxDepth) {
    Refuse(here_, fmt::format("values are nested more than {} deep", kMaxDepth));
  }
  open_.push_back({kind, here_});
  Get();
  state_ = kind == JsonKind::kBeginObject ? State::kFirstKey : State::kFirstItem;
  return {kind, "", open_.back().place};
}

JsonToken JsonReader::Close(JsonKind kind) {
  JsonToken token = {kind, "", here_};
  Get();
  open_.pop_back();
  state_ = State::kAfterValue;
  return token;
}

std::string JsonReader::ReadString() {
  const Place begin = here_;
  std::string text;
  Get();
  for (int byte = Peek(); byte != '"'; byte = Peek()) {
    const Place place = here_;
    if (byte < 0) Refuse(begin, "the text ends inside this string", "it may have been cut short");
    if (byte < 0x20) {
      Refuse(place, fmt::format("a string contains {}", Describe(byte)),
             byte == '\n' ? "close it before the end of the line" : "escape it, as \\u00XX");
    }
    Get();
    if (byte == '\\') {
      ReadEscape(text, place);
    } else {
      text += static_cast<char>(byte);
    }
    if (text.size() > kMaxStringBytes) {
      Refuse(begin, fmt::format("this string has more than {} bytes", kMaxStringBytes));
    }
  }
  Get();
  if (!IsValidUtf8(text)) Refuse(begin, "this string is not valid UTF-8", "save the file as UTF-8");
  return text;
}

void JsonReader::ReadEscape(std::string& text, Place place) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const int letter = Get();
  if (letter == 'u') {
    unsigned code = ReadHex(place);
    if (code >= 0xD800 && code < 0xDC00 && Peek() == '\\') {
      Get();
      const unsigned low = Get() == 'u' ? ReadHex(place) : 0;
      code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                                           : 0xD800;
    }
    if (code >= 0xD800 && code < 0xE000) Refuse(place, "this is half of a surrogate pair");
    AppendUtf8(text, code);
    return;
  }
  const size_t at = letter < 0 ? std::string_view::npos : kLetters.find(static_cast<char>(letter));
  if (at == std::string_view::npos) Refuse(place, "there is no such escape in JSON");
  text += kMeanings[at];
}

unsigned JsonReader::ReadHex(Place place) {
  unsigned code = 0;
  for (int k = 0; k < 4; ++k) {
    const int digit = Get();
    if (digit < 0 || std::isxdigit(digit) == 0) Refuse(place, "\\u needs four hexadecimal digits");
    code =
        code * 16 + static_cast<unsigned>(IsDigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  return code;
}

std::string JsonReader::ReadNumber() {
  const Place begin = here_;
  std::string text;
  for (int next = Peek();
       next > 0 && (std::isalnum(next) != 0 || next == '.' || next == '+' || next == '-');
       next = Peek()) {
    text += static_cast<char>(Get());
    if (text.size() > kMaxNumberBytes) {
      Refuse(begin, fmt::format("this number has more than {} digits", kMaxNumberBytes));
    }
  }
  if (!IsNumber(text)) Refuse(begin, fmt::format("'{}' is no JSON number", text.substr(0, 100)));
  return text;
}

JsonKind JsonReader::ReadWord() {
  const Place begin = here_;
  std::string word;
  while (word.size() < 32 && Peek() > 0 && std::isalnum(Peek()) != 0) {
    word += static_cast<char>(Get());
  }
  if (word == "true") return JsonKind::kTrue;
  if (word == "false") return JsonKind::kFalse;
  if (word == "null") return JsonKind::kNull;
  const bool is_special = word == "NaN" || word == "nan" || word == "Infinity" || word == "inf";
  Refuse(begin, fmt::format("'{}' is no JSON value", word),
         is_special ? "JSON has no NaN and no infinity" : "strings need double quotes");
}

void JsonReader::LeaveDownTo(size_t depth) {
  while (open_.size() > depth) Next();
}

void JsonReader::Skip(const JsonToken& begun) {
  if (begun.kind != JsonKind::kBeginObject && begun.kind != JsonKind::kBeginArray) return;
  const size_t depth = open_.size();
  while (open_.size() >= depth) Next();
}

}  // namespace convgrad::cli
