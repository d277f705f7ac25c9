// A log cut into records, from a stream of any length in bounded memory. Must not know what they
// say.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace convgrad::cli {

class RecordReader {
 public:
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;
  static constexpr size_t kMaxObjectBytes = size_t{1} << 20;

  // Fills `into` with up to `bytes` bytes; returns how many, 0 at the end.
  using Source = std::function<size_t(char* into, size_t bytes)>;

  struct Record {
    std::string text;
    int64_t line = 0;   // of its beginning, from 1
    int64_t lines = 1;  // that it takes
    bool is_object = false;
    bool is_whole = true;  // false: a line that is too long, or one that begins such an object
  };

  // With `joins_objects`, a line that begins with '{' begins a record that ends with the line on
  // which that brace is closed. Where it is not, the lines behind it are records of their own.
  RecordReader(Source source, bool joins_objects);

  // None at the end.
  std::optional<Record> Next();

 private:
  // How many braces are open, outside of strings.
  struct Nesting {
    int64_t depth = 0;
    bool in_string = false, is_escaped = false;
    void Add(const std::string& text);
  };
  struct Line {
    std::string text;
    bool is_whole = true;
    bool may_begin_object = true;
  };

  std::optional<Line> ReadLine();
  std::optional<Line> NextLine();
  void JoinObject(Record& record);

  Source source_;
  bool joins_objects_;
  std::string buffer_;
  size_t at_ = 0;
  bool ended_ = false;
  int64_t line_ = 0;
  std::deque<Line> read_ahead_;
};

}  // namespace convgrad::cli
