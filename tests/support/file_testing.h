// The tests of files share this: a directory of their own, whole files as strings, and the tables
// of tests/data.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace convgrad {

// A new empty directory, removed with all it holds.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = ::testing::TempDir() + "convgrad_test_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch directory");
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  // Names of all entries, sorted.
  std::vector<std::string> Entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The Error that `action` throws, if any.
inline std::optional<Error> CaughtError(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// The code of that Error, "" without one.
inline std::string CaughtCode(const std::function<void()>& action) {
  const std::optional<Error> error = CaughtError(action);
  return error ? error->code() : "";
}

// One byte in the spelling of tests/data/README.md at `text[at]`; moves `at` behind it.
inline char UnescapeByte(const std::string& text, size_t& at) {
  if (text[at] != '\\') return text[at++];
  const char kind = text[at + 1];
  if (kind == 'x') {
    at += 4;
    return static_cast<char>(std::stoi(text.substr(at - 2, 2), nullptr, 16));
  }
  at += 2;
  return kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind == 't' ? '\t' : kind;
}

inline std::string Unescape(const std::string& text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    size_t count = 1;
    if (text.compare(at, 2, "\\*") == 0) {
      const size_t end = text.find(';', at);
      count = std::stoul(text.substr(at + 2, end - at - 2));
      at = end + 1;
    }
    bytes.append(count, UnescapeByte(text, at));
  }
  return bytes;
}

// The lines of tests/data/`name` without the first, cut at tabs.
inline std::vector<std::vector<std::string>> ReadTable(const std::string& name,
                                                       size_t num_columns) {
  std::ifstream file(std::string(CONVGRAD_SOURCE_DIR "/tests/data/") + name);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
    row.resize(num_columns);
  }
  EXPECT_FALSE(rows.empty()) << name;
  return rows;
}

// "2,3" as {2, 3}, "" as {}.
inline Shape ParseShapeCell(const std::string& cell) {
  Shape shape;
  std::istringstream numbers(cell);
  for (std::string number; std::getline(numbers, number, ',');) shape.push_back(std::stoll(number));
  return shape;
}

}  // namespace convgrad
