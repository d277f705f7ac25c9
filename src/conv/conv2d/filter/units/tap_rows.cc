// Filter gradients of few input channels, one row of the filter at a time: what an output pixel
// meets of it are neighbours in memory, all of whose sums fit the registers, so neither rows nor
// columns of padding are multiplied and the input need not be packed.
#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/conv2d/filter/algorithms.h"
#include "conv/conv2d/filter/units/tap_rows_cut.h"
#include "conv/conv2d/filter/units/unit_folds.h"
#include "conv/move/staging.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

constexpr int64_t kAheadBytes = 64 << 10;  // of out_backprop where it lies

template <class Stored>
class TapRowsRunner;

template <class Stored>
class TapRowsPlan final : public Plan {
 public:
  using Compute = ComputeType<Stored>;

  TapRowsPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : num_threads_(num_threads),
        cut_(problem, kernels),
        folds_(cut_.num_panels, cut_.NumSums(), std::ssize(cut_.blocks)) {}

  const TapRowsCut& cut() const { return cut_; }
  const UnitFolds<Compute>& folds() const { return folds_; }
  // Rows of taps are dealt too where runs are few; with all of them a block stays in cache, and is
  // packed once.
  int64_t PartsOfRun() const {
    const int64_t units = cut_.num_panels * cut_.geometry.kernel_h;
    const int64_t wanted =
        num_threads_ == 1 ? 1 : num_threads_ * (cut_.UsesOutputInPlace() ? 8 : 2);
    return std::min(units, CeilDiv(wanted, folds_.RunsAtOnce()));
  }

  int64_t ScratchBytes() const override;
  Work CountWork() const override { return cut_.CountWork(); }
  std::string Tiles() const override { return cut_.Tiles(); }
  bool Run(const ConvArgs& args) const override {
    TapRowsRunner<Stored>(args, *this).Run();
    return true;
  }

 private:
  const int num_threads_;
  const TapRowsCut cut_;
  const UnitFolds<Compute> folds_;
};

template <class Stored>
class TapRowsRunner {
 public:
  using Compute = ComputeType<Stored>;

  TapRowsRunner(const ConvArgs& args, const TapRowsPlan<Stored>& plan)
      : plan_(plan),
        cut_(plan.cut()),
        parallel_(args.parallel),
        pack_(args.kernels.Pack<Stored>()),
        folds_(args.kernels.Depthwise<Compute>()),
        run_tile_(args.kernels.TapRow<Compute>().tiles[static_cast<size_t>(cut_.tile.index)].run),
        input_(static_cast<const Stored*>(args.input)),
        out_backprop_(static_cast<const Stored*>(args.out_backprop)),
        result_(static_cast<Stored*>(args.result)),
        threads_(args.parallel) {}

  void Run();

 private:
  struct Scratch {
    explicit Scratch(const TapRowsCut& cut)
        : input(cut.input_elements), output(cut.output_elements) {
      // Surplus columns are computed and dropped: they must be numbers, not slow subnormals.
      std::fill_n(output.data(), output.size(), Compute{0});
    }
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
  // `units`: rows of taps, panel after panel; `taps`: rows of taps of one panel; `sums`: of all
  // panels.
  void RunPiece(int64_t run, Range units, double* sums);
  void RunStage(const TapRowsCut::Stage& stage, Range units, double* sums);
  void RunBlock(const PixelBlock& block, Range taps, const Operand& input, const Operand& output,
                double* sums);
  Operand InputOf(const Slab& rows, Scratch& scratch) const;
  Operand OutputOf(int64_t panel, const PixelBlock& block, Scratch& scratch) const;
  void Finish(int64_t panel, double* total) const;
  double* Errors(double* sums) const { return plan_.folds().Errors(sums); }

  const TapRowsPlan<Stored>& plan_;
  const TapRowsCut& cut_;
  const Parallel& parallel_;
  const Parallel alone_{1};
  const PackKernels<Stored>& pack_;
  const DepthwiseKernels<Compute>& folds_;
  void (*run_tile_)(const TapRowArgs<Compute>&);
  const Stored* input_;
  const Stored* out_backprop_;
  Stored* result_;
  PerThread<Scratch> threads_;
};

template <class Stored>
auto TapRowsRunner<Stored>::InputOf(const Slab& rows, Scratch& scratch) const -> Operand {
  const ConvGeometry& g = cut_.geometry;
  const int64_t row_step = g.in_w * g.in_c;
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (cut_.UsesInputInPlace()) return {input_, 0, 0, g.in_h, row_step};
  }
  const DataFormat format = g.in_c == 1 ? DataFormat::kNHWC : cut_.problem.data_format;
  LoadSlab(alone_, pack_, {format, g.in_h, g.in_w, g.in_c}, rows, input_, scratch.input.data());
  return {scratch.input.data(), rows.image_begin, rows.row_begin, rows.num_rows(), row_step};
}

// The output of the block's columns alone, where they are packed.
template <class Stored>
auto TapRowsRunner<Stored>::OutputOf(int64_t panel, const PixelBlock& block, Scratch& scratch) const
    -> Operand {
  const ConvGeometry& g = cut_.geometry;
  const int64_t channel = panel * cut_.tile.cols, channels = cut_.PanelCols(panel);
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (cut_.UsesOutputInPlace()) {
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
    Compute* to = scratch.output.data() + (image - block.image_begin) * pixels * cut_.tile.cols;
    if (cut_.IsNhwc()) {
      pack_.copy_widen(from + first * g.out_c + channel, g.out_c, to, cut_.tile.cols, pixels,
                       channels);
    } else {
      LoadPlanes(pack_, from + channel * plane + first, plane, channels, pixels, to,
                 cut_.tile.cols);
    }
  }
  return {scratch.output.data(), block.image_begin, block.row_begin, num_rows,
          (block.col_end - block.col_begin) * cut_.tile.cols};
}

template <class Stored>
void TapRowsRunner<Stored>::RunStage(const TapRowsCut::Stage& stage, Range units, double* sums) {
  const ConvGeometry& g = cut_.geometry;
  const int64_t first_panel = units.begin / g.kernel_h;
  const int64_t last_panel = CeilDiv(units.end, g.kernel_h);
  const bool all_taps = last_panel - first_panel > 1;
  const Slab rows =
      cut_.InputRows(stage.whole, all_taps ? 0 : units.begin - first_panel * g.kernel_h,
                     all_taps ? g.kernel_h : units.end - first_panel * g.kernel_h);
  if (rows.num_rows() == 0) return;
  Scratch& scratch = threads_.Own(cut_);
  const Operand input = InputOf(rows, scratch);
  for (int64_t panel = first_panel; panel < last_panel; ++panel) {
    const Operand output = OutputOf(panel, stage.whole, scratch);
    const int64_t unit = panel * g.kernel_h;
    const Range taps{std::max(units.begin - unit, int64_t{0}),
                     std::min(units.end - unit, g.kernel_h)};
    for (int64_t i = stage.block_begin; i < stage.block_end; ++i) {
      RunBlock(cut_.blocks[static_cast<size_t>(i)], taps, input, output,
               sums + panel * plan_.folds().Size());
    }
  }
}

// Adds up one panel.
template <class Stored>
void TapRowsRunner<Stored>::RunBlock(const PixelBlock& block, Range taps, const Operand& input,
                                     const Operand& output, double* sums) {
  const ConvGeometry& g = cut_.geometry;
  std::vector<GemmSegment>& segments = threads_.Own(cut_).segments;
  const TapRowsCut::Columns columns = cut_.ColumnsOf(block);
  TapRowArgs<Compute> args{};
  args.x = input.at;
  args.x_row_step = g.stride_h * input.row_step;
  args.x_col_step = g.stride_w * g.in_c;
  args.g_col_step = cut_.UsesOutputInPlace() ? g.out_c : cut_.tile.cols;
  args.g = output.at + (columns.first - block.col_begin) * args.g_col_step;
  args.g_row_step = output.row_step;
  args.before = columns.before;
  args.behind = columns.behind;
  args.whole = columns.whole;
  const int64_t first_number = (columns.first * g.stride_w - g.pad_left) * g.in_c;
  for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
    const Slab met = cut_.RowsOfTap(block, tap);
    if (met.row_begin >= met.row_end) continue;
    const int64_t row = met.row_begin * g.stride_h + tap * g.dilation_h - g.pad_top;
    segments.clear();
    for (int64_t image = met.image_begin; image < met.image_end; ++image) {
      segments.push_back(
          {input.Row(image, row) + first_number, output.Row(image, met.row_begin), met.num_rows()});
    }
    args.segments = segments;
    // The first row of taps reads all of the block.
    const bool fetches = cut_.UsesOutputInPlace() && tap == taps.begin;
    args.ahead = fetches ? kAheadBytes / int64_t{sizeof(Compute)} : 0;
    const int64_t at = tap * cut_.numbers * cut_.tile.cols;
    args.sums = sums + at;
    args.errors = Errors(sums) == nullptr ? nullptr : Errors(sums) + at;
    run_tile_(args);
  }
}

template <class Stored>
void TapRowsRunner<Stored>::RunPiece(int64_t run, Range units, double* sums) {
  for (const TapRowsCut::Stage& stage : cut_.StagesOfRun(run)) RunStage(stage, units, sums);
}

template <class Stored>
void TapRowsRunner<Stored>::Finish(int64_t panel, double* total) const {
  const int64_t cols = cut_.tile.cols, out_c = cut_.geometry.out_c;
  AlignedArray<Compute> sums(cut_.NumSums());
  folds_.finish(total, Errors(total), sums.data(), sums.size(), sizeof(Stored) == 2);
  for (int64_t row = 0; row < cut_.geometry.kernel_h * cut_.numbers; ++row) {
    pack_.narrow(sums.data() + row * cols, result_ + row * out_c + panel * cols,
                 cut_.PanelCols(panel));
  }
}

template <class Stored>
void TapRowsRunner<Stored>::Run() {
  const int64_t units = cut_.num_panels * cut_.geometry.kernel_h;
  const int64_t parts = plan_.PartsOfRun(), run_size = cut_.num_panels * plan_.folds().Size();
  plan_.folds().Run(
      folds_,
      [&](int64_t first, int64_t num_runs, double* sums) {
        std::fill_n(sums, num_runs * run_size, 0.0);
        parallel_.For(num_runs * parts, [&](int64_t i) {
          const int64_t run = i / parts, part = i % parts;
          RunPiece(first + run, ShareOf(units, parts, part), sums + run * run_size);
        });
      },
      [&](int64_t panel, double* total) { Finish(panel, total); });
}

template <class Stored>
int64_t TapRowsPlan<Stored>::ScratchBytes() const {
  return (cut_.input_elements + cut_.output_elements) * cut_.ComputeBytes() * num_threads_ +
         cut_.NumSums() * cut_.ComputeBytes() + folds_.ScratchBytes();
}

}  // namespace

const Algorithm kConv2DFilterTapRows = {
    .name = "tap-rows",
    .summary = "filter gradient of few input channels, one row of taps at a time",
    .can = TapRowsCut::Fits,
    .plan = PlanStored<TapRowsPlan>,
};

}  // namespace convgrad
