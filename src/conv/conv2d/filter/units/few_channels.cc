// Filter gradients of 1x1 filters in NHWC with few channels on one side: the pixels of a block
// follow each other in both operands, so both are read once, in the order of memory, and nothing is
// packed for tiles of so few rows.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/flattened.h"
#include "conv/axes/pixel_sum.h"
#include "conv/conv2d/filter/algorithms.h"
#include "conv/conv2d/filter/units/unit_folds.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/stream_result.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

// Rows of one tile: more would read what leaves the first cache once more.
constexpr int64_t kMostRows = 4;
// Pixels of so many bytes, or a few, meet all rows before the next ones; their sums wait meanwhile.
constexpr int64_t kPartBytes = int64_t{16} << 10;
constexpr int64_t kFewestTerms = 16;

// The result as rows, channels of the side that has fewer, by columns, those of the other, which
// are cut into strips where threads would have no run each. A unit is a strip.
template <class Compute>
class FewChannelsPlan final : public Plan {
 public:
  FewChannelsPlan(const Problem& problem, const KernelTable& table, int num_threads)
      : geometry_(problem.geometry),
        num_threads_(num_threads),
        kernels_(table.FewRows<Compute>()),
        rows_are_inputs_(geometry_.in_c <= geometry_.out_c),
        num_rows_(std::min(geometry_.in_c, geometry_.out_c)),
        num_cols_(std::max(geometry_.in_c, geometry_.out_c)),
        blocks_(PixelBlocks(geometry_.batch, geometry_.out_h, geometry_.out_w)),
        strip_cols_(StripCols()),
        folds_(CeilDiv(num_cols_, strip_cols_), num_rows_ * strip_cols_, std::ssize(blocks_)) {
    for (int64_t i = 0; i < num_rows_; ++i) rows_.push_back({i, i * strip_cols_});
  }

  int64_t ScratchBytes() const override {
    return folds_.ScratchBytes() + (num_threads_ + 1) * NumSums() * int64_t{sizeof(Compute)};
  }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} blocks of {} x {} channels, strips of {}", blocks_.size(), num_rows_,
                       num_cols_, strip_cols_);
  }
  bool Run(const ConvArgs& args) const override;

 private:
  int64_t NumStrips() const { return CeilDiv(num_cols_, strip_cols_); }
  int64_t NumSums() const { return num_rows_ * strip_cols_; }  // of a strip
  int64_t ColsOf(int64_t strip) const {
    return std::min(strip_cols_, num_cols_ - strip * strip_cols_);
  }
  // Pixels that one call of the kernel takes, at most.
  int64_t MostTerms() const {
    return std::clamp<int64_t>(kPartBytes / int64_t{sizeof(Compute)} / strip_cols_, kFewestTerms,
                               kBlockTerms);
  }
  // Whole vectors. Single threads have one strip.
  int64_t StripCols() const {
    constexpr int64_t kTasksPerThread = 2, kLeastVectors = 4;
    const int64_t runs = CeilDiv(std::ssize(blocks_), kRunBlocks);
    const int64_t wanted = num_threads_ == 1 ? 1 : CeilDiv(kTasksPerThread * num_threads_, runs);
    const int64_t most = CeilDiv(num_cols_, kLeastVectors * kernels_.lanes);
    return RoundUp(CeilDiv(num_cols_, std::min(wanted, most)), kernels_.lanes);
  }
  void AddRun(const ConvArgs& args, int64_t run, int64_t strip, Compute* chains,
              double* sums) const;
  void Finish(const ConvArgs& args, int64_t strip, double* total) const;

  const ConvGeometry geometry_;
  const int num_threads_;
  const FewRowsKernels<Compute>& kernels_;
  const bool rows_are_inputs_;
  const int64_t num_rows_, num_cols_;
  const std::vector<PixelBlock> blocks_;
  const int64_t strip_cols_;
  const UnitFolds<Compute> folds_;
  std::vector<FewRow> rows_;  // of all
};

template <class Compute>
Work FewChannelsPlan<Compute>::CountWork() const {
  const double calls =
      Product(geometry_.batch, geometry_.out_h, geometry_.out_w) / static_cast<double>(MostTerms());
  const double blocks = Product(std::ssize(blocks_));
  Work work;
  AddProducts(work, kernels_, calls, {num_rows_, num_cols_, MostTerms()});
  work.Add(WorkKind::kFold, blocks * Product(num_rows_, CeilDiv(num_cols_, kernels_.lanes)));
  work.Add(WorkKind::kCall, Product(NumStrips()) * calls);
  work.Add(WorkKind::kTask, Product(NumStrips(), CeilDiv(std::ssize(blocks_), kRunBlocks)));
  return work;
}

template <class Compute>
void FewChannelsPlan<Compute>::AddRun(const ConvArgs& args, int64_t run, int64_t strip,
                                      Compute* chains, double* sums) const {
  const DepthwiseKernels<Compute>& folds = args.kernels.Depthwise<Compute>();
  const auto* input = static_cast<const Compute*>(args.input);
  const auto* out_backprop = static_cast<const Compute*>(args.out_backprop);
  const Compute* const few = rows_are_inputs_ ? input : out_backprop;
  const Compute* const many = (rows_are_inputs_ ? out_backprop : input) + strip * strip_cols_;
  FewRowsArgs<Compute> part{};
  part.a_step = num_rows_;
  part.b_step = num_cols_;
  part.rows = rows_.data();
  part.num_rows = num_rows_;
  part.num_cols = ColsOf(strip);
  part.sums = chains;
  const int64_t most_terms = MostTerms();
  std::fill_n(sums, folds_.Size(), 0.0);
  std::fill_n(chains, NumSums(), Compute{0});
  const int64_t end = std::min<int64_t>(std::ssize(blocks_), (run + 1) * kRunBlocks);
  for (int64_t i = run * kRunBlocks; i < end; ++i) {
    const PixelBlock& block = blocks_[static_cast<size_t>(i)];
    int64_t pixel =
        (block.image_begin * geometry_.out_h + block.row_begin) * geometry_.out_w + block.col_begin;
    for (int64_t left = block.num_pixels(); left > 0; left -= part.num_terms) {
      part.num_terms = std::min(left, most_terms);
      part.a = few + pixel * num_rows_;
      part.b = many + pixel * num_cols_;
      kernels_.run(part);
      pixel += part.num_terms;
    }
    folds.fold_block(chains, sums, folds_.Errors(sums), NumSums());
  }
}

template <class Compute>
void FewChannelsPlan<Compute>::Finish(const ConvArgs& args, int64_t strip, double* total) const {
  AlignedArray<Compute> sums(NumSums());
  args.kernels.Depthwise<Compute>().finish(total, folds_.Errors(total), sums.data(), NumSums(),
                                           /*round_to_odd=*/false);
  auto* result = static_cast<Compute*>(args.result);
  const int64_t first = strip * strip_cols_, cols = ColsOf(strip);
  if (rows_are_inputs_) {
    for (int64_t i = 0; i < num_rows_; ++i) {
      std::copy_n(sums.data() + i * strip_cols_, cols, result + i * num_cols_ + first);
    }
  } else {
    args.kernels.Pack<Compute>().transpose_narrow(sums.data(), strip_cols_,
                                                  result + first * num_rows_, num_rows_, num_rows_,
                                                  cols, /*ahead=*/0);
  }
}

template <class Compute>
bool FewChannelsPlan<Compute>::Run(const ConvArgs& args) const {
  const int64_t strips = NumStrips(), size = folds_.Size();
  PerThread<AlignedArray<Compute>> chains(args.parallel);
  folds_.Run(
      args.kernels.Depthwise<Compute>(),
      [&](int64_t first, int64_t num_runs, double* sums) {
        args.parallel.For(num_runs * strips, [&](int64_t i) {
          AddRun(args, first + i / strips, i % strips, chains.Own(NumSums()).data(),
                 sums + i * size);
        });
      },
      [&](int64_t strip, double* total) { Finish(args, strip, total); });
  return true;
}

// Pixels of several rows come from the caches: from memory others fetch them sooner.
bool CanTakeFewChannels(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const int64_t few = std::min(g.in_c, g.out_c);
  return HasFewRowsKernel(kernels) && IsStoredAsComputed(problem.dtype) &&
         InfoOf(problem.op).direction == Direction::kBackpropFilter &&
         problem.data_format == DataFormat::kNHWC && problem.ValidTerms() > 0 && g.groups == 1 &&
         KeepsPixels(g) && CanListPixelBlocks(g) && few <= kMostRows &&
         (few == 1 || CachesHold(problem.OperandBytes(), 1));
}

}  // namespace

const Algorithm kConv2DFilterFewChannels = {
    .name = "few-channels",
    .summary = "filter gradient of 1x1 in NHWC with few channels on one side",
    .can = CanTakeFewChannels,
    .plan = PlanComputed<FewChannelsPlan>,
};

}  // namespace convgrad
