// How a grouped forward convolution or input gradient is cut when each group is packed by itself:
// slabs of the result's pixels, panels of the filter. Touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "conv/axes/tap_sum.h"
#include "conv/gemm/tiles.h"
#include "conv/move/staging.h"
#include "kernels/kernel_table.h"

namespace convgrad {

inline constexpr int64_t kGroupBytes = 384 << 10;  // of a task's source: stays in a cache

// A task is a group and a slab.
template <class Stored>
struct GroupLanesPlan {
  using Compute = ComputeType<Stored>;

  GroupLanesPlan(const Problem& problem, const KernelTable& table, int num_threads);
  GroupLanesPlan(const GroupLanesPlan&) = delete;  // phases point into sum

  int64_t PanelElements() const { return TermsOf(sum, phases) * panels.cols; }
  int64_t SourceElements() const { return most_source_pixels * sum.source_c; }
  int64_t ResultElements() const { return in_place ? 0 : most_result_pixels * sum.result_c; }
  int64_t SumsPerThread() const;
  int64_t ScratchBytes() const;

  const IndirectGemmKernels<Compute>& kernels;
  TapSum sum;
  std::vector<TapPhase> phases;
  DataShape source, result;
  bool in_place;  // the micro-kernel writes the result where it lies
  Panels panels;  // of a group
  std::vector<Slab> slabs;
  int64_t most_source_pixels = 0, most_result_pixels = 0;  // of a slab
  int num_threads;
};

template <class Stored>
GroupLanesPlan<Stored>::GroupLanesPlan(const Problem& problem, const KernelTable& table,
                                       int num_threads_in)
    : kernels(table.Gemm<Compute>()),
      sum(problem),
      phases(PhasesOf(sum)),
      source{problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups},
      result{problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups},
      in_place(problem.data_format == DataFormat::kNHWC && std::is_same_v<Stored, Compute>),
      panels(CutPanels(kernels, sum.result_c)),
      num_threads(num_threads_in) {
  constexpr int64_t kTasksPerThread = 4;
  const int64_t pixels = sum.batch * sum.result_h * sum.result_w;
  const int64_t bytes =
      sum.batch * sum.source_h * sum.source_w * sum.source_c * int64_t{sizeof(Compute)};
  const int64_t shared = num_threads == 1 ? 1 : CeilDiv(kTasksPerThread * num_threads, sum.groups);
  const int64_t count = std::max(CeilDiv(bytes, kGroupBytes), shared);
  slabs = SplitSlab({0, sum.batch, 0, sum.result_h}, sum.result_w,
                    std::max<int64_t>(1, pixels / count));
  for (const Slab& slab : slabs) {
    const RowRange rows = SourceRows(sum, slab);
    most_source_pixels =
        std::max(most_source_pixels, slab.num_images() * (rows.end - rows.begin) * sum.source_w);
    most_result_pixels =
        std::max(most_result_pixels, slab.num_images() * slab.num_rows() * sum.result_w);
  }
}

template <class Stored>
int64_t GroupLanesPlan<Stored>::SumsPerThread() const {
  // The last panel may be narrower, and a tile of it larger.
  const int64_t last_cols = panels.ColsOf(panels.count - 1, sum.result_c);
  return std::max(SumsOfTile(TilesOfWidth(kernels, panels.cols).front()),
                  SumsOfTile(TilesOfWidth(kernels, last_cols).front()));
}

template <class Stored>
int64_t GroupLanesPlan<Stored>::ScratchBytes() const {
  int64_t list_bytes = 0;
  for (const TapPhase& phase : phases) {
    const int64_t segments =
        std::max<int64_t>(phase.num_taps() * (sum.in_pairs ? 2 : 1), std::ssize(phase.blocks));
    list_bytes = std::max(list_bytes, segments * int64_t{sizeof(GemmSegment) + sizeof(int64_t)});
  }
  return (sum.groups * panels.count * PanelElements() +
          num_threads * (SourceElements() + ResultElements())) *
             int64_t{sizeof(Compute)} +
         num_threads * (SumsPerThread() * int64_t{sizeof(double)} + 2 * list_bytes);
}

}  // namespace convgrad
