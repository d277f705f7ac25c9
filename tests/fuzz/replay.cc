// Runs a fuzz target on files and on changes of them, where there is no libFuzzer: so the targets
// stay true, and on every change a few thousand inputs are tried. A seed's name says what becomes
// of it: all in a good-* is accepted, or the target never saw what it is for; a bad-* is refused.
//
// usage: PROGRAM FILE-OR-DIRECTORY...
//   CONVGRAD_TEST_PROBLEMS: how many changes of each file (100); CONVGRAD_TEST_SEED: which (1)
#include <algorithm>
#include <vector>

#include "fuzz/fuzzing.h"
#include "support/draw.h"
#include "support/from_environment.h"

namespace convgrad::fuzzing {
namespace {

std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// One to four changes: a bit flipped, a byte replaced, bytes removed, or a part repeated elsewhere.
std::string Changed(std::string bytes, testing::Draw& draw) {
  for (int64_t change = draw(1, 4); change > 0 && !bytes.empty(); --change) {
    const auto at = static_cast<size_t>(draw(0, static_cast<int64_t>(bytes.size()) - 1));
    const auto size = static_cast<size_t>(draw(1, 8));
    switch (draw(0, 3)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << draw(0, 7))); break;
      case 1:
        bytes[at] = draw.OneOf({'0', '9', '-', '(', ')', '{', '"', '\'', '\0', '\xff'});
        break;
      case 2: bytes.erase(at, size); break;
      default: {
        const std::string part = bytes.substr(at, size);
        bytes.insert(static_cast<size_t>(draw(0, static_cast<int64_t>(bytes.size()))), part);
      }
    }
  }
  return bytes;
}

bool Run(const std::string& bytes) {
  return Check({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

void RunSeed(const std::filesystem::path& path, const std::string& bytes) {
  const std::string name = path.filename();
  const bool is_good = name.starts_with("good-");
  Expect(is_good || name.starts_with("bad-"), (name + ": is neither good-* nor bad-*").c_str());
  Expect(Run(bytes) == is_good, (name + (is_good ? ": is refused" : ": is accepted")).c_str());
}

int Replay(int count, char** paths) {
  const uint64_t changes = FromEnvironment("CONVGRAD_TEST_PROBLEMS", 100);
  testing::Draw draw(FromEnvironment("CONVGRAD_TEST_SEED", 1));
  int files = 0;
  uint64_t accepted = 0;
  for (int i = 0; i < count; ++i) {
    for (const std::filesystem::path& path : FilesOf(paths[i])) {
      const std::string bytes = Scratch::Read(path);
      RunSeed(path, bytes);
      for (uint64_t change = 0; change < changes; ++change) accepted += Run(Changed(bytes, draw));
      ++files;
    }
  }
  std::printf("%d files, %d changes of each, %d of them accepted\n", files,
              static_cast<int>(changes), static_cast<int>(accepted));
  Expect(files > 0, "no file");
  return 0;
}

}  // namespace
}  // namespace convgrad::fuzzing

int main(int argc, char** argv) {
  return convgrad::fuzzing::Replay(argc - 1, argv + 1);
}
