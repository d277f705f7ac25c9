// Forward convolutions and input gradients whose sums have few terms, under filters of any size. In
// NCHW what some pixels of the result meet is copied as a matrix of terms by pixels that stays in
// the first cache while all channels of the result meet it, so their planes are written once, where
// they lie; for NHWC see few_terms_pixels.h. Padding is multiplied, so a filter with an infinity or
// a NaN goes the other way.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "conv/axes/flattened.h"
#include "conv/axes/tap_sum.h"
#include "conv/conv2d/few/algorithms.h"
#include "conv/conv2d/few/few_terms_pixels.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/filter_panel.h"
#include "conv/move/grid_columns.h"
#include "conv/move/special_numbers.h"
#include "conv/move/swap_pairs.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

constexpr int64_t kColumnBytes = int64_t{24} << 10;  // of columns, in the first cache
constexpr int64_t kBlockRows = 4;  // channels of the result that lie side by side in the filter

// Neighbouring rows of a plane of the result, or a part of one row.
struct Strip {
  int64_t plane_group;  // image x group
  Range rows, cols;

  int64_t pixels() const { return rows.size() * cols.size(); }
};

Range Within(const Range& all, const Range& part) {
  const int64_t begin = std::clamp(part.begin, all.begin, all.end);
  return {begin, std::clamp(part.end, begin, all.end)};
}

// Finds, for each tap of the axis, the positions in `part` that meet the source with it.
void FindOnSource(const AxisPhase& axis, int64_t source_size, const Range& part,
                  std::vector<Range>& of_taps) {
  const GridColumns grid{axis.source_first, axis.source_step, /*apart=*/0, source_size, axis.count};
  for (size_t i = 0; i < of_taps.size(); ++i) {
    of_taps[i] = Within(part, grid.OnRow(axis.offsets[i]));
  }
}

template <class Stored>
class Im2ColPlan final : public Plan {
 public:
  using Compute = ComputeType<Stored>;

  Im2ColPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t ScratchBytes() const override {
    const int64_t of_thread = ColumnElements() + StagedElements() + WidenedElements() + NumSums();
    return (FilterElements() + num_threads_ * of_thread) * int64_t{sizeof(Compute)};
  }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} strips of {}x{} pixels", NumTasks(), strip_rows_, strip_cols_);
  }
  bool Run(const ConvArgs& args) const override;

 private:
  // 16-bit types are widened with the columns, and sums are narrowed behind each call.
  static constexpr bool kConverts = !std::is_same_v<Stored, Compute>;
  static constexpr int64_t kPartRows = kConverts ? 16 : 64;  // of one call

  struct Scratch {
    explicit Scratch(const Im2ColPlan& plan)
        : columns(plan.ColumnElements()),
          staged(plan.StagedElements()),
          widened(plan.WidenedElements()),
          sums(plan.NumSums()),
          rows_on_source(plan.rows().taps.size()),
          cols_on_source(plan.cols().taps.size()) {}

    AlignedArray<Compute> columns;  // [term][pixel of a strip]
    AlignedArray<Compute> staged;   // [row of the source][residue of the column by the step]
    AlignedArray<Compute> widened;  // a row that is staged next
    AlignedArray<Compute> sums;     // [row of a part][pixel of a strip], if they are narrowed
    // Rows and columns of the strip that meet the source with each tap.
    std::vector<Range> rows_on_source, cols_on_source;
  };
  // Rows of one channel of the source: as they lie, or staged, with their columns apart by the
  // step.
  struct SourceRows {
    const Stored* data;
    const Compute* staged;
    int64_t row_stride, residue_stride;
    int64_t first_row, first_col;
  };

  const AxisPhase& rows() const { return sum_.row_phases[0]; }
  const AxisPhase& cols() const { return sum_.col_phases[0]; }
  int64_t NumBlocks() const { return CeilDiv(sum_.result_c, kBlockRows); }
  int64_t BlockElements() const { return terms_ * kBlockRows; }
  int64_t FilterElements() const { return sum_.groups * NumBlocks() * BlockElements(); }
  int64_t ColumnElements() const { return terms_ * strip_rows_ * strip_cols_; }
  // So many columns of a strip's source have the same residue, at most.
  int64_t ResidueSize() const {
    const int64_t taps = (cols().offsets.back() - cols().offsets.front()) / cols().source_step;
    return std::min(strip_cols_ + taps, sum_.source_w / cols().source_step) + 2;
  }
  int64_t StagedRows() const {
    const int64_t taps = rows().offsets.back() - rows().offsets.front() + 1;
    return std::min((strip_rows_ - 1) * rows().source_step + taps, sum_.source_h);
  }
  int64_t StagedElements() const {
    return cols().source_step == 1 ? 0 : StagedRows() * cols().source_step * ResidueSize();
  }
  int64_t WidenedElements() const {
    return kConverts && StagedElements() > 0 ? cols().source_step * ResidueSize() : 0;
  }
  int64_t NumSums() const { return kConverts ? PartRows() * strip_rows_ * strip_cols_ : 0; }
  int64_t PartRows() const { return std::min(kPartRows, sum_.result_c); }
  int64_t StripsOfRows() const { return CeilDiv(sum_.result_h, strip_rows_); }
  int64_t StripsOfCols() const { return CeilDiv(sum_.result_w, strip_cols_); }
  int64_t NumTasks() const { return sum_.batch * sum_.groups * StripsOfRows() * StripsOfCols(); }
  Strip StripAt(int64_t task) const;
  void CutStrips();

  void PackFilterBlocks(const ConvArgs& args, Compute* to) const;
  SourceRows StageChannel(const Strip& strip, const Stored* plane, Scratch& scratch) const;
  void CopyTerm(const Strip& strip, const SourceRows& source, size_t row_tap, size_t col_tap,
                const Scratch& scratch, Compute* to) const;
  void Gather(const Strip& strip, const Stored* source, Scratch& scratch) const;
  void MultiplyStrip(const Strip& strip, Scratch& scratch, const Compute* filter,
                     Stored* result) const;

  const TapSum sum_;
  const FewRowsKernels<Compute>& kernels_;
  const PackKernels<Stored>& pack_;
  const PackKernels<Compute>& copy_;
  const PlaneKernels<Compute>& planes_;
  const int num_threads_;
  const std::vector<TapPhase> phases_;  // one
  const int64_t terms_;
  int64_t strip_rows_, strip_cols_;
  std::vector<FewRow> rows_;  // of a part of the result's channels
};

template <class Stored>
Im2ColPlan<Stored>::Im2ColPlan(const Problem& problem, const KernelTable& table, int num_threads)
    : sum_(problem),
      kernels_(table.FewRows<Compute>()),
      pack_(table.Pack<Stored>()),
      copy_(table.Pack<Compute>()),
      planes_(table.Plane<Compute>()),
      num_threads_(num_threads),
      phases_(PhasesOf(sum_)),
      terms_(TermsOf(sum_, phases_)) {
  CutStrips();
  const int64_t row = kConverts ? strip_rows_ * strip_cols_ : sum_.result_h * sum_.result_w;
  for (int64_t i = 0; i < PartRows(); ++i) {
    rows_.push_back({i / kBlockRows * BlockElements() + i % kBlockRows, i * row});
  }
}

// A strip's columns stay in the first cache, with sums that wait to be narrowed. Each thread gets
// some.
template <class Stored>
void Im2ColPlan<Stored>::CutStrips() {
  const int64_t width = sum_.result_w;
  const int64_t pixels = std::max(3 * kernels_.lanes, kColumnBytes / int64_t{sizeof(Compute)} /
                                                          (terms_ + (kConverts ? PartRows() : 0)));
  const int64_t parts = CeilDiv(width, pixels);
  strip_cols_ =
      parts == 1 ? width : std::min(width, RoundUp(CeilDiv(width, parts), kernels_.lanes));
  const int64_t shared = CeilDiv(sum_.batch * sum_.groups * sum_.result_h, int64_t{num_threads_});
  strip_rows_ = std::clamp<int64_t>(pixels / width, 1, std::min(sum_.result_h, shared));
}

template <class Stored>
Strip Im2ColPlan<Stored>::StripAt(int64_t task) const {
  const int64_t col = task % StripsOfCols() * strip_cols_;
  const int64_t row = task / StripsOfCols() % StripsOfRows() * strip_rows_;
  return {task / StripsOfCols() / StripsOfRows(),
          {row, std::min(row + strip_rows_, sum_.result_h)},
          {col, std::min(col + strip_cols_, sum_.result_w)}};
}

// Columns fill most of a first cache of 32 KiB, which filter and result pass through: so their
// lines are counted as if they came from the next one for every block of rows. Most processors with
// vectors of whole lines have 48 KiB, which they stay in unless terms are many.
template <class Stored>
Work Im2ColPlan<Stored>::CountWork() const {
  constexpr double kStored = sizeof(Compute) / 4.0, kLine = kLineBytes / double{sizeof(Compute)};
  const double planes = Product(sum_.batch, sum_.groups);
  const double columns = planes * Product(sum_.result_h, sum_.result_w, terms_);
  Work work;
  AddProducts(work, kernels_, planes, {sum_.result_c, sum_.result_h * sum_.result_w, terms_});
  if (!HasLineVectors(kernels_) || ColumnElements() * int64_t{sizeof(Compute)} > kFirstCacheBytes) {
    work.Add(WorkKind::kFarLine, columns / kLine * Product(NumBlocks()));
  }
  work.Add(WorkKind::kCopied, kCopiedNear<Stored> * columns);
  if (kConverts) {
    work.Add(WorkKind::kCopied,
             kCopiedNear<Stored> * planes * Product(sum_.result_c, sum_.result_h, sum_.result_w));
  }
  work.Add(WorkKind::kScattered, kStored * Product(FilterElements()));
  work.Add(WorkKind::kCall, Product(NumTasks(), terms_));
  if (cols().source_step > 1) {
    const double rows = Product(sum_.source_c, StagedRows(), cols().source_step, ResidueSize());
    work.Add(WorkKind::kTransposed, kStored * Product(NumTasks()) * rows);
  }
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
auto Im2ColPlan<Stored>::StageChannel(const Strip& strip, const Stored* plane,
                                      Scratch& scratch) const -> SourceRows {
  const int64_t width = sum_.source_w, step = cols().source_step;
  if (step == 1) return {plane, nullptr, width, 0, 0, 0};
  const int64_t low = cols().source_first + strip.cols.begin * step + cols().offsets.front();
  const int64_t first_col = std::max<int64_t>(0, low) / step * step;
  const int64_t end_col = std::min(width, first_col + step * ResidueSize());
  const auto row_at = [&](int64_t y, int64_t offset) {
    return rows().source_first + y * rows().source_step + offset;
  };
  const int64_t first_row = std::max<int64_t>(0, row_at(strip.rows.begin, rows().offsets.front()));
  const int64_t end_row =
      std::min(sum_.source_h, row_at(strip.rows.end - 1, rows().offsets.back()) + 1);
  const int64_t row_stride = step * ResidueSize();
  for (int64_t row = first_row; row < end_row; ++row) {
    const Stored* const from = plane + row * width + first_col;
    const Compute* numbers = nullptr;
    if constexpr (kConverts) {
      pack_.widen(from, scratch.widened.data(), end_col - first_col);
      numbers = scratch.widened.data();
    } else {
      numbers = from;
    }
    planes_.split(numbers, scratch.staged.data() + (row - first_row) * row_stride, ResidueSize(),
                  step, end_col - first_col);
  }
  return {nullptr, scratch.staged.data(), row_stride, ResidueSize(), first_row, first_col};
}

template <class Stored>
void Im2ColPlan<Stored>::CopyTerm(const Strip& strip, const SourceRows& source, size_t row_tap,
                                  size_t col_tap, const Scratch& scratch, Compute* to) const {
  const Range &ys = scratch.rows_on_source[row_tap], &xs = scratch.cols_on_source[col_tap];
  const int64_t width = strip.cols.size();
  if (ys.size() == 0 || xs.size() == 0) {
    std::fill_n(to, strip.pixels(), Compute{0});
    return;
  }
  const int64_t before = xs.begin - strip.cols.begin, after = strip.cols.end - xs.end;
  Compute* const begin = to + (ys.begin - strip.rows.begin) * width;
  Compute* const end = begin + ys.size() * width;
  std::fill(to, begin, Compute{0});
  std::fill(end, to + strip.pixels(), Compute{0});
  if (before + after > 0) {
    for (Compute* row = begin; row != end; row += width) {
      std::fill_n(row, before, Compute{0});
      std::fill_n(row + width - after, after, Compute{0});
    }
  }
  const int64_t step = cols().source_step;
  const int64_t row = rows().source_first + ys.begin * rows().source_step + rows().offsets[row_tap];
  const int64_t col = cols().source_first + xs.begin * step + cols().offsets[col_tap];
  const int64_t of_col =
      (col - source.first_col) / step + (col - source.first_col) % step * source.residue_stride;
  const int64_t first = (row - source.first_row) * source.row_stride + of_col;
  const int64_t row_step = rows().source_step * source.row_stride;
  if (source.staged != nullptr) {
    copy_.copy_widen(source.staged + first, row_step, begin + before, width, ys.size(), xs.size());
  } else {
    pack_.copy_widen(source.data + first, row_step, begin + before, width, ys.size(), xs.size());
  }
}

template <class Stored>
void Im2ColPlan<Stored>::Gather(const Strip& strip, const Stored* source, Scratch& scratch) const {
  const int64_t plane = sum_.source_h * sum_.source_w;
  FindOnSource(rows(), sum_.source_h, strip.rows, scratch.rows_on_source);
  FindOnSource(cols(), sum_.source_w, strip.cols, scratch.cols_on_source);
  const size_t num_cols = cols().taps.size();
  for (int64_t c = 0; c < sum_.source_c; ++c) {
    const int64_t in_order = sum_.in_pairs ? SwappedPlace(c, sum_.source_c) : c;
    const SourceRows staged =
        StageChannel(strip, source + (strip.plane_group * sum_.source_c + c) * plane, scratch);
    for (size_t r = 0; r < rows().taps.size(); ++r) {
      for (size_t t = 0; t < num_cols; ++t) {
        const int64_t term = static_cast<int64_t>(r * num_cols + t) * sum_.source_c + in_order;
        CopyTerm(strip, staged, r, t, scratch, scratch.columns.data() + term * strip.pixels());
      }
    }
  }
}

template <class Stored>
void Im2ColPlan<Stored>::MultiplyStrip(const Strip& strip, Scratch& scratch, const Compute* filter,
                                       Stored* result) const {
  const int64_t plane = sum_.result_h * sum_.result_w;
  FewRowsArgs<Compute> product{};
  product.a = filter + strip.plane_group % sum_.groups * NumBlocks() * BlockElements();
  product.a_step = kBlockRows;
  product.b = scratch.columns.data();
  product.b_step = product.num_cols = strip.pixels();
  product.num_terms = terms_;
  product.rows = rows_.data();
  Stored* to = result + strip.plane_group * sum_.result_c * plane +
               strip.rows.begin * sum_.result_w + strip.cols.begin;
  product.begins = product.ends = true;
  for (int64_t row = 0; row < sum_.result_c; row += kPartRows, to += kPartRows * plane) {
    product.num_rows = std::min(kPartRows, sum_.result_c - row);
    if constexpr (kConverts) {
      product.sums = scratch.sums.data();
      kernels_.run(product);
      for (int64_t i = 0; i < product.num_rows; ++i) {
        pack_.narrow(product.sums + rows_[static_cast<size_t>(i)].sums, to + i * plane,
                     strip.pixels());
      }
    } else {
      product.sums = to;
      kernels_.run(product);
    }
    product.a += kPartRows / kBlockRows * BlockElements();
  }
}

template <class Stored>
bool Im2ColPlan<Stored>::Run(const ConvArgs& args) const {
  const int64_t filter_size = args.problem.NumElements(Role::kFilter);
  if (MeetsPadding(sum_) && !IsFinite<Stored>(args.filter, filter_size)) return false;
  const auto* source = static_cast<const Stored*>(args.Source(sum_.forward));
  auto* result = static_cast<Stored*>(args.result);
  AlignedArray<Compute> filter(FilterElements());
  PackFilterBlocks(args, filter.data());
  PerThread<Scratch> scratches(args.parallel);
  args.parallel.For(NumTasks(), [&](int64_t i) {
    Scratch& scratch = scratches.Own(*this);
    const Strip strip = StripAt(i);
    Gather(strip, source, scratch);
    MultiplyStrip(strip, scratch, filter.data(), result);
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
