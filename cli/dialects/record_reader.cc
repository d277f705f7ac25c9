#include "cli/dialects/record_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace convgrad::cli {

RecordReader::RecordReader(Source source, bool joins_objects)
    : source_(std::move(source)), joins_objects_(joins_objects) {}

void RecordReader::Nesting::Add(const std::string& text) {
  for (const char letter : text) {
    if (in_string) {
      if (is_escaped) {
        is_escaped = false;
      } else if (letter == '\\') {
        is_escaped = true;
      } else if (letter == '"') {
        in_string = false;
      }
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '{') {
      ++depth;
    } else if (letter == '}') {
      --depth;
    }
  }
}

// Bytes beyond the limit are read, but not kept.
std::optional<RecordReader::Line> RecordReader::ReadLine() {
  Line line;
  bool is_any = false;
  while (true) {
    if (at_ == buffer_.size()) {
      if (ended_) break;
      buffer_.resize(size_t{64} << 10);
      buffer_.resize(source_(buffer_.data(), buffer_.size()));
      at_ = 0;
      ended_ = buffer_.empty();
      if (ended_) break;
    }
    is_any = true;
    const size_t end = std::min(buffer_.find('\n', at_), buffer_.size());
    const size_t kept = std::min(end - at_, kMaxLineBytes - line.text.size());
    line.text.append(buffer_, at_, kept);
    line.is_whole = line.is_whole && kept == end - at_;
    at_ = end;
    if (end == buffer_.size()) continue;
    ++at_;
    break;
  }
  if (!is_any) return std::nullopt;
  if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
  return line;
}

std::optional<RecordReader::Line> RecordReader::NextLine() {
  if (read_ahead_.empty()) return ReadLine();
  Line line = std::move(read_ahead_.front());
  read_ahead_.pop_front();
  return line;
}

std::optional<RecordReader::Record> RecordReader::Next() {
  std::optional<Line> line = NextLine();
  if (!line) return std::nullopt;
  Record record;
  record.text = std::move(line->text);
  record.line = line_ + 1;
  record.is_whole = line->is_whole;
  const size_t first = record.text.find_first_not_of(" \t");
  const bool begins = first != std::string::npos && record.text[first] == '{';
  if (joins_objects_ && line->may_begin_object && begins) JoinObject(record);
  line_ += record.lines;
  return record;
}

void RecordReader::JoinObject(Record& record) {
  record.is_object = true;
  std::deque<Line> lines;
  size_t bytes = record.text.size();
  Nesting nesting;
  nesting.Add(record.text);
  while (nesting.depth > 0 && record.is_whole) {
    std::optional<Line> line = NextLine();
    if (line) bytes += line->text.size() + 1;
    record.is_whole = line && line->is_whole && bytes <= kMaxObjectBytes;
    if (!line) break;
    nesting.Add(line->text);
    lines.push_back(std::move(*line));
  }
  if (record.is_whole) {
    for (const Line& line : lines) record.text += "\n" + line.text;
    record.lines += static_cast<int64_t>(lines.size());
    return;
  }
  // To begin with each of them again would take the square of their number.
  for (Line& line : lines) line.may_begin_object = false;
  read_ahead_.insert(read_ahead_.begin(), std::make_move_iterator(lines.begin()),
                     std::make_move_iterator(lines.end()));
}

}  // namespace convgrad::cli
