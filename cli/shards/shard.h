// The flag --shard: which part of a batch this process runs.
#pragma once

#include <string>

#include "cli/console/console.h"
#include "cli/shards/launchers.h"

namespace convgrad::cli {

// "3/8" (from 1), "auto" or "auto/N". Throws usage errors, see DetectShard; "shard/syntax" for
// anything else.
Shard ParseShard(const std::string& text, const Environment& environment);

// The same for this process. Prints the choice, and tells GoogleTest's test runners that shards are
// understood (GTEST_SHARD_STATUS_FILE).
Shard ChooseShard(const std::string& text, const Console& console);

// "3/8", from 1.
std::string NameOf(const Shard& shard);

}  // namespace convgrad::cli
