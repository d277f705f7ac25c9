// Forward convolutions and input gradients whose sums have few terms, under filters of any size. In
// NCHW what some pixels of the result meet is copied as a matrix of terms by pixels that stays in
// the first cache while all channels of the result meet it, so their planes are written once, where
// they lie; for NHWC see few_terms_pixels.h. Padding is multiplied, so a filter with an infinity or
// a NaN goes the other way.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "conv/axes/flattened.h"
#include "conv/axes/tap_sum.h"
#include "conv/conv2d/few/algorithms.h"
#include "conv/conv2d/few/few_terms_pixels.h"
#include "conv/conv2d/few/strip_columns.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/filter_panel.h"
#include "conv/move/special_numbers.h"
#include "conv/move/stream_result.h"
#include "conv/move/swap_pairs.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

constexpr int64_t kColumnBytes = int64_t{40} << 10;  // of a strip
constexpr int64_t kBlockRows = 4;  // channels of the result that lie side by side in the filter

// Pixels of a plane of the result that lie behind each other.
struct Strip {
  int64_t plane_group;  // image x group
  Range pixels;
};

template <class Stored>
class Im2ColPlan final : public Plan {
 public:
  using Compute = ComputeType<Stored>;

  Im2ColPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t ScratchBytes() const override {
    const int64_t of_thread = columns_.ScratchElements() + NumSums();
    return (FilterElements() + num_threads_ * of_thread) * int64_t{sizeof(Compute)};
  }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} strips of {} pixels", NumTasks(), strip_pixels_);
  }
  bool Run(const ConvArgs& args) const override;

 private:
  // 16-bit types are widened with the columns, and sums are narrowed behind each call.
  static constexpr bool kConverts = !std::is_same_v<Stored, Compute>;
  static constexpr int64_t kPartRows = kConverts ? 16 : 64;  // of one call

  struct Scratch {
    explicit Scratch(const Im2ColPlan& plan) : columns(plan.columns_), sums(plan.NumSums()) {}

    typename StripColumns<Stored>::Scratch columns;
    AlignedArray<Compute> sums;  // [row of a part][pixel of a strip], if they are narrowed
  };

  int64_t NumBlocks() const { return CeilDiv(sum_.result_c, kBlockRows); }
  int64_t BlockElements() const { return terms_ * kBlockRows; }
  int64_t FilterElements() const { return sum_.groups * NumBlocks() * BlockElements(); }
  int64_t NumSums() const { return kConverts ? PartRows() * strip_pixels_ : 0; }
  int64_t PartRows() const { return std::min(kPartRows, sum_.result_c); }
  int64_t PlanePixels() const { return sum_.result_h * sum_.result_w; }
  int64_t StripPixels() const;
  int64_t StripsOfPlane() const { return CeilDiv(PlanePixels(), strip_pixels_); }
  int64_t NumTasks() const { return sum_.batch * sum_.groups * StripsOfPlane(); }
  Strip StripAt(int64_t task) const;

  bool StreamsResult(const ConvArgs& args) const;
  void PackFilterBlocks(const ConvArgs& args, Compute* to) const;
  void MultiplyStrip(const Strip& strip, Scratch& scratch, const Compute* filter, Stored* result,
                     bool streams) const;

  const TapSum sum_;
  const FewRowsKernels<Compute>& kernels_;
  const PackKernels<Stored>& pack_;
  const int num_threads_;
  const std::vector<TapPhase> phases_;  // one
  const int64_t terms_;
  const int64_t strip_pixels_;
  const StripColumns<Stored> columns_;
  std::vector<FewRow> rows_;  // of a part of the result's channels
};

template <class Stored>
Im2ColPlan<Stored>::Im2ColPlan(const Problem& problem, const KernelTable& table, int num_threads)
    : sum_(problem),
      kernels_(table.FewRows<Compute>()),
      pack_(table.Pack<Stored>()),
      num_threads_(num_threads),
      phases_(PhasesOf(sum_)),
      terms_(TermsOf(sum_, phases_)),
      strip_pixels_(StripPixels()),
      columns_(sum_, table, strip_pixels_) {
  const int64_t row = kConverts ? strip_pixels_ : PlanePixels();
  for (int64_t i = 0; i < PartRows(); ++i) {
    rows_.push_back({i / kBlockRows * BlockElements() + i % kBlockRows, i * row});
  }
}

// A strip's columns stay in the first cache, with sums that wait to be narrowed. The strips of a
// plane are nearly equal, and of whole vectors but for the last one. Each thread gets some.
template <class Stored>
int64_t Im2ColPlan<Stored>::StripPixels() const {
  const int64_t of_cache =
      kColumnBytes / int64_t{sizeof(Compute)} / (terms_ + (kConverts ? PartRows() : 0));
  const int64_t shared = CeilDiv(sum_.batch * sum_.groups * PlanePixels(), int64_t{num_threads_});
  const int64_t most =
      RoundUp(std::min(std::max(3 * kernels_.lanes, of_cache), shared), kernels_.lanes);
  return RoundUp(CeilDiv(PlanePixels(), CeilDiv(PlanePixels(), most)), kernels_.lanes);
}

template <class Stored>
Strip Im2ColPlan<Stored>::StripAt(int64_t task) const {
  const int64_t begin = task % StripsOfPlane() * strip_pixels_;
  return {task / StripsOfPlane(), {begin, std::min(begin + strip_pixels_, PlanePixels())}};
}

// Columns fill a first cache of 48 KiB, which filter and result pass through, and more than one of
// 32: their lines are counted as if every second one came from the next cache for every block of
// rows.
template <class Stored>
Work Im2ColPlan<Stored>::CountWork() const {
  constexpr double kStored = sizeof(Compute) / 4.0, kLine = kLineBytes / double{sizeof(Compute)};
  const double planes = Product(sum_.batch, sum_.groups);
  const double columns = planes * Product(sum_.result_h, sum_.result_w, terms_);
  Work work;
  AddProducts(work, kernels_, planes, {sum_.result_c, PlanePixels(), terms_});
  work.Add(WorkKind::kFarLine, columns / kLine * Product(NumBlocks()) / 2);
  work.Add(WorkKind::kCopied, kCopiedNear<Stored> * columns);
  if (kConverts) {
    work.Add(WorkKind::kCopied,
             kCopiedNear<Stored> * planes * Product(sum_.result_c, sum_.result_h, sum_.result_w));
  }
  work.Add(WorkKind::kScattered, kStored * Product(FilterElements()));
  work.Add(WorkKind::kCall, Product(NumTasks(), terms_));
  work.Add(WorkKind::kTransposed,
           kStored * Product(NumTasks(), sum_.source_c, columns_.StagedElements()));
  work.Add(WorkKind::kTask, Product(NumTasks()));
  return work;
}

template <class Stored>
void Im2ColPlan<Stored>::PackFilterBlocks(const ConvArgs& args, Compute* to) const {
  ForPanelParts(
      args.parallel, sum_.groups * NumBlocks(), terms_, [&](int64_t i, const Range& terms) {
        const int64_t first = i % NumBlocks() * kBlockRows;
        PackFilter(
            pack_, sum_, phases_, static_cast<const Stored*>(args.filter),
            {i / NumBlocks(), first, std::min(kBlockRows, sum_.result_c - first), kBlockRows},
            terms, to + i * BlockElements());
      });
  if (sum_.in_pairs) {
    SwapPairs(pack_, to, FilterElements() / (sum_.source_c * kBlockRows), sum_.source_c,
              kBlockRows);
  }
}

template <class Stored>
void Im2ColPlan<Stored>::MultiplyStrip(const Strip& strip, Scratch& scratch, const Compute* filter,
                                       Stored* result, bool streams) const {
  const int64_t plane = PlanePixels();
  FewRowsArgs<Compute> product{};
  product.a = filter + strip.plane_group % sum_.groups * NumBlocks() * BlockElements();
  product.a_step = kBlockRows;
  product.b = scratch.columns.matrix.data();
  product.b_step = strip_pixels_;
  product.num_cols = strip.pixels.size();
  product.num_terms = terms_;
  product.rows = rows_.data();
  Stored* to = result + strip.plane_group * sum_.result_c * plane + strip.pixels.begin;
  product.begins = product.ends = true;
  product.streams = streams;
  for (int64_t row = 0; row < sum_.result_c; row += kPartRows, to += kPartRows * plane) {
    product.num_rows = std::min(kPartRows, sum_.result_c - row);
    if constexpr (kConverts) {
      product.sums = scratch.sums.data();
      kernels_.run(product);
      for (int64_t i = 0; i < product.num_rows; ++i) {
        pack_.narrow(product.sums + rows_[static_cast<size_t>(i)].sums, to + i * plane,
                     strip.pixels.size());
      }
    } else {
      product.sums = to;
      kernels_.run(product);
    }
    product.a += kPartRows / kBlockRows * BlockElements();
  }
}

// True of planes that the caches don't hold: each of their lines is written once.
template <class Stored>
bool Im2ColPlan<Stored>::StreamsResult(const ConvArgs& args) const {
  const int64_t bytes = args.problem.ResultBytes();
  return !kConverts && !CachesHold(args.problem, num_threads_) &&
         PaysToStreamPlanes(args.result, bytes, PlanePixels() * int64_t{sizeof(Stored)},
                            args.kernels.vector_bytes);
}

template <class Stored>
bool Im2ColPlan<Stored>::Run(const ConvArgs& args) const {
  const int64_t filter_size = args.problem.NumElements(Role::kFilter);
  if (MeetsPadding(sum_) && !IsFinite<Stored>(args.filter, filter_size)) return false;
  const auto* source = static_cast<const Stored*>(args.Source(sum_.forward));
  auto* result = static_cast<Stored*>(args.result);
  AlignedArray<Compute> filter(FilterElements());
  PackFilterBlocks(args, filter.data());
  const bool streams = StreamsResult(args);
  PerThread<Scratch> scratches(args.parallel);
  args.parallel.For(NumTasks(), [&](int64_t i) {
    Scratch& scratch = scratches.Own(*this);
    const Strip strip = StripAt(i);
    columns_.Gather(strip.pixels,
                    source + strip.plane_group * sum_.source_c * sum_.source_h * sum_.source_w,
                    scratch.columns);
    MultiplyStrip(strip, scratch, filter.data(), result, streams);
    if (streams) std::atomic_thread_fence(std::memory_order_seq_cst);
  });
  return true;
}

bool CanIm2Col(const Problem& problem, const KernelTable& kernels) {
  if (!HasFewRowsKernel(kernels)) return false;
  if (!problem.HasTerms() || !TapSum::Describes(problem)) return false;
  // Nothing is to be copied but what is widened.
  if (KeepsPixels(problem.geometry) && IsStoredAsComputed(problem.dtype)) return false;
  if (problem.data_format == DataFormat::kNHWC) return CanTakeWindowsOfPixels(problem, kernels);
  const TapSum sum(problem);
  if (sum.num_phases() != 1) return false;
  const std::vector<TapPhase> phases = PhasesOf(sum);
  return phases[0].blocks.size() == 1;
}

std::unique_ptr<Plan> PlanIm2Col(const Problem& problem, const KernelTable& kernels,
                                 int num_threads) {
  if (problem.data_format == DataFormat::kNHWC) {
    return PlanFewTermsOfPixels(problem, kernels, num_threads);
  }
  return PlanStored<Im2ColPlan>(problem, kernels, num_threads);
}

}  // namespace

const Algorithm kConv2DIm2Col = {
    .name = "im2col",
    .summary = "few terms: strips of the source as terms by pixels, the result written once",
    .can = CanIm2Col,
    .plan = PlanIm2Col,
    .may_refuse_data = true,
};

}  // namespace convgrad
