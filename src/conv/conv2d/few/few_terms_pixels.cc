// Each pixel of the result is written once, its channels one after the other, so that its lines are
// whole before they leave the first cache, or go around the caches.
#include "conv/conv2d/few/few_terms_pixels.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/tap_sum.h"
#include "conv/conv2d/few/few_rows.h"
#include "conv/move/stream_result.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

// The pixels of the result, and how far apart are those of the source that they meet.
struct MetPixels {
  int64_t images, rows, cols;
  int64_t image_step, row_step, col_step;  // in numbers
};

// Pixels are columns of one row if the result has as many as the source.
MetPixels MetPixelsOf(const TapSum& sum) {
  if (sum.source_h == sum.result_h && sum.source_w == sum.result_w) {
    return {1, 1, sum.batch * sum.result_h * sum.result_w, 0, 0, sum.source_c};
  }
  const int64_t row = sum.source_w * sum.source_c;
  return {sum.batch,
          sum.result_h,
          sum.result_w,
          sum.source_h * row,
          sum.row_phases.front().source_step * row,
          sum.col_phases.front().source_step * sum.source_c};
}

// Pixels of so many bytes begin at the same places of pages: halves of their lines are written
// slower together than pixel by pixel, where each meets all of the filter.
bool PixelsCrowd(int64_t bytes, const KernelTable& kernels) {
  constexpr int64_t kFewPlaces = 2048;
  return kernels.vector_bytes < kLineBytes && bytes % kFewPlaces == 0;
}

template <class Compute>
class FewTermsOfPixelsPlan final : public Plan {
 public:
  FewTermsOfPixelsPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t ScratchBytes() const override { return TurnedElements() * int64_t{sizeof(Compute)}; }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} strips of {}x{} pixels", NumStrips(), strip_rows_, strip_cols_);
  }
  bool Run(const ConvArgs& args) const override;

 private:
  // An input gradient's filter, as a row of the result's channels for each term.
  int64_t TurnedElements() const { return sum_.forward ? 0 : terms_ * channels_; }
  int64_t NumPixels() const { return pixels_.images * pixels_.rows * pixels_.cols; }
  int64_t StripsOfRows() const { return CeilDiv(pixels_.rows, strip_rows_); }
  int64_t StripsOfCols() const { return CeilDiv(pixels_.cols, strip_cols_); }
  int64_t NumStrips() const { return pixels_.images * StripsOfRows() * StripsOfCols(); }
  void CutStrips(int num_threads);

  const TapSum sum_;
  const FewRowsKernels<Compute>& kernels_;
  const MetPixels pixels_;
  const int64_t terms_, channels_;  // channels of the source and of the result
  const bool pixel_by_pixel_;
  int64_t strip_rows_, strip_cols_;
  std::vector<FewRow> rows_;  // of a strip
};

template <class Compute>
FewTermsOfPixelsPlan<Compute>::FewTermsOfPixelsPlan(const Problem& problem,
                                                    const KernelTable& table, int num_threads)
    : sum_(problem),
      kernels_(table.FewRows<Compute>()),
      pixels_(MetPixelsOf(sum_)),
      terms_(sum_.source_c),
      channels_(sum_.result_c),
      pixel_by_pixel_(PixelsCrowd(channels_ * int64_t{sizeof(Compute)}, table)) {
  CutStrips(num_threads);
  for (int64_t i = 0; i < strip_rows_ * strip_cols_; ++i) {
    rows_.push_back(
        {i / strip_cols_ * pixels_.row_step + i % strip_cols_ * pixels_.col_step, i * channels_});
  }
}

// A strip is of some rows, or of a part of one, in whole tiles; each thread has one.
template <class Compute>
void FewTermsOfPixelsPlan<Compute>::CutStrips(int num_threads) {
  constexpr int64_t kSourceBytes = int64_t{8} << 10;  // a task's
  const int64_t cached = kSourceBytes / int64_t{sizeof(Compute)} / terms_;
  const int64_t strip = std::clamp<int64_t>(CeilDiv(NumPixels(), num_threads), 1, cached);
  strip_rows_ = std::clamp<int64_t>(strip / pixels_.cols, 1, pixels_.rows);
  strip_cols_ = std::min(pixels_.cols, RoundUp(strip, std::ssize(kernels_.tiles)));
}

template <class Compute>
Work FewTermsOfPixelsPlan<Compute>::CountWork() const {
  Work work;
  AddProducts(work, kernels_, 1, {NumPixels(), channels_, terms_});
  work.Add(WorkKind::kTransposed, Product(TurnedElements(), sizeof(Compute)) / 4);
  work.Add(WorkKind::kCall, Product(pixel_by_pixel_ ? NumPixels() : NumStrips()));
  work.Add(WorkKind::kTask, Product(NumStrips()));
  return work;
}

template <class Compute>
bool FewTermsOfPixelsPlan<Compute>::Run(const ConvArgs& args) const {
  const auto* source = static_cast<const Compute*>(args.Source(sum_.forward));
  const auto* filter = static_cast<const Compute*>(args.filter);
  auto* result = static_cast<Compute*>(args.result);
  AlignedArray<Compute> turned(TurnedElements());
  if (!sum_.forward) {
    args.kernels.Pack<Compute>().transpose_widen(filter, terms_, turned.data(), channels_,
                                                 channels_, terms_, /*ahead=*/0);
    filter = turned.data();
  }
  const bool streams =
      !PaysToCache(args.problem, args.parallel.num_threads()) &&
      PaysToStream(result, args.problem.ResultBytes(), channels_ * int64_t{sizeof(Compute)});
  args.parallel.For(NumStrips(), [&](int64_t i) {
    const int64_t col = i % StripsOfCols() * strip_cols_;
    const int64_t row = i / StripsOfCols() % StripsOfRows() * strip_rows_;
    const int64_t image = i / StripsOfCols() / StripsOfRows();
    FewRowsArgs<Compute> strip{};
    strip.a = source + image * pixels_.image_step + row * pixels_.row_step + col * pixels_.col_step;
    strip.a_step = 1;
    strip.b = filter;
    strip.b_step = channels_;
    strip.num_terms = terms_;
    strip.num_cols = channels_;
    strip.sums = result + ((image * pixels_.rows + row) * pixels_.cols + col) * channels_;
    strip.begins = strip.ends = true;
    strip.streams = streams;
    const int64_t count =
        std::min(strip_rows_, pixels_.rows - row) * std::min(strip_cols_, pixels_.cols - col);
    strip.num_rows = pixel_by_pixel_ ? 1 : count;
    for (int64_t first = 0; first < count; first += strip.num_rows) {
      strip.rows = rows_.data() + first;
      kernels_.run(strip);
    }
    if (streams) std::atomic_thread_fence(std::memory_order_seq_cst);
  });
  return true;
}

// True if each position meets one of the source, the first one the first.
bool MeetsOneEach(const std::vector<AxisPhase>& phases, int64_t source_size) {
  if (phases.size() != 1) return false;
  const AxisPhase& phase = phases.front();
  return phase.taps.size() == 1 && phase.source_first + phase.offsets.front() == 0 &&
         (phase.count - 1) * phase.source_step < source_size;
}

// Writing a pixel of some lines is what takes time, most of all where panels of
// channels, of vectors shorter than a line, would write parts of lines to memory. Of more terms, or
// of a filter that leaves the cache it is met in, a packed filter is quicker.
bool HasFewTermsForPixels(const Problem& problem, const TapSum& sum, const KernelTable& kernels) {
  constexpr int64_t kFewestPixelBytes = 192;
  constexpr int64_t kMostTerms = 32, kMostFarTerms = 96;
  constexpr int64_t kMostFilterBytes = int64_t{128} << 10;
  const bool short_vectors = kernels.vector_bytes < kLineBytes;
  const bool far = short_vectors && problem.ResultBytes() >= kTensorsLeaveTheCaches;
  const int64_t pixel_bytes = sum.result_c * InfoOf(problem.dtype).bytes;
  const bool near_filter = !short_vectors || PixelsCrowd(pixel_bytes, kernels);
  return sum.source_c <= (far ? kMostFarTerms : kMostTerms) && pixel_bytes >= kFewestPixelBytes &&
         sum.source_c * pixel_bytes <= (near_filter ? kFirstCacheBytes : kMostFilterBytes);
}

}  // namespace

bool CanTakeFewTermsOfPixels(const Problem& problem, const KernelTable& kernels) {
  const TapSum sum(problem);
  return sum.groups == 1 && sum.kernel_h * sum.kernel_w == 1 &&
         MeetsOneEach(sum.row_phases, sum.source_h) && MeetsOneEach(sum.col_phases, sum.source_w) &&
         HasFewTermsForPixels(problem, sum, kernels);
}

std::unique_ptr<Plan> PlanFewTermsOfPixels(const Problem& problem, const KernelTable& kernels,
                                           int num_threads) {
  return PlanComputed<FewTermsOfPixelsPlan>(problem, kernels, num_threads);
}

}  // namespace convgrad
