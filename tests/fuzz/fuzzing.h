// The fuzz targets share this. A target is a program that takes any bytes and must neither crash
// nor hang, throw only Errors, and keep what the target says of what it accepts. Built with Clang's
// libFuzzer (libfuzzer.cc), or with replay.cc, which tries the seeds and changes of them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.h"

namespace convgrad::fuzzing {

// Ends the process, which is how a target fails.
inline void Expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz target: %s\n", what);
  std::abort();
}

// True if `action` ended without an Error; an Error must be one that a user can act on.
inline bool Accepts(const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    Expect(error.exit_code() != ExitCode::kInternal, error.what());
    Expect(error.message().find('\n') == std::string::npos, "a message of several lines");
    return false;
  }
}

// The bytes from the front on: numbers that steer the target, then what is left.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // The next byte modulo `choices`; 0 after the end.
  unsigned Choose(unsigned choices) {
    if (rest_.empty()) return 0;
    const unsigned byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return byte % choices;
  }
  std::string_view Take(size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Each target defines this: it tries the bytes, and says whether everything in them was accepted.
bool Check(Bytes bytes);

// A directory for the one file that the target is about, removed when the process ends well.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "convgrad_fuzz_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch directory");
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string Write(const std::string& name, std::string_view bytes) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  std::string path_;
};

}  // namespace convgrad::fuzzing
