// JSON token by token, from a stream of any length in bounded memory. Every token knows its line
// and column, and numbers keep their spelling, which nlohmann's parsers don't offer. Must not know
// what the document means.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cli/options/flag_values.h"

namespace convgrad::cli {

enum class JsonKind {
  kBeginObject,
  kEndObject,
  kBeginArray,
  kEndArray,
  kKey,
  kString,
  kNumber,
  kTrue,
  kFalse,
  kNull,
  kEnd,  // of the stream
};

// "a string", for messages.
const char* NameOf(JsonKind kind);

struct JsonToken {
  JsonKind kind = JsonKind::kEnd;
  std::string text;  // of a key or string: unescaped, valid UTF-8; of a number: as written
  Place place;       // of its first character
};

// RFC 8259 in UTF-8, a byte order mark and both line ends allowed. Strings and numbers of more than
// a limit and deep nesting are refused as soon as the limit is passed. All errors are usage
// "manifest/syntax" with place.
class JsonReader {
 public:
  static constexpr size_t kMaxStringBytes = size_t{64} << 10;
  static constexpr size_t kMaxNumberBytes = 400;
  static constexpr size_t kMaxDepth = 64;

  enum class Form {
    kDocument,  // one value
    kLines,     // any number, each on a line of its own
  };

  // Fills `into` with up to `bytes` bytes; returns how many, 0 at the end.
  using Source = std::function<size_t(char* into, size_t bytes)>;

  // `name` as messages call the stream.
  JsonReader(std::string name, Source source, Form form);

  const std::string& name() const { return name_; }
  Form form() const { return form_; }

  // The next token. After kEnd, kEnd again.
  JsonToken Next();

  // How many objects and arrays are open.
  size_t depth() const { return open_.size(); }
  // Reads on until no more than `depth` are.
  void LeaveDownTo(size_t depth);

  // The rest of the value that `begun` began; nothing for a value that is whole.
  void Skip(const JsonToken& begun);

  [[noreturn]] void Refuse(Place place, const std::string& why, const std::string& fix = "") const;

 private:
  // The kinds of token that may come next.
  enum class State { kValue, kFirstKey, kKey, kFirstItem, kAfterValue };

  int Peek();  // the next byte, -1 at the end
  int Get();
  void SkipByteOrderMark();
  void SkipBlanks();

  JsonToken NextInside(int next);
  JsonToken NextOutside(int next);
  JsonToken ReadKey();
  JsonToken ReadValue();
  JsonToken Open(JsonKind kind);
  JsonToken Close(JsonKind kind);
  std::string ReadString();
  void ReadEscape(std::string& text, Place place);
  unsigned ReadHex(Place place);
  std::string ReadNumber();
  JsonKind ReadWord();
  [[noreturn]] void RefuseNext(const std::string& expected);
  [[noreturn]] void RefuseEnd();

  std::string name_;
  Source source_;
  Form form_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  bool started_ = false;
  Place here_ = {1, 1};
  State state_ = State::kValue;
  struct Container {
    JsonKind kind;
    Place place;
  };
  std::vector<Container> open_;
};

}  // namespace convgrad::cli
