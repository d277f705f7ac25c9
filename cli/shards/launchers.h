// Which of several processes this one is, from the variables that schedulers and launchers set. One
// table; must not know what is dealt to the processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace convgrad::cli {

// Part `index` (from 0) of `count`.
struct Shard {
  int64_t index = 0;
  int64_t count = 1;
  std::string origin;  // the launcher and its variable, for people; empty: given as a number
};

// More would only be a slip of the keyboard.
inline constexpr int64_t kMaxShards = 1'000'000;

// The value of a variable, or null; std::getenv in the tool.
using Environment = std::function<const char*(const char* name)>;

// This process's part, from the launchers that `environment` shows. `count` is what the user says
// it is, for launchers that don't tell. Throws usage errors that name launchers and variables:
// "shard/no-launcher", "shard/no-count", "shard/gaps", "shard/disagree", "shard/range".
Shard DetectShard(const Environment& environment, std::optional<int64_t> count);

}  // namespace convgrad::cli
