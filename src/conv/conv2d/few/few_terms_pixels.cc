// Each pixel of the result is written once, its channels one after the other, so that its lines are
// whole before they leave the first cache, or go around the caches. What it meets is read where it
// lies; of a source with padding, or of a 16-bit type, in a copy of some rows that is widened and
// has zeros for padding.
#include "conv/conv2d/few/few_terms_pixels.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "conv/axes/tap_sum.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/filter_panel.h"
#include "conv/move/special_numbers.h"
#include "conv/move/stream_result.h"
#include "conv/move/swap_pairs.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

// The pixels of the result, and the windows of the source that they meet.
struct Windows {
  int64_t images, rows, cols;
  int64_t first_row, first_col;  // where the first one begins, in the source or before it
  int64_t row_step, col_step;    // from one to the next, in pixels
  int64_t height, width;         // from the first to the last row and column of one
  int64_t source_rows, source_cols;
};

int64_t Reach(const AxisPhase& axis) {
  return axis.offsets.back() - axis.offsets.front() + 1;
}

// Pixels are columns of one row if the result has as many as the source, which they meet one each.
Windows WindowsOf(const TapSum& sum) {
  const AxisPhase &rows = sum.row_phases.front(), &cols = sum.col_phases.front();
  if (sum.kernel_h * sum.kernel_w == 1 && sum.source_h == sum.result_h &&
      sum.source_w == sum.result_w && !MeetsPadding(sum)) {
    const int64_t pixels = sum.batch * sum.result_h * sum.result_w;
    return {1, 1, pixels, 0, 0, 1, 1, 1, 1, 1, pixels};
  }
  return {sum.batch,
          sum.result_h,
          sum.result_w,
          rows.source_first + rows.offsets.front(),
          cols.source_first + cols.offsets.front(),
          rows.source_step,
          cols.source_step,
          Reach(rows),
          Reach(cols),
          sum.source_h,
          sum.source_w};
}

// Pixels of so many bytes begin at the same places of pages: halves of their lines are written
// slower together than pixel by pixel, where each meets all of the filter.
bool PixelsCrowd(int64_t bytes, const KernelTable& kernels) {
  constexpr int64_t kFewPlaces = 2048;
  return kernels.vector_bytes < kLineBytes && bytes % kFewPlaces == 0;
}

template <class Stored>
class FewTermsOfPixelsPlan final : public Plan {
 public:
  using Compute = ComputeType<Stored>;

  FewTermsOfPixelsPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t ScratchBytes() const override {
    return (PackedElements() + num_threads_ * (StagedElements() + MadeElements())) *
           int64_t{sizeof(Compute)};
  }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} strips of {}x{} pixels{}", NumStrips(), strip_rows_, strip_cols_,
                       makes_strips_ ? ", copied" : "");
  }
  bool Run(const ConvArgs& args) const override;

 private:
  static constexpr bool kConverts = !std::is_same_v<Stored, Compute>;

  // Some pixels of some rows of an image of the result.
  struct Strip {
    int64_t image;
    Range rows, cols;
  };

  int64_t NumTaps() const { return phases_.front().num_taps(); }
  int64_t NumTerms() const { return NumTaps() * sum_.source_c; }
  // True where terms of a pixel are listed: those of several taps, or pairs.
  bool HasWindow() const { return NumTaps() > 1 || sum_.in_pairs; }
  // A row of the filter for each term: as it lies, or, of an input gradient or a 16-bit type, and
  // where windows would meet no whole vectors, packed.
  int64_t FilterCols() const {
    return HasWindow() ? RoundUp(channels_, kernels_.lanes) : channels_;
  }
  bool Packs() const { return kConverts || !sum_.forward || FilterCols() != channels_; }
  int64_t PackedElements() const { return Packs() ? NumTerms() * FilterCols() : 0; }
  int64_t NumPixels() const { return windows_.images * windows_.rows * windows_.cols; }
  int64_t StripsOfRows() const { return CeilDiv(windows_.rows, strip_rows_); }
  int64_t StripsOfCols() const { return CeilDiv(windows_.cols, strip_cols_); }
  int64_t NumStrips() const { return windows_.images * StripsOfRows() * StripsOfCols(); }
  // Rows and columns of the source that so many of a strip meet.
  int64_t SourceRows(int64_t rows) const {
    return (rows - 1) * windows_.row_step + windows_.height;
  }
  int64_t SourceCols(int64_t cols) const { return (cols - 1) * windows_.col_step + windows_.width; }
  // A strip's source, if it is copied.
  int64_t StagedElements() const { return stages_ ? SourceRows(strip_rows_) * RowElements() : 0; }
  // A strip's results, if they are not made where they lie.
  int64_t MadeElements() const { return makes_strips_ ? strip_rows_ * strip_cols_ * channels_ : 0; }
  // Windows are read with so many numbers from one row of the source to the next.
  int64_t RowElements() const {
    return (stages_ ? SourceCols(strip_cols_) : windows_.source_cols) * sum_.source_c;
  }
  bool StreamsStrips(const Problem& problem, const KernelTable& table) const;
  void CutStrips(int num_threads);
  void ListTerms();
  Strip StripAt(int64_t task) const;
  const Compute* FilterRows(const ConvArgs& args, Compute* packed) const;
  const Compute* WindowsOfStrip(const Strip& strip, const Stored* source, Compute* staged) const;

  const TapSum sum_;
  const std::vector<TapPhase> phases_;  // one
  const FewRowsKernels<Compute>& kernels_;
  const PackKernels<Stored>& pack_;
  const Windows windows_;
  const int num_threads_;
  const int64_t channels_;  // of the result
  const bool stages_;       // the source, widened and with its padding
  const bool pixel_by_pixel_;
  const bool makes_strips_;  // in a thread's memory, to be narrowed, or copied around the caches
  int64_t strip_rows_, strip_cols_;
  std::vector<FewRow> rows_;     // of a strip
  std::vector<int64_t> window_;  // where a pixel's terms are, if it meets more than one tap
};

template <class Stored>
FewTermsOfPixelsPlan<Stored>::FewTermsOfPixelsPlan(const Problem& problem, const KernelTable& table,
                                                   int num_threads)
    : sum_(problem),
      phases_(PhasesOf(sum_)),
      kernels_(table.FewRows<Compute>()),
      pack_(table.Pack<Stored>()),
      windows_(WindowsOf(sum_)),
      num_threads_(num_threads),
      channels_(sum_.result_c),
      stages_(kConverts || MeetsPadding(sum_)),
      pixel_by_pixel_(PixelsCrowd(channels_ * int64_t{sizeof(Compute)}, table)),
      makes_strips_(kConverts || StreamsStrips(problem, table)) {
  CutStrips(num_threads);
  for (int64_t i = 0; i < strip_rows_ * strip_cols_; ++i) {
    const int64_t row = i / strip_cols_ * windows_.row_step;
    const int64_t col = i % strip_cols_ * windows_.col_step;
    rows_.push_back({row * RowElements() + col * sum_.source_c, i * channels_});
  }
  if (HasWindow()) ListTerms();
}

template <class Stored>
void FewTermsOfPixelsPlan<Stored>::ListTerms() {
  const std::vector<int64_t>& rows = sum_.row_phases.front().offsets;
  const std::vector<int64_t>& cols = sum_.col_phases.front().offsets;
  for (const int64_t row : rows) {
    for (const int64_t col : cols) {
      const int64_t tap =
          (row - rows.front()) * RowElements() + (col - cols.front()) * sum_.source_c;
      for (int64_t channel = 0; channel < sum_.source_c; ++channel) {
        window_.push_back(tap + (sum_.in_pairs ? SwappedPlace(channel, sum_.source_c) : channel));
      }
    }
  }
}

// True where pixels are no whole lines, which kernels cannot write around the caches one by one, of
// a result so large that the copy costs less than it saves.
template <class Stored>
bool FewTermsOfPixelsPlan<Stored>::StreamsStrips(const Problem& problem,
                                                 const KernelTable& table) const {
  constexpr int kLeastVector = 16;  // bytes
  return channels_ * int64_t{sizeof(Compute)} % kLineBytes != 0 &&
         table.vector_bytes >= kLeastVector && problem.ResultBytes() >= table.last_cache_bytes &&
         !PaysToCache(problem, num_threads_);
}

// A strip is of some rows, or of a part of one, in whole tiles; each thread has one.
template <class Stored>
void FewTermsOfPixelsPlan<Stored>::CutStrips(int num_threads) {
  constexpr int64_t kSourceBytes = int64_t{8} << 10;  // a task's
  constexpr int64_t kMadeBytes = int64_t{kConverts ? 16 : 128} << 10;
  const int64_t pixel = std::min(windows_.row_step, sum_.source_h) *
                        std::min(windows_.col_step, sum_.source_w) * sum_.source_c;
  int64_t cached = CeilDiv(kSourceBytes / int64_t{sizeof(Compute)}, pixel);
  if (makes_strips_) {
    cached = std::min(cached, CeilDiv(kMadeBytes / int64_t{sizeof(Compute)}, channels_));
  }
  const int64_t strip = std::clamp<int64_t>(CeilDiv(NumPixels(), num_threads), 1, cached);
  strip_rows_ = std::clamp<int64_t>(strip / windows_.cols, 1, windows_.rows);
  strip_cols_ = std::min(windows_.cols, RoundUp(strip, std::ssize(kernels_.tiles)));
}

template <class Stored>
Work FewTermsOfPixelsPlan<Stored>::CountWork() const {
  constexpr double kStored = sizeof(Compute) / 4.0;
  Work work;
  const ProductSizes product = {NumPixels(), channels_, NumTerms()};
  HasWindow() ? AddProducts(work, kernels_, 1, product, kernels_.WindowTile(channels_))
              : AddProducts(work, kernels_, 1, product);
  work.Add(WorkKind::kTransposed, kStored * Product(PackedElements()));
  const double made = kConverts ? Product(NumPixels(), channels_) : 0;
  work.Add(WorkKind::kCopied,
           kCopiedNear<Stored> * (Product(NumStrips(), StagedElements()) + made));
  work.Add(WorkKind::kCall, Product(pixel_by_pixel_ ? NumPixels() : NumStrips()));
  work.Add(WorkKind::kTask, Product(NumStrips()));
  return work;
}

template <class Stored>
auto FewTermsOfPixelsPlan<Stored>::StripAt(int64_t task) const -> Strip {
  const int64_t col = task % StripsOfCols() * strip_cols_;
  const int64_t row = task / StripsOfCols() % StripsOfRows() * strip_rows_;
  return {task / StripsOfCols() / StripsOfRows(),
          {row, std::min(row + strip_rows_, windows_.rows)},
          {col, std::min(col + strip_cols_, windows_.cols)}};
}

// Finds where the windows of a strip's pixels begin: in the source, or in a copy of it that has
// zeros for padding.
template <class Stored>
auto FewTermsOfPixelsPlan<Stored>::WindowsOfStrip(const Strip& strip, const Stored* source,
                                                  Compute* staged) const -> const Compute* {
  const int64_t pixel = sum_.source_c, width = windows_.source_cols;
  const int64_t first_row = windows_.first_row + strip.rows.begin * windows_.row_step;
  const int64_t first_col = windows_.first_col + strip.cols.begin * windows_.col_step;
  const Stored* const image = source + strip.image * windows_.source_rows * width * pixel;
  if constexpr (!kConverts) {
    if (!stages_) return image + (first_row * width + first_col) * pixel;
  }
  const int64_t end_col = first_col + SourceCols(strip.cols.size());
  const int64_t begin = std::clamp<int64_t>(0, first_col, end_col);  // all may be padding
  const int64_t end = std::clamp<int64_t>(width, begin, end_col);
  Compute* to = staged;
  for (int64_t i = 0; i < SourceRows(strip.rows.size()); ++i, to += RowElements()) {
    const int64_t row = first_row + i;
    const bool is_there = row >= 0 && row < windows_.source_rows && begin < end;
    const int64_t before = ((is_there ? begin : end_col) - first_col) * pixel;
    const int64_t count = is_there ? (end - begin) * pixel : 0;
    std::fill_n(to, before, Compute{0});
    if (is_there) pack_.widen(image + (row * width + begin) * pixel, to + before, count);
    std::fill(to + before + count, to + (end_col - first_col) * pixel, Compute{0});
  }
  return staged;
}

template <class Stored>
auto FewTermsOfPixelsPlan<Stored>::FilterRows(const ConvArgs& args, Compute* packed) const
    -> const Compute* {
  const auto* filter = static_cast<const Stored*>(args.filter);
  if constexpr (!kConverts) {
    if (!Packs()) return filter;
  }
  PackFilter(pack_, sum_, phases_, filter, {0, 0, channels_, FilterCols()}, {0, NumTerms()},
             packed);
  if (sum_.in_pairs) SwapPairs(pack_, packed, NumTaps(), sum_.source_c, FilterCols());
  return packed;
}

template <class Stored>
bool FewTermsOfPixelsPlan<Stored>::Run(const ConvArgs& args) const {
  const int64_t filter_size = args.problem.NumElements(Role::kFilter);
  if (MeetsPadding(sum_) && !IsFinite<Stored>(args.filter, filter_size)) return false;
  const auto* source = static_cast<const Stored*>(args.Source(sum_.forward));
  auto* result = static_cast<Stored*>(args.result);
  AlignedArray<Compute> packed(PackedElements());
  const Compute* filter = FilterRows(args, packed.data());
  const bool streams =
      !PaysToCache(args.problem, args.parallel.num_threads()) && !makes_strips_ &&
      PaysToStream(result, args.problem.ResultBytes(), channels_ * int64_t{sizeof(Compute)});
  PerThread<AlignedArray<Compute>> staged(args.parallel), made(args.parallel);
  args.parallel.For(NumStrips(), [&](int64_t i) {
    const Strip strip = StripAt(i);
    FewRowsArgs<Compute> rows{};
    rows.a = WindowsOfStrip(strip, source, stages_ ? staged.Own(StagedElements()).data() : nullptr);
    rows.a_step = 1;
    rows.window = window_.data();
    rows.b = filter;
    rows.b_step = FilterCols();
    rows.num_terms = NumTerms();
    rows.num_cols = channels_;
    Stored* const to = result + ((strip.image * windows_.rows + strip.rows.begin) * windows_.cols +
                                 strip.cols.begin) *
                                    channels_;
    if constexpr (kConverts) {
      rows.sums = made.Own(MadeElements()).data();
    } else {
      rows.sums = makes_strips_ ? made.Own(MadeElements()).data() : to;
    }
    rows.begins = rows.ends = true;
    rows.streams = streams;
    const int64_t count = strip.rows.size() * strip.cols.size();
    rows.num_rows = pixel_by_pixel_ ? 1 : count;
    for (int64_t first = 0; first < count; first += rows.num_rows) {
      rows.rows = rows_.data() + first;
      HasWindow() ? kernels_.run_windows(rows) : kernels_.run(rows);
    }
    if (kConverts) {
      pack_.narrow(rows.sums, to, count * channels_);
    } else if (makes_strips_) {
      args.kernels.stream_bytes(rows.sums, to, count * channels_ * int64_t{sizeof(Compute)});
    }
    if (streams || makes_strips_) std::atomic_thread_fence(std::memory_order_seq_cst);
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

constexpr int64_t kMostFilterBytes = int64_t{128} << 10;

// True of a filter that stays near while each tile meets all of it: in the first cache if vectors
// are whole lines, or its rows would crowd in few sets.
bool FilterStaysNear(const Problem& problem, const TapSum& sum, const KernelTable& kernels) {
  const int64_t bytes = std::max<int64_t>(InfoOf(problem.dtype).bytes, sizeof(float));
  const bool near =
      kernels.vector_bytes >= kLineBytes || PixelsCrowd(sum.result_c * bytes, kernels);
  return problem.NumElements(Role::kFilter) * bytes <= (near ? kFirstCacheBytes : kMostFilterBytes);
}

// True of a filter from which whole lines come soon enough out of the second cache, for sums of so
// few terms that their results take as long; lines that go around the caches would hold them up.
bool FilterServesFromSecondCache(const Problem& problem, const TapSum& sum,
                                 const KernelTable& kernels) {
  constexpr int64_t kMostTerms = 20;
  const int64_t bytes = InfoOf(problem.dtype).bytes;
  return kernels.vector_bytes >= kLineBytes && sum.source_c <= kMostTerms &&
         problem.NumElements(Role::kFilter) * bytes <= kMostFilterBytes &&
         !PaysToStream(problem.ResultBytes(), sum.result_c * bytes);
}

// Writing a pixel of some lines is what takes time, most of all where panels of channels, of
// vectors shorter than a line, would write parts of lines to memory. Of more terms, or of a filter
// that leaves the cache it is met in, a packed filter is quicker.
bool HasFewTermsForPixels(const Problem& problem, const TapSum& sum, const KernelTable& kernels) {
  constexpr int64_t kFewestPixelBytes = 192;
  constexpr int64_t kMostTerms = 32, kMostFarTerms = 96;
  const bool short_vectors = kernels.vector_bytes < kLineBytes;
  const bool far = short_vectors && problem.ResultBytes() >= kTensorsLeaveTheCaches;
  const int64_t pixel_bytes = sum.result_c * InfoOf(problem.dtype).bytes;
  return sum.source_c <= (far ? kMostFarTerms : kMostTerms) && pixel_bytes >= kFewestPixelBytes &&
         (FilterStaysNear(problem, sum, kernels) ||
          FilterServesFromSecondCache(problem, sum, kernels));
}

}  // namespace

bool CanTakeFewTermsOfPixels(const Problem& problem, const KernelTable& kernels) {
  const TapSum sum(problem);
  return sum.groups == 1 && sum.kernel_h * sum.kernel_w == 1 &&
         MeetsOneEach(sum.row_phases, sum.source_h) && MeetsOneEach(sum.col_phases, sum.source_w) &&
         HasFewTermsForPixels(problem, sum, kernels);
}

// Vectors that are whole lines are left to the packed panels, which write whole lines, too: the
// form has not been measured with them.
bool CanTakeWindowsOfPixels(const Problem& problem, const KernelTable& kernels) {
  if (kernels.vector_bytes >= kLineBytes && IsStoredAsComputed(problem.dtype)) return false;
  const ConvGeometry& g = problem.geometry;
  const TapSum sum(problem);
  return sum.groups == 1 && g.dilation_h == 1 && g.dilation_w == 1 && sum.num_phases() == 1 &&
         PhasesOf(sum).front().blocks.size() == 1 && FilterStaysNear(problem, sum, kernels);
}

std::unique_ptr<Plan> PlanFewTermsOfPixels(const Problem& problem, const KernelTable& kernels,
                                           int num_threads) {
  return PlanStored<FewTermsOfPixelsPlan>(problem, kernels, num_threads);
}

}  // namespace convgrad
