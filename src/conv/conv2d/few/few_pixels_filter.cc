// Filter gradients of 1x1 filters that few pixels meet: what takes time is to write the result, so
// that happens once, row by row, and nothing is packed to make tiles of so few terms. Pixels that
// share few sets of the caches are copied first: every tile reads all of them. So are those of a
// 16-bit type, widened; their sums are narrowed strip by strip.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/range.h"
#include "conv/axes/flattened.h"
#include "conv/conv2d/few/algorithms.h"
#include "conv/conv2d/few/few_pixels_cut.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/staging.h"
#include "conv/move/stream_result.h"
#include "conv/move/swap_pairs.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

// A task's rows of the result: so many, or more of a result of few columns.
constexpr int64_t kFewestRows = 32, kPartBytes = int64_t{32} << 10;
constexpr int64_t kColumnsBytes = int64_t{16} << 10;  // of out_backprop, in the first cache
constexpr int64_t kNarrowedCols = 256;                // of sums, near until they are narrowed

template <class Stored>
class FewPixelsFilterPlan final : public Plan {
 public:
  using Compute = ComputeType<Stored>;

  FewPixelsFilterPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t ScratchBytes() const override {
    return (OutputElements() + num_threads_ * (InputElements() + NumSums())) *
           int64_t{sizeof(Compute)};
  }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} pixels, {} parts of {} input channels, strips of {} output channels",
                       pixels_, NumTasks(), part_rows_, strip_cols_);
  }
  bool Run(const ConvArgs& args) const override;

 private:
  static constexpr bool kConverts = !std::is_same_v<Stored, Compute>;

  // A thread's copies: of a task's input channels, and of sums before they are narrowed.
  struct Scratch {
    explicit Scratch(const FewPixelsFilterPlan& plan)
        : input(plan.InputElements()), sums(plan.NumSums()) {}

    AlignedArray<Compute> input, sums;
  };

  int64_t NumParts() const { return CeilDiv(geometry_.group_in_c, part_rows_); }
  int64_t NumTasks() const { return geometry_.groups * NumParts(); }
  int64_t Plane() const { return geometry_.out_h * geometry_.out_w; }
  // True of more pixels than a set has lines, so far apart that they meet in few sets.
  bool Crowd(int64_t channels) const {
    constexpr int64_t kLinesOfSet = 8;
    return pixels_ > kLinesOfSet && StagedPixel<Compute>(channels) != channels;
  }
  // Numbers of the copies: of out_backprop, and of a task's input channels.
  int64_t OutputElements() const { return copies_output_ ? pixels_ * output_pixel_ : 0; }
  int64_t InputElements() const { return copies_input_ ? pixels_ * input_pixel_ : 0; }
  int64_t NumSums() const { return kConverts ? std::ssize(rows_) * strip_cols_ : 0; }
  // Pairs of pixels of a row are put into ascending order.
  void SwapPixels(Compute* copy, int64_t runs, int64_t pixel) const {
    if (in_pairs_) SwapPairs(pack_, copy, runs, geometry_.out_w, pixel);
  }
  bool StreamsResult(const ConvArgs& args) const;
  void CopyOutput(const Stored* from, Compute* to) const;
  void CopyInput(const Stored* from, const Range& rows, Compute* to) const;
  void RunPart(const ConvArgs& args, const Compute* out_backprop, int64_t group, const Range& rows,
               Scratch& scratch) const;

  const ConvGeometry geometry_;
  const int num_threads_;
  const bool planar_;  // NCHW: out_backprop is transposed, and images are taken one by one
  const bool in_pairs_;
  const FewRowsKernels<Compute>& kernels_;
  const PackKernels<Stored>& pack_;
  const int64_t pixels_, strip_cols_, part_rows_;
  const bool copies_input_, copies_output_;
  const int64_t input_pixel_, output_pixel_;  // from one to the next, as tiles read them
  std::vector<FewRow> rows_;                  // of a task
};

template <class Stored>
FewPixelsFilterPlan<Stored>::FewPixelsFilterPlan(const Problem& problem, const KernelTable& table,
                                                 int num_threads)
    : geometry_(problem.geometry),
      num_threads_(num_threads),
      planar_(problem.data_format == DataFormat::kNCHW),
      in_pairs_(TermsInPairs(problem)),
      kernels_(table.FewRows<Compute>()),
      pack_(table.Pack<Stored>()),
      pixels_(geometry_.batch * Plane()),
      strip_cols_(
          std::min({geometry_.group_out_c,
                    RoundUp(kColumnsBytes / int64_t{sizeof(Compute)} / pixels_, kernels_.lanes),
                    kConverts ? kNarrowedCols : geometry_.group_out_c})),
      part_rows_(
          std::max(kFewestRows, kPartBytes / int64_t{sizeof(Compute)} / geometry_.group_out_c)),
      copies_input_(kConverts || (!planar_ && Crowd(geometry_.in_c))),
      copies_output_(kConverts || planar_ || Crowd(geometry_.out_c)),
      input_pixel_(copies_input_ ? StagedPixel<Compute>(std::min(part_rows_, geometry_.group_in_c))
                                 : geometry_.in_c),
      output_pixel_(copies_output_ ? StagedPixel<Compute>(geometry_.out_c) : geometry_.out_c) {
  for (int64_t i = 0; i < std::min(part_rows_, geometry_.group_in_c); ++i) {
    rows_.push_back({i * (planar_ ? Plane() : 1), i * (kConverts ? strip_cols_ : geometry_.out_c)});
  }
}

template <class Stored>
Work FewPixelsFilterPlan<Stored>::CountWork() const {
  const ConvGeometry& g = geometry_;
  const int64_t calls = planar_ ? g.batch : 1;
  Work work;
  AddProducts(work, kernels_, Product(g.groups, calls),
              {g.group_in_c, g.group_out_c, pixels_ / calls});
  work.Add(WorkKind::kCall, Product(NumTasks(), calls, CeilDiv(g.group_out_c, strip_cols_)));
  constexpr double kStored = sizeof(Compute) / 4.0;
  if (copies_output_) {
    work.Add(planar_ ? WorkKind::kTransposed : WorkKind::kCopied,
             kStored * Product(pixels_, g.out_c));
  }
  if (copies_input_) work.Add(WorkKind::kCopied, kStored * Product(pixels_, g.in_c));
  if (kConverts) work.Add(WorkKind::kCopied, kCopiedNear<Stored> * Product(g.in_c, g.group_out_c));
  work.Add(WorkKind::kTask, Product(NumTasks()));
  return work;
}

// The copy holds all channels of a pixel side by side.
template <class Stored>
void FewPixelsFilterPlan<Stored>::CopyOutput(const Stored* from, Compute* to) const {
  const int64_t channels = geometry_.out_c;
  if (!planar_) pack_.copy_widen(from, channels, to, output_pixel_, pixels_, channels);
  for (int64_t pixel = 0; planar_ && pixel < pixels_; pixel += Plane()) {
    pack_.transpose_widen(from + pixel * channels, Plane(), to + pixel * output_pixel_,
                          output_pixel_, channels, Plane(), /*ahead=*/0);
  }
  SwapPixels(to, pixels_ / geometry_.out_w, output_pixel_);
}

// The copy of some channels lies like them: pixel by pixel, or image by image in planes.
template <class Stored>
void FewPixelsFilterPlan<Stored>::CopyInput(const Stored* from, const Range& rows,
                                            Compute* to) const {
  if (!planar_) {
    pack_.copy_widen(from, geometry_.in_c, to, input_pixel_, pixels_, rows.size());
    SwapPixels(to, pixels_ / geometry_.out_w, input_pixel_);
    return;
  }
  const int64_t numbers = rows.size() * Plane();
  for (int64_t pixel = 0; pixel < pixels_; pixel += Plane(), to += input_pixel_ * Plane()) {
    pack_.widen(from + pixel * geometry_.in_c, to, numbers);
    SwapPixels(to, numbers / geometry_.out_w, 1);
  }
}

// True of sums that one call finishes, in rows of whole lines, where the caches don't hold them;
// not of so few terms that memory would take longer than what the last cache still keeps.
template <class Stored>
bool FewPixelsFilterPlan<Stored>::StreamsResult(const ConvArgs& args) const {
  constexpr int64_t kFewTerms = 4;
  const int64_t bytes = args.problem.ResultBytes();
  return !kConverts && pixels_ > kFewTerms && !(planar_ && geometry_.batch > 1) &&
         !CachesHold(args.problem, num_threads_) &&
         PaysToStream(args.result, bytes, geometry_.group_out_c * int64_t{sizeof(Stored)});
}

template <class Stored>
void FewPixelsFilterPlan<Stored>::RunPart(const ConvArgs& args, const Compute* out_backprop,
                                          int64_t group, const Range& rows,
                                          Scratch& scratch) const {
  const ConvGeometry& g = geometry_;
  const int64_t images = planar_ ? g.batch : 1;
  const auto* input = static_cast<const Stored*>(args.input) +
                      (group * g.group_in_c + rows.begin) * (planar_ ? Plane() : 1);
  if (copies_input_) CopyInput(input, rows, scratch.input.data());
  FewRowsArgs<Compute> part{};
  part.a_step = planar_ ? 1 : input_pixel_;
  part.b_step = output_pixel_;
  part.num_terms = pixels_ / images;
  part.rows = rows_.data();
  part.num_rows = rows.size();
  part.streams = StreamsResult(args);
  const Compute* numbers = scratch.input.data();
  if constexpr (!kConverts) {
    if (!copies_input_) numbers = input;
  }
  for (int64_t first = 0; first < g.group_out_c; first += strip_cols_) {
    const int64_t column = group * g.group_out_c + first;
    part.num_cols = std::min(strip_cols_, g.group_out_c - first);
    Stored* const to = static_cast<Stored*>(args.result) + rows.begin * g.out_c + column;
    if constexpr (kConverts) {
      part.sums = scratch.sums.data();
    } else {
      part.sums = to;
    }
    for (int64_t image = 0; image < images; ++image) {
      part.a = numbers + image * input_pixel_ * Plane();
      part.b = out_backprop + image * Plane() * output_pixel_ + column;
      part.begins = image == 0;
      part.ends = image + 1 == images;
      kernels_.run(part);
    }
    if (part.streams) std::atomic_thread_fence(std::memory_order_seq_cst);
    for (int64_t i = 0; kConverts && i < part.num_rows; ++i) {
      pack_.narrow(part.sums + i * strip_cols_, to + i * g.out_c, part.num_cols);
    }
  }
}

template <class Stored>
bool FewPixelsFilterPlan<Stored>::Run(const ConvArgs& args) const {
  const auto* output = static_cast<const Stored*>(args.out_backprop);
  AlignedArray<Compute> copy(OutputElements());
  if (copies_output_) CopyOutput(output, copy.data());
  const Compute* out_backprop = copy.data();
  if constexpr (!kConverts) {
    if (!copies_output_) out_backprop = output;
  }
  PerThread<Scratch> scratches(args.parallel);
  args.parallel.For(NumTasks(), [&](int64_t i) {
    const int64_t first = i % NumParts() * part_rows_;
    RunPart(args, out_backprop, i / NumParts(),
            {first, std::min(first + part_rows_, geometry_.group_in_c)}, scratches.Own(*this));
  });
  return true;
}

// Pixels stay where they are, and all are one block.
bool CanTakeFilter(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  return HasFewRowsKernel(kernels) && InfoOf(problem.op).direction == Direction::kBackpropFilter &&
         problem.ValidTerms() > 0 && KeepsPixels(g) &&
         Product(g.batch, g.out_h, g.out_w) <= double{kFewPixels};
}

}  // namespace

const Algorithm kConv2DFilterFewPixels = {
    .name = "few-pixels",
    .summary = "filter gradient of 1x1 filters that few pixels meet, written once, row by row",
    .can = CanTakeFilter,
    .plan = PlanStored<FewPixelsFilterPlan>,
};

}  // namespace convgrad
