// Numbers in the small text files by which the system tells about itself. Must not know what they
// mean.
#pragma once

#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace convgrad {

// The number that a file begins with; nothing for a word or no such file.
inline std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number;
  if (file >> number) return number;
  return std::nullopt;
}

// The value in bytes of a line "KEY: 123 kB" or "KEY 123".
inline std::optional<int64_t> ReadField(const std::string& path, const std::string& key,
                                        int64_t unit) {
  std::ifstream file(path);
  std::string name;
  int64_t value;
  while (file >> name >> value) {
    if (name == key) return value * unit;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace convgrad
