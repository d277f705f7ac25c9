// Filter gradients of 1x1 filters in NCHW with few channels on one side: products of planes, whose
// pixels follow each other in both operands. The planes of the other side are transposed in
// registers, so nothing is packed.
#include <algorithm>
#include <string>
#include <vector>

#include "base/memory.h"
#include "conv/axes/flattened.h"
#include "conv/axes/pixel_sum.h"
#include "conv/conv2d/filter/algorithms.h"
#include "conv/conv2d/filter/units/plane_squares_cut.h"
#include "conv/conv2d/filter/units/unit_folds.h"
#include "conv/gemm/tiles.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

template <class Compute>
class PlaneSquaresRunner;

template <class Compute>
class PlaneSquaresPlan final : public Plan {
 public:
  PlaneSquaresPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : num_threads_(num_threads),
        cut_(problem, kernels, num_threads),
        folds_(cut_.NumUnits(), cut_.NumSums(), std::ssize(cut_.blocks)) {}

  const PlaneSquaresCut<Compute>& cut() const { return cut_; }
  const UnitFolds<Compute>& folds() const { return folds_; }

  int64_t ScratchBytes() const override {
    const int64_t segments = std::min<int64_t>(cut_.geometry.batch, kBlockTerms);
    return num_threads_ * 2 * segments * int64_t{sizeof(GemmSegment)} + folds_.ScratchBytes() +
           cut_.NumSums() * int64_t{sizeof(Compute)};
  }
  Work CountWork() const override { return cut_.CountWork(); }
  std::string Tiles() const override { return cut_.Tiles(); }
  bool Run(const ConvArgs& args) const override {
    PlaneSquaresRunner<Compute>(args, *this).Run();
    return true;
  }

 private:
  const int num_threads_;
  const PlaneSquaresCut<Compute> cut_;
  const UnitFolds<Compute> folds_;
};

template <class Compute>
class PlaneSquaresRunner {
 public:
  PlaneSquaresRunner(const ConvArgs& args, const PlaneSquaresPlan<Compute>& plan)
      : cut_(plan.cut()),
        folds_(plan.folds()),
        parallel_(args.parallel),
        kernels_(args.kernels.Depthwise<Compute>()),
        rows_(static_cast<const Compute*>(cut_.rows_are_inputs ? args.input : args.out_backprop)),
        cols_(static_cast<const Compute*>(cut_.rows_are_inputs ? args.out_backprop : args.input)),
        result_(static_cast<Compute*>(args.result)),
        segments_(args.parallel) {}

  void Run();

 private:
  void AddRun(int64_t run, int64_t unit, double* sums);
  void Finish(int64_t unit, double* total) const;

  const PlaneSquaresCut<Compute>& cut_;
  const UnitFolds<Compute>& folds_;
  const Parallel& parallel_;
  const DepthwiseKernels<Compute>& kernels_;
  const Compute *rows_, *cols_;
  Compute* result_;
  PerThread<std::vector<GemmSegment>> segments_;
};

template <class Compute>
void PlaneSquaresRunner<Compute>::AddRun(int64_t run, int64_t unit, double* sums) {
  constexpr int64_t kAheadBytes = 1024;
  const int64_t pixels = cut_.Pixels(), row_planes = cut_.rows.channels * pixels,
                col_planes = cut_.cols.channels * pixels;
  const auto place = cut_.PlaceOf(unit);
  std::fill_n(sums, folds_.Size(), 0.0);
  // Rows that a tile has beyond the last one are that again.
  int64_t a_rows[kMaxTileRows];
  for (int64_t i = 0; i < cut_.tile.rows; ++i) a_rows[i] = std::min(i, place.num_rows - 1) * pixels;
  std::vector<GemmSegment>& segments = segments_.Own();
  PlaneSquareArgs<Compute> args{};
  args.a = rows_ + (place.group * cut_.rows.group_channels + place.first_row) * pixels;
  args.a_rows = a_rows;
  args.b = cols_ + (place.group * cut_.cols.group_channels + place.first_col) * pixels;
  args.b_col_step = pixels;
  args.num_cols = place.num_cols;
  args.ahead = cut_.fetches ? kAheadBytes / int64_t{sizeof(Compute)} : 0;
  args.sums = sums;
  args.errors = folds_.Errors(sums);
  const int64_t end = std::min<int64_t>(std::ssize(cut_.blocks), (run + 1) * kRunBlocks);
  for (int64_t i = run * kRunBlocks; i < end; ++i) {
    const PixelBlock& block = cut_.blocks[static_cast<size_t>(i)];
    const int64_t first = block.row_begin * cut_.geometry.out_w + block.col_begin;
    segments.clear();
    for (int64_t image = block.image_begin; image < block.image_end; ++image) {
      // The pixels that a block has of one image follow each other.
      segments.push_back({image * row_planes + first, image * col_planes + first,
                          block.num_pixels() / (block.image_end - block.image_begin)});
    }
    args.segments = segments;
    cut_.tile.run(args);
  }
}

template <class Compute>
void PlaneSquaresRunner<Compute>::Finish(int64_t unit, double* total) const {
  const ConvGeometry& g = cut_.geometry;
  const auto place = cut_.PlaceOf(unit);
  AlignedArray<Compute> sums(cut_.NumSums());
  kernels_.finish(total, folds_.Errors(total), sums.data(), sums.size(), /*odd=*/false);
  const int64_t row_step = cut_.rows_are_inputs ? g.out_c : 1;
  const int64_t col_step = cut_.rows_are_inputs ? 1 : g.out_c;
  Compute* to = result_ + place.group * g.group_out_c + place.first_row * row_step +
                place.first_col * col_step;
  for (int64_t i = 0; i < place.num_rows; ++i) {
    for (int64_t j = 0; j < place.num_cols; ++j) {
      to[i * row_step + j * col_step] = sums.data()[i * cut_.tile.cols + j];
    }
  }
}

template <class Compute>
void PlaneSquaresRunner<Compute>::Run() {
  const int64_t units = cut_.NumUnits(), size = folds_.Size();
  folds_.Run(
      kernels_,
      [&](int64_t first, int64_t num_runs, double* sums) {
        parallel_.For(num_runs * units,
                      [&](int64_t i) { AddRun(first + i / units, i % units, sums + i * size); });
      },
      [&](int64_t unit, double* total) { Finish(unit, total); });
}

bool CanMultiplyPlanes(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const bool has_kernel =
      problem.dtype == DType::kFloat64
          ? !kernels.plane_squares_f64.tiles.empty()
          : problem.dtype == DType::kFloat32 && !kernels.plane_squares_f32.tiles.empty();
  return has_kernel && InfoOf(problem.op).direction == Direction::kBackpropFilter &&
         problem.data_format == DataFormat::kNCHW && problem.ValidTerms() > 0 && KeepsPixels(g) &&
         CanListPixelBlocks(g);
}

}  // namespace

const Algorithm kConv2DFilterPlaneSquares = {
    .name = "plane-squares",
    .summary = "filter gradient of 1x1 in NCHW with few channels on one side",
    .can = CanMultiplyPlanes,
    .plan = PlanComputed<PlaneSquaresPlan>,
};

}  // namespace convgrad
