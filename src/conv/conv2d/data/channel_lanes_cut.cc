#include "conv/conv2d/data/channel_lanes_cut.h"

#include <algorithm>
#include <iterator>
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

SlabCuts ResultsOf(const TapSum& sum, int64_t max_pixels, int64_t multiple = 1) {
  return {{0, sum.batch, 0, sum.result_h}, sum.result_w, max_pixels, multiple};
}

// With groups apart a task is a stage of one group; its source stays in a cache.
ChannelLanesStages StagesOfGroups(const TapSum& sum, const ChannelLanesNeeds& needs) {
  constexpr int64_t kGroupBytes = 384 << 10, kTasksPerThread = 4;
  const int64_t shared =
      needs.num_threads == 1 ? 1 : CeilDiv(kTasksPerThread * needs.num_threads, sum.groups);
  const int64_t count = std::max(CeilDiv(needs.group_bytes, kGroupBytes), shared);
  const SlabCuts results = ResultsOf(sum, PixelsOf(sum) / count);
  int64_t most_pixels = 0;  // of a stage, which is one chunk
  results.ForEachKind([&](const Slab& slab, int64_t) {
    most_pixels = std::max(most_pixels, slab.num_images() * slab.num_rows() * sum.result_w);
  });
  return {sum,         results, /*are_staged=*/true, /*own=*/true, most_pixels, /*own_panels=*/0,
          /*shares=*/1};
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
bool ServeThreads(const TapSum& sum, const SlabCuts& own, int num_threads) {
  if (own.size() < kOwnStagesPerThread * num_threads / 2) return false;
  int64_t rows = 0;
  own.ForEachKind([&](const Slab& slab, int64_t count) {
    const Range source = SourceRows(sum, slab);
    rows += count * slab.num_images() * source.size();
  });
  return 2 * rows <= 3 * sum.batch * sum.source_h;
}

// How many panels threads pack and compute one by one, the same number each: what one has packed
// for another comes from its cache, after both have waited. Many pixels take so long that threads
// rather share them evenly.
int64_t OwnPanels(const TapSum& sum, const ChannelLanesNeeds& needs,
                  const ChannelLanesStages& stages) {
  constexpr int64_t kMostPixels = 1024;
  const bool one_chunk = !stages.own && stages.size() == 1 && stages[0].chunks.size() == 1;
  const bool few_pixels = needs.num_threads == 1 || PixelsOf(sum) <= kMostPixels;
  if (!one_chunk || !few_pixels || needs.panels_together == 0) return 0;
  const int64_t packings = CeilDiv(needs.num_panels, needs.panels_together);
  const int64_t threads = needs.num_threads;
  const int64_t even = threads > 1 && needs.last_is_narrow ? packings - 1 : packings;
  const int64_t owned = even - even % threads;
  return std::min(owned * needs.panels_together, needs.num_panels);
}

// How many shares of a chunk's tiles threads take. Each thread should have equally many tasks,
// which are shares with one panel each, and some for who is done early, but a panel may come from
// the third-level cache for each of them: a share has some tiles, unless threads would then have
// far from equally many.
int64_t SharesOfChunks(const TapSum& sum, const ChannelLanesNeeds& needs,
                       const ChannelLanesStages& stages) {
  const int64_t panels = std::min(needs.num_panels - stages.own_panels, needs.panels_per_pass);
  if (needs.num_threads == 1 || stages.own || panels == 0) return 1;
  constexpr int64_t kFewestPixels = 48, kLeastPixels = 12, kTasksPerThread = 4;
  constexpr double kEven = 1.03, kFair = 1.1;  // the most tasks of a thread, of the mean
  const int64_t chunks = stages[0].chunks.size();
  const int64_t pixels = PixelsOf(sum) / (stages.size() * chunks * needs.num_phases);
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

int64_t MostChunkPixels(const TapSum& sum, int64_t source_c, bool near) {
  constexpr int64_t kCachedNumbers = 1 << 18, kNearNumbers = 1 << 15;
  constexpr int64_t kLeast = 1024, kLeastOfStrided = 512, kMost = 16384;
  int64_t met = 1;  // pixels of the source that are one more for each of the result
  for (const auto* phases : {&sum.row_phases, &sum.col_phases}) {
    if (phases->empty()) continue;  // no elements
    const AxisPhase& phase = phases->front();
    met *= std::clamp<int64_t>(std::ssize(phase.taps), 1, phase.source_step);
  }
  const int64_t numbers = near ? kNearNumbers : kCachedNumbers;
  return std::clamp<int64_t>(numbers / (source_c * met), met == 1 ? kLeast : kLeastOfStrided,
                             kMost) *
         sum.num_phases();
}

ChannelLanesStages CutStages(const TapSum& sum, const ChannelLanesNeeds& needs) {
  if (needs.group_bytes > 0) return StagesOfGroups(sum, needs);
  const auto results_of = [&](int64_t stage_bytes, int64_t multiple) {
    return ResultsOf(sum, PixelsOf(sum) / CeilDiv(needs.staged_bytes, stage_bytes), multiple);
  };
  ChannelLanesStages stages{sum,
                            ResultsOf(sum, PixelsOf(sum)),
                            /*are_staged=*/needs.staged_bytes > 0,
                            /*own=*/false,
                            needs.cached_pixels,
                            /*own_panels=*/0,
                            /*shares=*/1};
  if (const int64_t own_bytes = OwnStageBytes(needs); stages.are_staged && own_bytes > 0) {
    stages.results = results_of(own_bytes, needs.num_threads);
    stages.own = ServeThreads(sum, stages.results, needs.num_threads);
  }
  if (stages.are_staged && !stages.own) {
    stages.results =
        results_of(std::min(std::max(kStageBytesPerThread * needs.num_threads, needs.filter_bytes),
                            kMostStageBytes),
                   1);
  }
  stages.own_panels = OwnPanels(sum, needs, stages);
  stages.shares = SharesOfChunks(sum, needs, stages);
  return stages;
}

}  // namespace convgrad
