#include "cli/shards/launchers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

// Launchers that run inside each other, so that their parts multiply.
enum class Nesting { kNone, kOuter, kInner };

constexpr int64_t kTold = -1;

struct Launcher {
  const char* name;
  const char* index;
  const char* count;         // null: it doesn't tell
  const char* first;         // lowest index; null: it is `base`
  const char* last;          // highest index; null: it doesn't tell
  const char* step;          // between indices; null: 1
  int64_t base;              // where indices begin; kTold: only `first` says it
  const char* not_an_array;  // the index's value outside of arrays
  bool is_ignored_without_count;
  Nesting nesting;
};

constexpr Launcher kLaunchers[] = {
    {"Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
     "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP", kTold, nullptr, false, Nesting::kOuter},
    // An array's batch script has SLURM_PROCID=0 too, without a count.
    {"Slurm srun", "SLURM_PROCID", "SLURM_NTASKS", nullptr, nullptr, nullptr, 0, nullptr, true,
     Nesting::kInner},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr, nullptr, nullptr, 0,
     nullptr, false, Nesting::kNone},
    {"PMI", "PMI_RANK", "PMI_SIZE", nullptr, nullptr, nullptr, 0, nullptr, false, Nesting::kNone},
    {"GoogleTest", "GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS", nullptr, nullptr, nullptr, 0, nullptr,
     false, Nesting::kNone},
    {"GitLab", "CI_NODE_INDEX", "CI_NODE_TOTAL", nullptr, nullptr, nullptr, 1, nullptr, false,
     Nesting::kNone},
    {"Kubernetes Indexed Job", "JOB_COMPLETION_INDEX", nullptr, nullptr, nullptr, nullptr, 0,
     nullptr, false, Nesting::kNone},
    {"AWS Batch array", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", nullptr, nullptr,
     nullptr, 0, nullptr, false, Nesting::kNone},
    {"LSF array", "LSB_JOBINDEX", nullptr, nullptr, "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP", 1, "0",
     false, Nesting::kNone},
    {"SGE array", "SGE_TASK_ID", nullptr, "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE", 1,
     "undefined", false, Nesting::kNone},
    {"PBS array", "PBS_ARRAY_INDEX", nullptr, nullptr, nullptr, nullptr, 0, nullptr, false,
     Nesting::kNone},
};

constexpr const char* kExplicitly = "give --shard i/n instead";

// Where one launcher puts this process; count 0 where it doesn't tell.
struct Position {
  const Launcher* launcher;
  int64_t index, count;
  std::string origin;
  int64_t first, step;  // of the launcher's indices
};

const char* Find(const Environment& environment, const char* name) {
  const char* text = name == nullptr ? nullptr : environment(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

std::optional<int64_t> Read(const Environment& environment, const char* name) {
  const char* text = Find(environment, name);
  if (text == nullptr) return std::nullopt;
  return ParseInteger(name, text, 0, std::numeric_limits<int32_t>::max());
}

// From the range of indices, if the launcher tells it; the count, if it tells that too, must agree.
int64_t CountOf(const Launcher& launcher, std::optional<int64_t> count, int64_t first, int64_t step,
                std::optional<int64_t> last) {
  if (!last) return count.value_or(0);
  const int64_t spanned = (*last - first) / step + 1;
  if (*last < first || (count && *count != spanned)) {
    ThrowUsage("shard/gaps", launcher.name,
               fmt::format("its indices from {} to {} by {} don't make {}", first, *last, step,
                           count ? fmt::format("{} tasks: the list has gaps", *count) : "an array"),
               kExplicitly);
  }
  return spanned;
}

std::optional<Position> Locate(const Launcher& launcher, const Environment& environment) {
  const char* text = Find(environment, launcher.index);
  if (text == nullptr) return std::nullopt;
  if (launcher.not_an_array != nullptr && std::string(text) == launcher.not_an_array) {
    return std::nullopt;
  }
  const std::optional<int64_t> count = Read(environment, launcher.count);
  if (!count && launcher.is_ignored_without_count) return std::nullopt;
  const int64_t index = *Read(environment, launcher.index);
  const int64_t first = Read(environment, launcher.first).value_or(launcher.base);
  const int64_t step = Read(environment, launcher.step).value_or(1);
  const std::optional<int64_t> last = Read(environment, launcher.last);
  if (first == kTold) {
    ThrowUsage("shard/gaps", launcher.name, fmt::format("{} is not set", launcher.first),
               kExplicitly);
  }
  if (step < 1 || index < first || (index - first) % step != 0) {
    ThrowUsage(
        "shard/gaps", fmt::format("{}={}", launcher.index, index),
        fmt::format("is none of the indices from {} by {} of a {}", first, step, launcher.name),
        kExplicitly);
  }
  return Position{&launcher,
                  (index - first) / step,
                  CountOf(launcher, count, first, step, last),
                  fmt::format("{}: {}={}", launcher.name, launcher.index, index),
                  first,
                  step};
}

// A launcher inside another one: each outer part has all inner ones. What else repeats the inner
// pair (PMI under srun, say) is part of it.
void Nest(std::vector<Position>& positions) {
  const auto with = [&positions](Nesting nesting) {
    return std::find_if(positions.begin(), positions.end(), [nesting](const Position& position) {
      return position.launcher->nesting == nesting;
    });
  };
  if (with(Nesting::kOuter) == positions.end() || with(Nesting::kInner) == positions.end()) return;
  const Position outer = *with(Nesting::kOuter);
  const Position inner = *with(Nesting::kInner);
  std::erase_if(positions, [&](const Position& position) {
    return position.launcher == outer.launcher ||
           (position.index == inner.index && position.count == inner.count);
  });
  positions.insert(
      positions.begin(),
      {outer.launcher, outer.index * inner.count + inner.index, outer.count * inner.count,
       fmt::format("{}; {}", outer.origin, inner.origin), outer.first, outer.step});
}

std::vector<Position> LocateAll(const Environment& environment) {
  std::vector<Position> positions;
  for (const Launcher& launcher : kLaunchers) {
    if (const auto position = Locate(launcher, environment)) positions.push_back(*position);
  }
  Nest(positions);
  return positions;
}

[[noreturn]] void ThrowNoLauncher() {
  std::string names;
  for (const Launcher& launcher : kLaunchers) {
    names += (names.empty() ? "" : ", ") + std::string(launcher.index);
  }
  ThrowUsage("shard/no-launcher", "--shard auto", "none of its variables is set: " + names,
             kExplicitly);
}

// Some tasks of an array that were submitted again look like a whole one.
void CheckIsWhole(const Position& position) {
  if (position.first <= std::max<int64_t>(position.step, 1)) return;
  ThrowUsage("shard/gaps", position.origin,
             fmt::format("its indices begin at {}: some tasks of an array, submitted again?",
                         position.first),
             "give --shard i/n with the n of the first time; auto/N if these N are all");
}

void CompleteCount(Position& position, std::optional<int64_t> count) {
  if (!count) CheckIsWhole(position);
  if (position.count == 0 && !count) {
    ThrowUsage("shard/no-count", "--shard auto",
               fmt::format("{} does not tell how many there are", position.launcher->name),
               "give --shard auto/N");
  }
  if (position.count == 0) position.count = *count;
  if (count && position.count != *count) {
    ThrowUsage("shard/disagree", fmt::format("--shard auto/{}", *count),
               fmt::format("{} has {} tasks", position.launcher->name, position.count),
               "give the same number, or --shard i/n");
  }
  if (position.count < 1 || position.count > kMaxShards || position.index >= position.count) {
    ThrowUsage("shard/range", position.origin,
               fmt::format("as index {} from 0 it is not one of {} tasks (at most {})",
                           position.index, position.count, kMaxShards),
               kExplicitly);
  }
}

}  // namespace

Shard DetectShard(const Environment& environment, std::optional<int64_t> count) {
  std::vector<Position> positions = LocateAll(environment);
  if (positions.empty()) ThrowNoLauncher();
  for (Position& position : positions) CompleteCount(position, count);
  const Position& first = positions.front();
  for (const Position& position : positions) {
    if (position.index == first.index && position.count == first.count) continue;
    ThrowUsage("shard/disagree", "--shard auto",
               fmt::format("{} says {} of {} (from 0), {} says {} of {}", first.origin, first.index,
                           first.count, position.origin, position.index, position.count),
               kExplicitly);
  }
  return {first.index, first.count, first.origin};
}

}  // namespace convgrad::cli
