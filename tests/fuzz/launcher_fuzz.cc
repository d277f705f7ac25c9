// Any lines as --shard's value and the variables of launchers (NAME=VALUE): refused, or a part of
// the whole that can be given by its number too.
#include <map>

#include "cli/shards/shard.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

std::string TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string line(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

bool Check(Bytes bytes) {
  std::string_view rest = bytes.rest();
  const std::string flag = TakeLine(rest);
  std::map<std::string, std::string> variables;
  while (!rest.empty()) {
    const std::string line = TakeLine(rest);
    const size_t end = std::min(line.find('='), line.size());
    variables[line.substr(0, end)] = line.substr(std::min(end + 1, line.size()));
  }
  const auto environment = [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  cli::Shard shard;
  if (!Accepts([&] { shard = cli::ParseShard(flag, environment); })) return false;
  Expect(0 <= shard.index && shard.index < shard.count, "a part outside of the whole");
  Expect(shard.count <= cli::kMaxShards, "too many parts");
  const cli::Shard again = cli::ParseShard(cli::NameOf(shard), environment);
  Expect(again.index == shard.index && again.count == shard.count, "another part by its number");
  return true;
}

}  // namespace convgrad::fuzzing
