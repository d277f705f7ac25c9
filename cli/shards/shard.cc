#include "cli/shards/shard.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_file.h"
#include "cli/text/environment.h"
#include "cli/text/values.h"

namespace convgrad::cli {

Shard ParseShard(const std::string& text, const Environment& environment) {
  if (text == "auto") return DetectShard(environment, std::nullopt);
  const size_t slash = text.find('/');
  if (slash == std::string::npos) {
    ThrowUsage("shard/syntax", fmt::format("--shard {}", text), "names no part",
               "give i/n, e.g. 3/8, or auto, or auto/8");
  }
  const std::string part = text.substr(0, slash);
  const auto parse = [&text](const char* which, const std::string& number, int64_t most) {
    return ParseInteger(fmt::format("--shard {}: {}", text, which), number, 1, most);
  };
  const int64_t count = parse("n", text.substr(slash + 1), kMaxShards);
  if (part == "auto") return DetectShard(environment, count);
  return {parse("i", part, count) - 1, count, ""};
}

Shard ChooseShard(const std::string& text, const Console& console) {
  Shard shard = ParseShard(text, FindVariable);
  console.Note(fmt::format("shard {}{}", NameOf(shard),
                           shard.origin.empty() ? "" : fmt::format(" ({})", shard.origin)));
  const char* status_file = FindVariable("GTEST_SHARD_STATUS_FILE");
  if (status_file != nullptr && *status_file != '\0') WriteTextFile(status_file, "");
  return shard;
}

std::string NameOf(const Shard& shard) {
  return fmt::format("{}/{}", shard.index + 1, shard.count);
}

}  // namespace convgrad::cli
