// Filter gradients of few input channels, one row of the filter at a time: what an output pixel
// meets of it are neighbours in memory, all of whose sums fit the registers, so neither rows nor
// columns of padding are multiplied and the input need not be packed.
#include "conv/conv2d/filter/tap_rows.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/conv2d/filter/block_lanes_plan.h"
#include "conv/conv2d/filter/tap_rows_plan.h"
#include "conv/conv2d/filter/tile_forms.h"
#include "conv/move/staging.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

constexpr int64_t kAheadBytes = 64 << 10;  // of out_backprop where it lies

template <class Stored>
class TapRowsEngine {
 public:
  using Compute = ComputeType<Stored>;

  TapRowsEngine(const ConvArgs& args, const TapRowsPlan& plan)
      : plan_(plan),
        parallel_(args.parallel),
        pack_(args.kernels.Pack<Stored>()),
        folds_(args.kernels.Depthwise<Compute>()),
        run_tile_(args.kernels.TapRow<Compute>().tiles[static_cast<size_t>(plan.tile_index)].run),
        input_(static_cast<const Stored*>(args.input)),
        out_backprop_(static_cast<const Stored*>(args.out_backprop)),
        result_(static_cast<Stored*>(args.result)),
        threads_(static_cast<size_t>(args.parallel.num_threads())) {
    for (Scratch& scratch : threads_) {
      scratch.input = AlignedArray<Compute>(plan.InputElements());
      scratch.output = AlignedArray<Compute>(plan.OutputElements());
      // Surplus columns are computed and dropped: they must be numbers, not slow subnormals.
      std::fill_n(scratch.output.data(), scratch.output.size(), Compute{0});
    }
  }

  void Run();

 private:
  struct Scratch {
    AlignedArray<Compute> input, output;  // of a stage, packed
    std::vector<GemmSegment> segments;
  };
  // Where pixels lie for the kernel: pixel (image, row, 0) at `at` + ((image - first_image) * rows
  // + row - first_row) * row_step.
  struct Operand {
    const Compute* at;
    int64_t first_image, first_row, rows, row_step;

    int64_t Row(int64_t image, int64_t row) const {
      return ((image - first_image) * rows + row - first_row) * row_step;
    }
  };
  // Rows of taps, panel after panel.
  struct Units {
    int64_t begin, end;
  };
  struct TapRows {  // of one panel
    int64_t begin, end;
  };

  // `sums`: of all panels.
  void RunPiece(int64_t run, Units units, double* sums);
  // Blocks of one stage.
  void RunStage(int64_t first, int64_t end, Units units, double* sums);
  void RunBlock(const PixelBlock& block, TapRows taps, const Operand& input, const Operand& output,
                double* sums);
  Operand InputOf(const Slab& rows, Scratch& scratch) const;
  Operand OutputOf(int64_t panel, const PixelBlock& block, Scratch& scratch) const;
  void Finish(int64_t panel, double* total) const;
  // Of sums of a panel; null unless there are some.
  double* Errors(double* sums) const {
    return sizeof(Compute) == sizeof(double) ? sums + plan_.NumSums() : nullptr;
  }

  const TapRowsPlan& plan_;
  const Parallel& parallel_;
  const Parallel alone_{1};
  const PackKernels<Stored>& pack_;
  const DepthwiseKernels<Compute>& folds_;
  void (*run_tile_)(const TapRowArgs<Compute>&);
  const Stored* input_;
  const Stored* out_backprop_;
  Stored* result_;
  std::vector<Scratch> threads_;
};

template <class Stored>
auto TapRowsEngine<Stored>::InputOf(const Slab& rows, Scratch& scratch) const -> Operand {
  const ConvGeometry& g = plan_.geometry;
  const int64_t row_step = g.in_w * g.in_c;
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.UsesInputInPlace()) return {input_, 0, 0, g.in_h, row_step};
  }
  const DataFormat format = g.in_c == 1 ? DataFormat::kNHWC : plan_.problem.data_format;
  LoadSlab(alone_, pack_, {format, g.in_h, g.in_w, g.in_c}, rows, input_, scratch.input.data());
  return {scratch.input.data(), rows.image_begin, rows.row_begin, rows.num_rows(), row_step};
}

// Of the block's columns alone, where they are packed.
template <class Stored>
auto TapRowsEngine<Stored>::OutputOf(int64_t panel, const PixelBlock& block, Scratch& scratch) const
    -> Operand {
  const ConvGeometry& g = plan_.geometry;
  const int64_t channel = panel * plan_.tile_cols, channels = plan_.PanelCols(panel);
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.UsesOutputInPlace()) {
      return {out_backprop_ + block.col_begin * g.out_c + channel, 0, 0, g.out_h,
              g.out_w * g.out_c};
    }
  }
  const int64_t plane = g.out_h * g.out_w;
  const int64_t num_rows = block.row_end - block.row_begin;
  // Whole rows, or a part of the only one: pixels follow each other.
  const int64_t pixels = num_rows * (block.col_end - block.col_begin);
  for (int64_t image = block.image_begin; image < block.image_end; ++image) {
    const Stored* from = out_backprop_ + image * plane * g.out_c;
    const int64_t first = block.row_begin * g.out_w + block.col_begin;
    Compute* to = scratch.output.data() + (image - block.image_begin) * pixels * plan_.tile_cols;
    if (plan_.IsNhwc()) {
      pack_.copy_widen(from + first * g.out_c + channel, g.out_c, to, plan_.tile_cols, pixels,
                       channels);
    } else {
      LoadPlanes(pack_, from + channel * plane + first, plane, channels, pixels, to,
                 plan_.tile_cols);
    }
  }
  return {scratch.output.data(), block.image_begin, block.row_begin, num_rows,
          (block.col_end - block.col_begin) * plan_.tile_cols};
}

template <class Stored>
void TapRowsEngine<Stored>::RunStage(int64_t first, int64_t end, Units units, double* sums) {
  const ConvGeometry& g = plan_.geometry;
  const PixelBlock stage = plan_.Together(first, end);
  const int64_t first_panel = units.begin / g.kernel_h;
  const int64_t last_panel = CeilDiv(units.end, g.kernel_h);
  const bool all_taps = last_panel - first_panel > 1;
  const Slab rows = plan_.InputRows(stage, all_taps ? 0 : units.begin - first_panel * g.kernel_h,
                                    all_taps ? g.kernel_h : units.end - first_panel * g.kernel_h);
  if (rows.num_rows() == 0) return;
  Scratch& scratch = threads_[static_cast<size_t>(Parallel::ThreadIndex())];
  const Operand input = InputOf(rows, scratch);
  for (int64_t panel = first_panel; panel < last_panel; ++panel) {
    const Operand output = OutputOf(panel, stage, scratch);
    const int64_t unit = panel * g.kernel_h;
    const TapRows taps{std::max(units.begin - unit, int64_t{0}),
                       std::min(units.end - unit, g.kernel_h)};
    for (int64_t i = first; i < end; ++i) {
      RunBlock(plan_.blocks[static_cast<size_t>(i)], taps, input, output,
               sums + panel * plan_.FoldSize());
    }
  }
}

// Of one panel.
template <class Stored>
void TapRowsEngine<Stored>::RunBlock(const PixelBlock& block, TapRows taps, const Operand& input,
                                     const Operand& output, double* sums) {
  const ConvGeometry& g = plan_.geometry;
  std::vector<GemmSegment>& segments =
      threads_[static_cast<size_t>(Parallel::ThreadIndex())].segments;
  const TapRowsPlan::Columns columns = plan_.ColumnsOf(block);
  TapRowArgs<Compute> args{};
  args.x = input.at;
  args.x_row_step = g.stride_h * input.row_step;
  args.x_col_step = g.stride_w * g.in_c;
  args.g_col_step = plan_.UsesOutputInPlace() ? g.out_c : plan_.tile_cols;
  args.g = output.at + (columns.first - block.col_begin) * args.g_col_step;
  args.g_row_step = output.row_step;
  args.before = columns.before;
  args.behind = columns.behind;
  args.whole = columns.whole;
  const int64_t first_number = (columns.first * g.stride_w - g.pad_left) * g.in_c;
  for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
    const Slab met = plan_.RowsOfTap(block, tap);
    if (met.row_begin >= met.row_end) continue;
    const int64_t row = met.row_begin * g.stride_h + tap * g.dilation_h - g.pad_top;
    segments.clear();
    for (int64_t image = met.image_begin; image < met.image_end; ++image) {
      segments.push_back(
          {input.Row(image, row) + first_number, output.Row(image, met.row_begin), met.num_rows()});
    }
    args.segments = segments;
    // The first row of taps reads all of the block.
    const bool fetches = plan_.UsesOutputInPlace() && tap == taps.begin;
    args.ahead = fetches ? kAheadBytes / int64_t{sizeof(Compute)} : 0;
    const int64_t at = tap * plan_.numbers * plan_.tile_cols;
    args.sums = sums + at;
    args.errors = Errors(sums) == nullptr ? nullptr : Errors(sums) + at;
    run_tile_(args);
  }
}

template <class Stored>
void TapRowsEngine<Stored>::RunPiece(int64_t run, Units units, double* sums) {
  const int64_t last = std::min<int64_t>(std::ssize(plan_.blocks), (run + 1) * kRunBlocks);
  for (int64_t i = run * kRunBlocks, end; i < last; i = end) {
    end = plan_.StageEnd(i);
    RunStage(i, end, units, sums);
  }
}

template <class Stored>
void TapRowsEngine<Stored>::Finish(int64_t panel, double* total) const {
  const int64_t cols = plan_.tile_cols, out_c = plan_.geometry.out_c;
  AlignedArray<Compute> sums(plan_.NumSums());
  folds_.finish(total, Errors(total), sums.data(), sums.size(), sizeof(Stored) == 2);
  for (int64_t row = 0; row < plan_.geometry.kernel_h * plan_.numbers; ++row) {
    pack_.narrow(sums.data() + row * cols, result_ + row * out_c + panel * cols,
                 plan_.PanelCols(panel));
  }
}

template <class Stored>
void TapRowsEngine<Stored>::Run() {
  const int64_t panels = plan_.num_panels, fold_size = plan_.FoldSize();
  const int64_t units = panels * plan_.geometry.kernel_h;
  const int64_t runs_at_once = std::clamp<int64_t>(
      kWaitingBytes / (panels * fold_size * int64_t{sizeof(double)}), 1, plan_.NumRuns());
  // Rows of taps are dealt too where runs are few; with all of them a block stays in cache, and is
  // packed once.
  const int64_t threads = parallel_.num_threads();
  const int64_t wanted = threads == 1 ? 1 : threads * (plan_.UsesOutputInPlace() ? 8 : 2);
  const int64_t parts = std::min(units, CeilDiv(wanted, runs_at_once));
  AlignedArray<double> totals(panels * fold_size), sums(panels * runs_at_once * fold_size);
  std::fill_n(totals.data(), totals.size(), 0.0);
  for (int64_t first = 0; first < plan_.NumRuns(); first += runs_at_once) {
    const int64_t runs = std::min(runs_at_once, plan_.NumRuns() - first);
    std::fill_n(sums.data(), runs * panels * fold_size, 0.0);
    parallel_.For(runs * parts, [&](int64_t i) {
      const int64_t run = i / parts, part = i % parts;
      RunPiece(first + run, {units * part / parts, units * (part + 1) / parts},
               sums.data() + run * panels * fold_size);
    });
    for (int64_t i = 0; i < runs * panels; ++i) {
      double *run = sums.data() + i * fold_size, *total = totals.data() + i % panels * fold_size;
      folds_.fold_run(run, Errors(run), total, Errors(total), plan_.NumSums());
    }
  }
  for (int64_t panel = 0; panel < panels; ++panel) Finish(panel, totals.data() + panel * fold_size);
}

bool TapRowsWin(const Problem& problem, const KernelTable& kernels) {
  // Gains that rough counts must promise.
  constexpr double kOfChannels = 0.92, kOfBlockLanes = 0.8;
  const double cycles = TapRowsPlan(problem, kernels).Cycles();
  return cycles < kOfChannels * LeastCyclesByChannels(problem, kernels) &&
         cycles < kOfBlockLanes * BlockLanesPlan(problem).Cycles(kernels.vector_bytes);
}

int64_t TapRowsScratch(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const TapRowsPlan plan(problem, kernels);
  const int64_t folds = plan.num_panels * plan.FoldSize() * int64_t{sizeof(double)};
  return (plan.InputElements() + plan.OutputElements()) * plan.ComputeBytes() * num_threads +
         plan.NumSums() * plan.ComputeBytes() + folds +
         std::max(folds, std::min(kWaitingBytes, folds * plan.NumRuns()));
}

std::string TapRowsTiles(const Problem& problem, const KernelTable& kernels) {
  return TapRowsPlan(problem, kernels).Tiles();
}

void RunTapRows(const ConvArgs& args) {
  const TapRowsPlan plan(args.problem, args.kernels);
  VisitFloat(args.problem.dtype, [&](auto stored) {
    TapRowsEngine<typename decltype(stored)::Type>(args, plan).Run();
  });
}

}  // namespace

const Algorithm kConv2DFilterTapRows = {
    .name = "tap-rows",
    .summary = "filter gradient of few input channels, one row of taps at a time",
    .can = TapRowsPlan::Fits,
    .wins = TapRowsWin,
    .plan = FunctionPlan<TapRowsScratch, TapRowsTiles, RunTapRows>::Make,
};

}  // namespace convgrad
