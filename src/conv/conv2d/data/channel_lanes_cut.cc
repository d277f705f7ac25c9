#include "conv/conv2d/data/channel_lanes_cut.h"

#include <cmath>
#include <limits>

#include "conv/plan/work.h"

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

std::vector<ChannelLanesStage> StagesOf(const TapSum& sum, int64_t max_pixels) {
  std::vector<ChannelLanesStage> stages;
  for (const Slab& slab :
       SplitSlab({0, sum.batch, 0, sum.result_h}, sum.result_w, std::max<int64_t>(1, max_pixels))) {
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
  ChannelLanesStages stages{StagesOf(sum, PixelsOf(sum) / count), true, 0};
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

// A chunk of so many pixels takes these cycles with one panel: pixels of a class, which meet the
// same taps, fill tiles of their own.
double ChunkCycles(const TapSum& sum, const ChannelLanesNeeds& needs, int64_t pixels) {
  const double of_image = Product(sum.result_h, sum.result_w);
  double cycles = 0;
  for (const TapPhase& phase : needs.phases) {
    for (const AxisClass& rows : phase.rows->classes) {
      for (const AxisClass& cols : phase.cols->classes) {
        const double of_class = Product(pixels, rows.end - rows.begin, cols.end - cols.begin);
        cycles += Product(rows.tap_end - rows.tap_begin, cols.tap_end - cols.tap_begin,
                          needs.cycles(static_cast<int64_t>(std::ceil(of_class / of_image))));
      }
    }
  }
  return cycles;
}

// Threads share a stage's chunks of all panels. The more of them there are, the less a thread waits
// for another at the end, but the fewer rows there are for the tiles of a class.
int64_t ChunkPixels(const TapSum& sum, const ChannelLanesNeeds& needs,
                    const ChannelLanesStages& stages) {
  if (needs.num_threads == 1 || stages.own) return needs.cached_pixels;
  constexpr int64_t kFewestPixels = 48;  // a panel may come from the third-level cache for these
  constexpr int64_t kMostTasks = 4;      // of a thread
  constexpr double kWorthwhile = 0.97;   // of the time with more tasks
  const int64_t panels = std::min(needs.num_panels, needs.panels_per_pass);  // tasks of each chunk
  const int64_t pixels = CeilDiv(PixelsOf(sum), std::ssize(stages.all));
  int64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t tasks = kMostTasks * needs.num_threads; tasks > 0; tasks -= needs.num_threads) {
    const int64_t chunk = std::min(
        needs.cached_pixels,
        std::max(CeilDiv(pixels * panels, tasks), kFewestPixels * std::ssize(needs.phases)));
    if (chunk == best) continue;
    const int64_t chunks = std::ssize(SplitSlab(stages.all.front().result, sum.result_w, chunk));
    const int64_t rounds = CeilDiv(chunks * panels, int64_t{needs.num_threads});
    const double cycles =
        static_cast<double>(rounds) * ChunkCycles(sum, needs, CeilDiv(pixels, chunks));
    if (cycles > kWorthwhile * least) continue;
    least = cycles;
    best = chunk;
  }
  return best;
}

}  // namespace

int64_t MostChunkPixels(int64_t source_c, int64_t num_phases) {
  return std::clamp<int64_t>((int64_t{1} << 18) / source_c, 1024, 16384) * num_phases;
}

ChannelLanesStages CutStages(const TapSum& sum, const ChannelLanesNeeds& needs) {
  if (needs.group_bytes > 0) return StagesOfGroups(sum, needs);
  const auto stages_of = [&](int64_t stage_bytes) {
    return StagesOf(sum, PixelsOf(sum) / CeilDiv(needs.staged_bytes, stage_bytes));
  };
  ChannelLanesStages stages{{}, false, 0};
  if (needs.staged_bytes == 0) {
    stages.all = {{{0, sum.batch, 0, sum.result_h}, {0, sum.source_h}, {}}};
  } else if (const int64_t own_bytes = OwnStageBytes(needs); own_bytes > 0) {
    stages.all = stages_of(own_bytes);
    stages.own = ServeThreads(sum, stages.all, needs.num_threads);
  }
  if (needs.staged_bytes > 0 && !stages.own) {
    stages.all = stages_of(std::min(
        std::max(kStageBytesPerThread * needs.num_threads, needs.filter_bytes), kMostStageBytes));
  }
  stages.chunk_pixels = ChunkPixels(sum, needs, stages);
  for (ChannelLanesStage& stage : stages.all) {
    stage.chunks = SplitSlab(stage.result, sum.result_w, stages.chunk_pixels);
  }
  return stages;
}

}  // namespace convgrad
