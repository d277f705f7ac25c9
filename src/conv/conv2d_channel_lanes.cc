// Rows of the micro-kernel are pixels of the result, columns its channels. Pixels that meet the
// same taps form a class; tiles take rows from anywhere in a class, so padding is skipped, not
// multiplied, and nothing is copied to make rows. The filter is packed once into panels.
#include "conv/conv2d_channel_lanes.h"

#include <fmt/format.h>

#include <atomic>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/bfloat16_pairs.h"
#include "conv/class_segments.h"
#include "conv/filter_panel.h"
#include "conv/gemm_tiles.h"
#include "conv/staging.h"
#include "conv/tap_sum.h"

namespace convgrad {
namespace {

// Terms of a chunk of blocks: a panel's part that should stay in the second-level cache while tiles
// pass over it.
constexpr int64_t kPanelBytes = 640 << 10;
constexpr int64_t kPackedBytes = int64_t{24} << 20;  // of filter panels at a time
// Source and result slabs at a time: copied, used and copied back while in cache, but no smaller
// than the filter, which every stage reads anew.
constexpr int64_t kStageBytesPerThread = int64_t{4} << 20;
constexpr int64_t kMostStageBytes = int64_t{36} << 20;

// Everything that follows from problem, kernels and threads: how the work is cut. Operands are held
// as Element: numbers of the compute type, or pairs of bfloat16 numbers.
template <class Stored, class Element>
struct Plan {
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;

  Plan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t PanelElements() const { return TermsOf(sum, phases) * panels.cols; }
  int64_t NumPanels() const { return sum.groups * panels.count; }
  int64_t PartsOf(const TapPhase& phase) const;
  int64_t SumsPerThread() const;
  int64_t SourceElements(const Slab& stage) const;
  int64_t ResultElements(const Slab& stage) const;
  int64_t ScratchBytes() const;

  const IndirectGemmKernels<Element>& kernels;
  TapSum sum;
  std::vector<TapPhase> phases;
  DataShape source, result;           // channels of the source as elements
  bool source_staged, result_staged;  // else used where they lie
  Panels panels;                      // of one group
  int64_t panels_per_pass;
  std::vector<Slab> stages;
  int64_t chunk_pixels;
  int num_threads;
};

template <class Stored, class Element>
Plan<Stored, Element>::Plan(const Problem& problem, const KernelTable& table, int num_threads_in)
    : kernels(table.Gemm<Element>()),
      sum(problem),
      phases(PhasesOf(sum)),
      source_staged(problem.data_format == DataFormat::kNCHW ||
                    (kPairs ? sum.source_c % 2 != 0 : !std::is_same_v<Stored, Compute>)),
      result_staged(problem.data_format == DataFormat::kNCHW ||
                    !(kPairs || std::is_same_v<Stored, Compute>)),
      panels(CutPanels(kernels, sum.result_c)),
      num_threads(num_threads_in) {
  if constexpr (kPairs) CountInPairs(sum, phases);
  source = {problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups};
  result = {problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups};
  panels_per_pass = std::clamp<int64_t>(
      kPackedBytes / std::max<int64_t>(1, PanelElements() * int64_t{sizeof(Element)}), 1,
      NumPanels());
  const Slab whole{0, sum.batch, 0, sum.result_h};
  const int64_t pixels = sum.batch * sum.result_h * sum.result_w;
  if (source_staged || result_staged) {
    const int64_t bytes = sum.batch * (source.Image() * int64_t{sizeof(Element)} +
                                       result.Image() * int64_t{sizeof(Compute)});
    const int64_t filter_bytes = NumPanels() * PanelElements() * int64_t{sizeof(Element)};
    const int64_t stage_bytes =
        std::min(std::max(kStageBytesPerThread * num_threads, filter_bytes), kMostStageBytes);
    stages =
        SplitSlab(whole, sum.result_w, std::max<int64_t>(1, pixels / CeilDiv(bytes, stage_bytes)));
  } else {
    stages = {whole};
  }
  // Enough pixels for every class to fill its tiles and for a panel's way into the cache to pay,
  // few enough for the source to stay in a cache from panel to panel.
  const int64_t num_phases = static_cast<int64_t>(phases.size());
  const int64_t cached =
      std::clamp<int64_t>((int64_t{1} << 18) / sum.source_c, 1024, 4096) * num_phases;
  const int64_t tasks = std::min(NumPanels(), panels_per_pass);  // of each chunk
  const int64_t shared = num_threads == 1
                             ? cached
                             : CeilDiv(CeilDiv(pixels, static_cast<int64_t>(stages.size())) * tasks,
                                       4 * int64_t{num_threads});
  constexpr int64_t kFewestPixels = 48;  // a panel may come from the third-level cache for these
  chunk_pixels = std::min(cached, std::max<int64_t>(shared, kFewestPixels * num_phases));
}

// How many parts the blocks of a phase are taken in, so that a part of a panel fits the cache.
template <class Stored, class Element>
int64_t Plan<Stored, Element>::PartsOf(const TapPhase& phase) const {
  const int64_t bytes = phase.num_taps() * sum.source_c * panels.cols * int64_t{sizeof(Element)};
  return std::clamp<int64_t>(CeilDiv(bytes, kPanelBytes), 1,
                             std::max<int64_t>(1, static_cast<int64_t>(phase.blocks.size())));
}

// One tile, or all tiles of a chunk where a phase is taken in parts.
template <class Stored, class Element>
int64_t Plan<Stored, Element>::SumsPerThread() const {
  const auto& tile = TilesOfWidth(kernels, panels.cols).front();
  int64_t tiles = 1;
  for (const TapPhase& phase : phases) {
    if (PartsOf(phase) == 1) continue;
    const int64_t pixels = std::max(chunk_pixels, sum.result_w);
    const int64_t classes = static_cast<int64_t>(phase.rows->classes.size()) *
                            static_cast<int64_t>(phase.cols->classes.size());
    tiles = std::max(tiles, std::min(pixels, pixels / tile.rows + classes));
  }
  return tiles * SumsOfTile(tile);
}

template <class Stored, class Element>
int64_t Plan<Stored, Element>::SourceElements(const Slab& stage) const {
  const RowRange rows = SourceRows(sum, stage);
  return stage.num_images() * (rows.end - rows.begin) * source.w * source.c;
}

template <class Stored, class Element>
int64_t Plan<Stored, Element>::ResultElements(const Slab& stage) const {
  return stage.num_images() * stage.num_rows() * result.w * result.c;
}

template <class Stored, class Element>
int64_t Plan<Stored, Element>::ScratchBytes() const {
  int64_t source_elements = 0, result_elements = 0;
  for (const Slab& stage : stages) {
    if (source_staged) source_elements = std::max(source_elements, SourceElements(stage));
    if (result_staged) result_elements = std::max(result_elements, ResultElements(stage));
  }
  int64_t list_bytes = 0;
  for (const TapPhase& phase : phases) {
    const int64_t segments = std::max(phase.num_taps() * (sum.in_pairs ? 2 : 1),
                                      static_cast<int64_t>(phase.blocks.size()));
    list_bytes = std::max(list_bytes, segments * int64_t{sizeof(GemmSegment) + sizeof(int64_t)});
  }
  return (panels_per_pass * PanelElements() + source_elements) * int64_t{sizeof(Element)} +
         result_elements * int64_t{sizeof(Compute)} +
         num_threads * (SumsPerThread() * int64_t{sizeof(double)} + 2 * list_bytes);
}

template <class Stored, class Element>
class Runner {
 public:
  using Compute = ComputeType<Stored>;
  using Cut = Plan<Stored, Element>;

  Runner(const ConvArgs& args, const Cut& plan)
      : args_(args),
        plan_(plan),
        pack_(args.kernels.Pack<Stored>()),
        packed_(plan.panels_per_pass * plan.PanelElements()),
        threads_(static_cast<size_t>(args.parallel.num_threads())) {
    for (auto& thread : threads_) thread.sums = AlignedArray<double>(plan.SumsPerThread());
  }

  void Run() {
    int64_t packed_from = -1;  // the first panel of the pass that is packed
    for (const Slab& stage : plan_.stages) {
      Load(stage);
      const int64_t num_panels = plan_.NumPanels();
      for (int64_t first = 0; first < num_panels; first += plan_.panels_per_pass) {
        const int64_t count = std::min(plan_.panels_per_pass, num_panels - first);
        if (packed_from != first) {
          args_.parallel.For(count,
                             [&](int64_t i) { PackPanel(PanelAt(first + i), PackedPanel(i)); });
        }
        packed_from = first;
        RunPass(stage, first, count);
      }
      Store(stage);
    }
  }

 private:
  struct ThreadScratch {
    SegmentList segments;
    AlignedArray<double> sums;
  };
  Element* PackedPanel(int64_t index) { return packed_.data() + index * plan_.PanelElements(); }

  FilterPanel PanelAt(int64_t panel) const {
    const Panels& panels = plan_.panels;
    const int64_t in_group = panel % panels.count;
    return {panel / panels.count, in_group * panels.cols,
            panels.ColsOf(in_group, plan_.sum.result_c), panels.cols};
  }

  bool StreamsResult() const;
  void PackPanel(const FilterPanel& panel, Element* to) const;
  void Load(const Slab& stage);
  void LoadSource(const Slab& slab);
  void Store(const Slab& stage);
  void RunPass(const Slab& stage, int64_t first_panel, int64_t num_panels);
  void RunTask(const Slab& chunk, const FilterPanel& panel, const Element* packed);
  void RunClass(const Slab& chunk, const TapPhase& phase, const AxisClass& rows,
                const AxisClass& cols, RowGatherer<Element>& gatherer) const;

  const ConvArgs& args_;
  const Cut& plan_;
  const PackKernels<Stored>& pack_;
  AlignedArray<Element> packed_;
  std::vector<ThreadScratch> threads_;

  // The source and result of the current stage as the kernels see them.
  AlignedArray<Element> source_scratch_;
  AlignedArray<Compute> result_scratch_;
  const Element* source_ = nullptr;
  Compute* result_ = nullptr;
  BFloat16* narrowed_ = nullptr;  // of pairs, if it is not staged
  PixelOffsets source_offsets_{{}, 0, 0, 0}, result_offsets_{{}, 0, 0, 0};
};

template <class Stored, class Element>
bool Runner<Stored, Element>::StreamsResult() const {
  return !plan_.result_staged && narrowed_ == nullptr &&
         PaysToStream(result_, plan_.sum.batch * plan_.result.Image() * int64_t{sizeof(Compute)},
                      plan_.sum.result_c * int64_t{sizeof(Compute)});
}

template <class Stored, class Element>
void Runner<Stored, Element>::PackPanel(const FilterPanel& panel, Element* to) const {
  const auto* filter = static_cast<const Stored*>(args_.filter);
  if constexpr (Cut::kPairs) {
    PackFilterPairs(args_.kernels.pack_bf16_pairs, args_.problem, plan_.sum, plan_.phases, filter,
                    panel, to);
  } else {
    PackFilter(pack_, plan_.sum, plan_.phases, filter, panel, to);
  }
}

template <class Stored, class Element>
void Runner<Stored, Element>::Load(const Slab& stage) {
  const RowRange rows = SourceRows(plan_.sum, stage);
  if (plan_.source_staged) {
    const int64_t need = plan_.SourceElements(stage);
    if (source_scratch_.size() < need) source_scratch_ = AlignedArray<Element>(need);
    source_ = source_scratch_.data();
    source_offsets_ =
        PixelOffsets(plan_.source, stage.image_begin, rows.begin, rows.end - rows.begin);
    LoadSource({stage.image_begin, stage.image_end, rows.begin, rows.end});
  } else {
    source_ = static_cast<const Element*>(plan_.sum.forward ? args_.input : args_.out_backprop);
    source_offsets_ = PixelOffsets(plan_.source, 0, 0, plan_.source.h);
  }
  if (plan_.result_staged) {
    const int64_t need = plan_.ResultElements(stage);
    if (result_scratch_.size() < need) result_scratch_ = AlignedArray<Compute>(need);
    result_ = result_scratch_.data();
    result_offsets_ =
        PixelOffsets(plan_.result, stage.image_begin, stage.row_begin, stage.num_rows());
  } else {
    if constexpr (Cut::kPairs) {
      narrowed_ = static_cast<Stored*>(args_.result);
    } else {
      result_ = static_cast<Compute*>(args_.result);
    }
    result_offsets_ = PixelOffsets(plan_.result, 0, 0, plan_.result.h);
  }
}

template <class Stored, class Element>
void Runner<Stored, Element>::LoadSource(const Slab& slab) {
  const auto* source =
      static_cast<const Stored*>(plan_.sum.forward ? args_.input : args_.out_backprop);
  if constexpr (Cut::kPairs) {
    LoadSlabPairs(
        args_.parallel, args_.kernels.pack_bf16_pairs, plan_.source,
        plan_.sum.forward ? args_.problem.geometry.group_in_c : args_.problem.geometry.group_out_c,
        slab, source, source_scratch_.data());
  } else {
    LoadSlab(args_.parallel, pack_, plan_.source, slab, source, source_scratch_.data());
  }
}

template <class Stored, class Element>
void Runner<Stored, Element>::Store(const Slab& stage) {
  if (!plan_.result_staged) return;
  StoreSlab(args_.parallel, pack_, plan_.result, stage, result_scratch_.data(),
            static_cast<Stored*>(args_.result));
}

template <class Stored, class Element>
void Runner<Stored, Element>::RunPass(const Slab& stage, int64_t first_panel, int64_t num_panels) {
  const std::vector<Slab> chunks = SplitSlab(stage, plan_.result.w, plan_.chunk_pixels);
  args_.parallel.For(static_cast<int64_t>(chunks.size()) * num_panels, [&](int64_t i) {
    const int64_t panel = i % num_panels;
    RunTask(chunks[static_cast<size_t>(i / num_panels)], PanelAt(first_panel + panel),
            PackedPanel(panel));
  });
}

// One panel of channels for one chunk of pixels.
template <class Stored, class Element>
void Runner<Stored, Element>::RunTask(const Slab& chunk, const FilterPanel& panel,
                                      const Element* packed) {
  const TapSum& sum = plan_.sum;
  ThreadScratch& scratch = threads_[static_cast<size_t>(Parallel::ThreadIndex())];
  GemmTileArgs<Element> tile{};
  tile.a = source_ + panel.group * sum.source_c;
  tile.a_step = 1;
  tile.b = packed;
  tile.b_step = plan_.panels.cols;
  tile.in_pairs = sum.in_pairs;
  tile.sums = scratch.sums.data();
  const int64_t first_channel = panel.group * sum.result_c + panel.first_channel;
  if (narrowed_ != nullptr) {
    tile.narrowed = narrowed_ + first_channel;
  } else {
    tile.c = result_ + first_channel;
  }
  tile.num_cols = panel.num_channels;
  tile.odd = sizeof(Stored) == 2;
  tile.stream = StreamsResult();
  const auto tiles = TilesOfWidth(plan_.kernels, panel.num_channels);
  for (const TapPhase& phase : plan_.phases) {
    const int64_t parts = plan_.PartsOf(phase);
    const int64_t num_blocks = static_cast<int64_t>(phase.blocks.size());
    for (int64_t part = 0; part < parts; ++part) {
      tile.resume = part > 0;
      tile.keep = part + 1 < parts;
      RowGatherer<Element> gatherer(tiles, tile);
      for (const AxisClass& rows : phase.rows->classes) {
        for (const AxisClass& cols : phase.cols->classes) {
          scratch.segments.Build(phase, rows, cols, source_offsets_, sum.source_c, tile.b_step,
                                 num_blocks * part / parts, num_blocks * (part + 1) / parts);
          scratch.segments.Give(gatherer);
          RunClass(chunk, phase, rows, cols, gatherer);
        }
      }
    }
  }
  if (tile.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

// All pixels of one class in the chunk.
template <class Stored, class Element>
void Runner<Stored, Element>::RunClass(const Slab& chunk, const TapPhase& phase,
                                       const AxisClass& row_class, const AxisClass& col_class,
                                       RowGatherer<Element>& gatherer) const {
  const RowRange within = IndicesWithin(*phase.rows, chunk.row_begin, chunk.row_end);
  const int64_t row_begin = std::max(row_class.begin, within.begin);
  const int64_t row_end = std::min(row_class.end, within.end);
  const auto source_at = [](const AxisPhase& axis, const AxisClass& c, int64_t p) {
    if (c.tap_begin == c.tap_end) return int64_t{0};
    return axis.source_first + p * axis.source_step +
           axis.offsets[static_cast<size_t>(c.tap_begin)];
  };
  for (int64_t n = chunk.image_begin; n < chunk.image_end; ++n) {
    for (int64_t i = row_begin; i < row_end; ++i) {
      const int64_t source_row = source_at(*phase.rows, row_class, i);
      const int64_t result_row = phase.rows->first + i * phase.rows->step;
      for (int64_t j = col_class.begin; j < col_class.end; ++j) {
        gatherer.Add(source_offsets_.At(n, source_row, source_at(*phase.cols, col_class, j)),
                     result_offsets_.At(n, result_row, phase.cols->first + j * phase.cols->step));
      }
    }
  }
  gatherer.Flush();
}

// f(TypeTag<Stored>, TypeTag<Element>) with the operands' form: pairs wherever the tree takes terms
// in pairs and the processor has instructions for them.
template <class F>
decltype(auto) VisitForms(const Problem& problem, const KernelTable& kernels, F&& f) {
  return VisitFloat(problem.dtype, [&](auto stored) -> decltype(auto) {
    using Stored = typename decltype(stored)::Type;
    if constexpr (std::is_same_v<Stored, BFloat16>) {
      if (ServesPairs(problem, kernels)) return f(stored, TypeTag<BFloat16Pair>{});
    }
    return f(stored, TypeTag<ComputeType<Stored>>{});
  });
}

template <class Stored, class Element>
int64_t ScratchBytesOf(const Problem& problem, const KernelTable& kernels, int num_threads) {
  return Plan<Stored, Element>(problem, kernels, num_threads).ScratchBytes();
}

int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  return VisitForms(problem, kernels, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    using Element = typename decltype(element)::Type;
    // Pairs may have to give way to numbers of the compute type.
    return std::max(ScratchBytesOf<Stored, Element>(problem, kernels, num_threads),
                    ScratchBytesOf<Stored, ComputeType<Stored>>(problem, kernels, num_threads));
  });
}

std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  return VisitForms(problem, kernels, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    const Plan<Stored, typename decltype(element)::Type> plan(problem, kernels, 1);
    const auto& tile = TilesOfWidth(plan.kernels, plan.panels.cols).front();
    int64_t blocks = 0;
    for (const TapPhase& phase : plan.phases) {
      blocks = std::max(blocks, static_cast<int64_t>(phase.blocks.size()));
    }
    return fmt::format("{}x{} pixels x channels, {} panels, {} blocks{}", tile.rows, tile.cols,
                       plan.NumPanels(), blocks, plan.kPairs ? ", in pairs" : "");
  });
}

template <class Stored, class Element>
void RunForm(const ConvArgs& args) {
  const Plan<Stored, Element> plan(args.problem, args.kernels, args.parallel.num_threads());
  Runner<Stored, Element>(args, plan).Run();
}

void Run(const ConvArgs& args) {
  VisitForms(args.problem, args.kernels, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    using Element = typename decltype(element)::Type;
    if constexpr (std::is_same_v<Element, BFloat16Pair>) {
      if (PairsAreExact(args)) return RunForm<Stored, Element>(args);
    }
    RunForm<Stored, ComputeType<Stored>>(args);
  });
}

}  // namespace

const Algorithm kConv2DChannelLanes = {
    .name = "channel-lanes",
    .summary = "tiles of pixels by channels, padding skipped",
    .accepts = TapSum::Describes,
    .scratch_bytes = ScratchBytes,
    .tiles = Tiles,
    .run = Run,
};

}  // namespace convgrad
