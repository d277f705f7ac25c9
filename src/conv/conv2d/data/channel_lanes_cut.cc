#include "conv/conv2d/data/channel_lanes_cut.h"

#include <limits>

#include "conv/plan/even_tasks.h"

namespace convgrad {
namespace {

// Source and result slabs at a time: copied, used and copied back while in cache, but no smaller
// than the filter, which every stage reads anew.
constexpr int64_t kStageBytesPerThread = int64_t{3} << 19;
constexpr int64_t kMostStageBytes = int64_t{36} << 20;
// Threads take stages of their own where each gets some, that are worth a task and at least as
// large as a part of the filter.
constexpr int64_t kOwnStagesPerThread = 4;
constexpr int64_t kLeastOwnStageBytes = 16 << 10;
constexpr int64_t kLeastOwnPartOfFilter = 2;

int64_t PixelsOf(const TapSum& sum) {
  return sum.batch * sum.result_h * sum.result_w;
}

std::vector<ChannelLanesStage> StagesOf(const TapSum& sum, int64_t max_pixels,
                                        int64_t multiple = 1) {
  std::vector<ChannelLanesStage> stages;
  for (const Slab& slab : SplitSlab({0, sum.batch, 0, sum.result_h}, sum.result_w,
                                    std::max<int64_t>(1, max_pixels), multiple)) {
    stages.push_back({slab, SourceRows(sum, slab), {}});
  }
  return stages;
}

// With groups apart a task is a stage of one group; its source stays in a cache.
ChannelLanesStages StagesOfGroups(const TapSum& sum, const ChannelLanesNeeds& needs) {
  constexpr int64_t kGroupBytes = 384 << 10, kTasksPerThread = 4;
  const int64_t shared =
      needs.num_threads == 1 ? 1 : CeilDiv(kTasksPerThread * needs.num_threads, sum.groups);
  const int64_t count = std::max(CeilDiv(needs.group_bytes, kGroupBytes), shared);
  ChannelLanesStages stages{StagesOf(sum, PixelsOf(sum) / count), true, 0, 1};
  for (ChannelLanesStage& stage : stages.all) {
    stage.chunks = {stage.result};
    stages.chunk_pixels = std::max(
        stages.chunk_pixels, stage.result.num_images() * stage.result.num_rows() * sum.result_w);
  }
  return stages;
}

// How much of source and result a stage of a thread's own should have; 0: threads share stages.
int64_t OwnStageBytes(const ChannelLanesNeeds& needs) {
  if (needs.num_threads == 1 || needs.panels_per_pass < needs.num_panels) return 0;
  const int64_t own = std::min({std::max(kStageBytesPerThread, needs.filter_bytes),
                                needs.staged_bytes / (kOwnStagesPerThread * needs.num_threads),
                                kMostStageBytes / needs.num_threads});
  const int64_t least = std::max(kLeastOwnStageBytes, needs.filter_bytes / kLeastOwnPartOfFilter);
  return own >= least ? own : 0;
}

// True if there are enough of these stages for threads to take, and they don't read much of the
// source more than once.
bool ServeThreads(const TapSum& sum, const std::vector<ChannelLanesStage>& own, int num_threads) {
  if (std::ssize(own) < kOwnStagesPerThread * num_threads / 2) return false;
  int64_t rows = 0;
  for (const ChannelLanesStage& stage : own) {
    rows += stage.Source().num_images() * stage.Source().num_rows();
  }
  return 2 * rows <= 3 * sum.batch * sum.source_h;
}

// How many shares of a chunk's tiles threads take. Each thread should have equally many tasks,
// which are shares with one panel each, and some for who is done early, but a panel may come from
// the third-level cache for each of them: a share has some tiles, unless threads would then have
// far from equally many.
int64_t SharesOfChunks(const TapSum& sum, const ChannelLanesNeeds& needs,
                       const ChannelLanesStages& stages) {
  if (needs.num_threads == 1 || stages.own) return 1;
  constexpr int64_t kFewestPixels = 48, kLeastPixels = 12, kTasksPerThread = 4;
  constexpr double kEven = 1.03, kFair = 1.1;  // the most tasks of a thread, of the mean
  const int64_t panels = std::min(needs.num_panels, needs.panels_per_pass);
  const int64_t chunks = std::ssize(stages.all.front().chunks);
  const int64_t pixels = PixelsOf(sum) / (std::ssize(stages.all) * chunks * needs.num_phases);
  const int64_t fewest = CeilDiv(pixels, kFewestPixels);
  const int64_t most = std::min(CeilDiv(pixels, kLeastPixels), kTasksPerThread * needs.num_threads);
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t shares = 1; shares <= most && (shares <= fewest || least > kFair); ++shares) {
    const int64_t tasks = chunks * shares * panels;
    const double uneven = Unevenness(tasks, needs.num_threads);
    if (uneven < least) {
      least = uneven;
      best = shares;
    }
    if (uneven <= kEven && tasks >= kTasksPerThread * needs.num_threads) return shares;
  }
  return best;
}

}  // namespace

int64_t MostChunkPixels(int64_t source_c, int64_t num_phases) {
  return std::clamp<int64_t>((int64_t{1} << 18) / source_c, 1024, 16384) * num_phases;
}

ChannelLanesStages CutStages(const TapSum& sum, const ChannelLanesNeeds& needs) {
  if (needs.group_bytes > 0) return StagesOfGroups(sum, needs);
  const auto stages_of = [&](int64_t stage_bytes, int64_t multiple) {
    return StagesOf(sum, PixelsOf(sum) / CeilDiv(needs.staged_bytes, stage_bytes), multiple);
  };
  ChannelLanesStages stages{{}, false, needs.cached_pixels, 1};
  if (needs.staged_bytes == 0) {
    stages.all = {{{0, sum.batch, 0, sum.result_h}, {0, sum.source_h}, {}}};
  } else if (const int64_t own_bytes = OwnStageBytes(needs); own_bytes > 0) {
    stages.all = stages_of(own_bytes, needs.num_threads);
    stages.own = ServeThreads(sum, stages.all, needs.num_threads);
  }
  if (needs.staged_bytes > 0 && !stages.own) {
    stages.all =
        stages_of(std::min(std::max(kStageBytesPerThread * needs.num_threads, needs.filter_bytes),
                           kMostStageBytes),
                  1);
  }
  for (ChannelLanesStage& stage : stages.all) {
    stage.chunks = SplitSlab(stage.result, sum.result_w, stages.chunk_pixels);
  }
  stages.shares = SharesOfChunks(sum, needs, stages);
  return stages;
}

}  // namespace convgrad
