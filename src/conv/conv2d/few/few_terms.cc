// Forward convolutions and input gradients of 1x1 filters whose sums have few terms: what takes
// time is to read the source and to write the result, so both happen once, where they lie. In NCHW
// rows of the product are channels of the result, columns pixels of a plane; for NHWC see
// few_terms_pixels.h.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/flattened.h"
#include "conv/axes/tap_sum.h"
#include "conv/conv2d/few/algorithms.h"
#include "conv/conv2d/few/few_terms_pixels.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/stream_result.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

constexpr int64_t kStripBytes = int64_t{16} << 10;  // of the source, in the first cache
constexpr int64_t kPartChannels = 64;               // of the result, a task's

int64_t TermsOfSum(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return InfoOf(problem.op).direction == Direction::kForward ? g.group_in_c : g.group_out_c;
}

template <class Compute>
class FewTermsPlan final : public Plan {
 public:
  FewTermsPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t ScratchBytes() const override { return 0; }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} parts of {} channels by {} pixels", NumTasks(), part_channels_,
                       strip_pixels_);
  }
  bool Run(const ConvArgs& args) const override;

 private:
  int64_t NumParts() const { return CeilDiv(channels_, part_channels_); }
  int64_t NumStrips() const { return CeilDiv(plane_, strip_pixels_); }
  int64_t NumTasks() const { return images_ * groups_ * NumParts() * NumStrips(); }
  int64_t StripPixels(int num_threads) const;

  const bool forward_;
  const FewRowsKernels<Compute>& kernels_;
  const int64_t images_, plane_, groups_;
  const int64_t terms_, channels_;  // of a group: those of the source and of the result
  const int64_t outputs_;           // of the filter
  const bool near_;                 // all tensors; see KernelTable
  const int64_t part_channels_, strip_pixels_;
  std::vector<FewRow> rows_;  // of a part
};

template <class Compute>
FewTermsPlan<Compute>::FewTermsPlan(const Problem& problem, const KernelTable& table,
                                    int num_threads)
    : forward_(InfoOf(problem.op).direction == Direction::kForward),
      kernels_(table.FewRows<Compute>()),
      images_(problem.geometry.batch),
      plane_(problem.geometry.out_h * problem.geometry.out_w),
      groups_(problem.geometry.groups),
      terms_(TermsOfSum(problem)),
      channels_(forward_ ? problem.geometry.group_out_c : problem.geometry.group_in_c),
      outputs_(problem.geometry.out_c),
      near_(problem.OperandBytes() + problem.ResultBytes() <= table.near_bytes * num_threads),
      part_channels_(std::min(channels_, kPartChannels)),
      strip_pixels_(StripPixels(num_threads)) {
  for (int64_t i = 0; i < part_channels_; ++i) {
    rows_.push_back({forward_ ? i : i * outputs_, i * plane_});
  }
}

// A strip is of whole tiles and lines, and leaves each thread a task.
template <class Compute>
int64_t FewTermsPlan<Compute>::StripPixels(int num_threads) const {
  const int64_t cached = kStripBytes / int64_t{sizeof(Compute)} / terms_;
  const int64_t threads = CeilDiv(num_threads, images_ * groups_ * NumParts());
  const int64_t pixels = std::min(cached, CeilDiv(plane_, threads));
  return std::min(plane_, RoundUp(pixels, 3 * kLineBytes / int64_t{sizeof(Compute)}));
}

// Each line of a source that is not near takes its time, which vectors of whole lines, quick as
// they are, don't hide.
template <class Compute>
Work FewTermsPlan<Compute>::CountWork() const {
  Work work;
  AddProducts(work, kernels_, Product(images_, groups_), {channels_, plane_, terms_});
  if (HasLineVectors(kernels_) && !near_) {
    const int64_t lines = CeilDiv(plane_, kernels_.lanes);
    work.Add(WorkKind::kFarLine, Product(images_, groups_, terms_, lines));
  }
  work.Add(WorkKind::kCall, Product(NumTasks()));
  work.Add(WorkKind::kTask, Product(NumTasks()));
  return work;
}

template <class Compute>
bool FewTermsPlan<Compute>::Run(const ConvArgs& args) const {
  const auto* source = static_cast<const Compute*>(args.Source(forward_));
  const auto* filter = static_cast<const Compute*>(args.filter);
  auto* result = static_cast<Compute*>(args.result);
  const bool streams =
      !PaysToCache(args.problem, args.parallel.num_threads()) &&
      PaysToStreamPlanes(result, args.problem.ResultBytes(), plane_ * int64_t{sizeof(Compute)},
                         args.kernels.vector_bytes);
  args.parallel.For(NumTasks(), [&](int64_t i) {
    const int64_t pixel = i % NumStrips() * strip_pixels_;
    const int64_t first = i / NumStrips() % NumParts() * part_channels_;
    const int64_t image_group = i / NumStrips() / NumParts(), group = image_group % groups_;
    FewRowsArgs<Compute> part{};
    part.a = filter + (forward_ ? group * channels_ + first : first * outputs_ + group * terms_);
    part.a_step = forward_ ? outputs_ : 1;
    part.b = source + image_group * terms_ * plane_ + pixel;
    part.b_step = plane_;
    part.num_terms = terms_;
    part.num_cols = std::min(strip_pixels_, plane_ - pixel);
    part.rows = rows_.data();
    part.num_rows = std::min(part_channels_, channels_ - first);
    part.sums = result + (image_group * channels_ + first) * plane_ + pixel;
    part.begins = part.ends = true;
    part.streams = streams;
    kernels_.run(part);
    if (streams) std::atomic_thread_fence(std::memory_order_seq_cst);
  });
  return true;
}

// A strip reads as many planes as sums have terms: many of them where all are near, else few, which
// the machine fetches by itself; some more where the result goes around the caches by vectors
// shorter than a line, of which other forms write one line at a time.
bool HasFewTermsOfPlanes(const Problem& problem, const KernelTable& kernels) {
  constexpr int64_t kMostTerms = 16, kMostStreamedTerms = 48, kMostNearTerms = 64;
  constexpr int64_t kNearBytes = int64_t{2} << 20;
  const int64_t terms = TermsOfSum(problem);
  if (terms <= kMostTerms) return true;
  if (problem.OperandBytes() + problem.ResultBytes() <= kNearBytes) return terms <= kMostNearTerms;
  const ConvGeometry& g = problem.geometry;
  const int64_t plane_bytes = g.out_h * g.out_w * InfoOf(problem.dtype).bytes;
  return terms <= kMostStreamedTerms && kernels.vector_bytes < kLineBytes &&
         PaysToStreamPlanes(problem.ResultBytes(), plane_bytes, kernels.vector_bytes);
}

// So few terms are one block. Numbers of 16 bits are copied, as im2col does.
bool CanTakeFewTerms(const Problem& problem, const KernelTable& kernels) {
  if (!HasFewRowsKernel(kernels) || !IsStoredAsComputed(problem.dtype)) return false;
  if (!problem.HasTerms() || !TapSum::Describes(problem)) return false;
  if (problem.data_format == DataFormat::kNHWC) return CanTakeFewTermsOfPixels(problem, kernels);
  return KeepsPixels(problem.geometry) && HasFewTermsOfPlanes(problem, kernels);
}

std::unique_ptr<Plan> PlanFewTerms(const Problem& problem, const KernelTable& kernels,
                                   int num_threads) {
  return problem.data_format == DataFormat::kNHWC
             ? PlanFewTermsOfPixels(problem, kernels, num_threads)
             : PlanComputed<FewTermsPlan>(problem, kernels, num_threads);
}

}  // namespace

const Algorithm kConv2DFewTerms = {
    .name = "few-terms",
    .summary = "1x1 filters whose sums have few terms, no data copied",
    .can = CanTakeFewTerms,
    .plan = PlanFewTerms,
};

}  // namespace convgrad
