#include "conv/conv2d/few/few_pixels_cut.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "conv/gemm/few_rows.h"
#include "conv/move/stream_result.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

constexpr int64_t kSumsBytes = int64_t{16} << 10;  // of a strip's pixels, in the first cache

// Calls visit(image, row, col) for the positions of a phase, which count from its first one.
template <class Visit>
void ForPixels(const TapSum& sum, const TapPhase& phase, const Visit& visit) {
  for (int64_t image = 0; image < sum.batch; ++image) {
    for (int64_t row = 0; row < phase.rows->count; ++row) {
      for (int64_t col = 0; col < phase.cols->count; ++col) visit(image, row, col);
    }
  }
}

}  // namespace

bool HasFewPixels(const TapSum& sum) {
  constexpr double kMostTaps = 256;
  return Product(sum.kernel_h, sum.kernel_w) <= kMostTaps &&
         Product(sum.batch, sum.result_h, sum.result_w) <= double{kFewPixels};
}

template <class Stored>
FewPixelsCut<Stored>::FewPixelsCut(const Problem& problem, const KernelTable& table,
                                   int num_threads_in)
    : num_threads(num_threads_in),
      sum(problem),
      fetches(LeaveTheCaches(problem.OperandBytes(), num_threads)),
      source{problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups},
      result{problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups},
      kernels(table.FewRows<Compute>()),
      lanes(kernels.lanes),
      num_pixels(sum.batch * sum.result_h * sum.result_w),
      copies_filter(kConverts || (!sum.forward && num_pixels > std::ssize(kernels.turned_tiles))),
      in_place(ServesInPlace()),
      strip_cols(StripCols()),
      chunk_terms(ChunkTerms()),
      sums_step(in_place ? result.c : strip_cols),
      a_step(source.format == DataFormat::kNHWC ? 1 : source.h * source.w),
      phases(ListPhases()) {}

template <class Stored>
bool FewPixelsCut<Stored>::ServesInPlace() const {
  const std::vector<TapPhase> all = PhasesOf(sum);
  return !kConverts && result.format == DataFormat::kNHWC && sum.kernel_h * sum.kernel_w == 1 &&
         all.size() == 1 && all.front().blocks.size() == 1 && source.h == result.h &&
         source.w == result.w && (!copies_filter || sum.result_c % lanes == 0);
}

// A strip is of whole vectors, and leaves each thread a task.
template <class Stored>
int64_t FewPixelsCut<Stored>::StripCols() const {
  constexpr int64_t kSize = sizeof(Compute), kFewestCols = 64, kFewestNumbers = int64_t{24} << 10;
  int64_t cached =
      std::max((copies_filter ? kSumsBytes / 2 : kSumsBytes) / kSize / num_pixels, kFewestCols);
  if (!sum.forward && !copies_filter) {
    const int64_t terms = sum.kernel_h * sum.kernel_w * sum.source_c;
    cached = std::min(cached, RoundUp(CeilDiv(kFewestNumbers, terms), 3 * lanes));
  }
  const int64_t strips = std::max(
      CeilDiv(sum.result_c, cached),
      std::min<int64_t>(CeilDiv(num_threads, sum.groups), CeilDiv(sum.result_c, kFewestCols)));
  return RoundUp(CeilDiv(sum.result_c, strips), lanes);
}

// All pixels meet so many terms of a strip before the next ones.
template <class Stored>
int64_t FewPixelsCut<Stored>::ChunkTerms() const {
  constexpr int64_t kReadBytes = int64_t{8} << 10, kCopiedBytes = int64_t{32} << 10, kFewest = 16;
  if (!sum.forward && !copies_filter) return kBlockTerms;
  const int64_t terms =
      (copies_filter ? kCopiedBytes : kReadBytes) / int64_t{sizeof(Compute)} / strip_cols;
  return std::clamp(terms / kFewest * kFewest, kFewest, kBlockTerms);
}

template <class Stored>
FewPixelsTap FewPixelsCut<Stored>::MeetTap(const TapPhase& phase, int64_t tap) const {
  const AxisPhase &rows = *phase.rows, &cols = *phase.cols;
  const auto row_tap = static_cast<size_t>(tap / std::ssize(cols.taps));
  const auto col_tap = static_cast<size_t>(tap % std::ssize(cols.taps));
  FewPixelsTap met{rows.taps[row_tap] * sum.kernel_w + cols.taps[col_tap], {}};
  const int64_t pixel_step = source.format == DataFormat::kNHWC ? source.c : 1;
  ForPixels(sum, phase, [&](int64_t image, int64_t row, int64_t col) {
    const int64_t y = rows.source_first + row * rows.source_step + rows.offsets[row_tap];
    const int64_t x = cols.source_first + col * cols.source_step + cols.offsets[col_tap];
    if (y < 0 || y >= source.h || x < 0 || x >= source.w) return;
    const int64_t to =
        (image * result.h + rows.first + row * rows.step) * result.w + cols.first + col * cols.step;
    met.rows.push_back({image * source.Image() + (y * source.w + x) * pixel_step, to * sums_step});
  });
  return met;
}

template <class Stored>
std::vector<FewPixelsPhase> FewPixelsCut<Stored>::ListPhases() const {
  std::vector<FewPixelsPhase> lists;
  for (const TapPhase& phase : PhasesOf(sum)) {
    FewPixelsPhase& list = lists.emplace_back();
    list.blocks = phase.blocks;
    for (int64_t tap = 0; tap < phase.num_taps(); ++tap) list.taps.push_back(MeetTap(phase, tap));
    ForPixels(sum, phase, [&](int64_t image, int64_t row, int64_t col) {
      list.pixels.push_back((image * result.h + phase.rows->first + row * phase.rows->step) *
                                result.w +
                            phase.cols->first + col * phase.cols->step);
    });
  }
  return lists;
}

template <class Stored>
int64_t FewPixelsCut<Stored>::ScratchBytes() const {
  constexpr int64_t kFolded = sizeof(Compute) == sizeof(double) ? 2 : 1;
  return NumWidened() * int64_t{sizeof(Compute)} +
         num_threads * (NumCopied() * int64_t{sizeof(Compute)} +
                        NumSums() * (int64_t{sizeof(Compute)} + kFolded * int64_t{sizeof(double)}));
}

// Each term of a tile takes its multiply-adds, and no less than a sum waits for its last term. The
// first tile brings the filter into the first cache, where later ones find it, whole lines sooner.
template <class Stored>
void FewPixelsCut<Stored>::CountTap(const FewPixelsTap& tap, Work& work) const {
  if (tap.rows.empty()) return;
  const bool lines = HasLineVectors(kernels);
  const double near = lines ? 0.5 : 1;
  const int64_t strip_vectors = strip_cols / lanes;
  const double terms = Product(sum.source_c, NumTasks());
  const double calls = Product(CeilDiv(sum.source_c, chunk_terms), NumTasks());
  const bool turns = !sum.forward && !copies_filter;
  constexpr double kStored = sizeof(Compute) / 4.0;
  work.Add(WorkKind::kCall, calls);
  if (copies_filter) {
    const double numbers = terms * Product(strip_cols);
    sum.forward ? work.Add(WorkKind::kCopied, kCopiedNear<Stored> * numbers)
                : work.Add(WorkKind::kTransposed, kStored * numbers);
  }
  for (int64_t row = 0; row < std::ssize(tap.rows);) {
    const FewRowsTile tile = kernels.TileOf(std::ssize(tap.rows) - row, turns);
    for (int64_t v = 0; v < strip_vectors; v += tile.vectors) {
      const int64_t vectors = std::min<int64_t>(tile.vectors, strip_vectors - v);
      const int64_t sums = tile.rows * vectors;
      work.Add(WorkKind::kGemmFma, terms * Product(std::max(sums, WaitingSlots(lines))));
      work.Add(WorkKind::kGemmLoad,
               (row == 0 ? 1 : near) * (terms * Product(vectors) + calls * Product(sums)));
      work.Add(WorkKind::kGemmSingle, terms * Product(tile.rows));
      work.Add(WorkKind::kSegment, calls);
    }
    if (turns) {
      constexpr double kInRegisters = 0.3;  // of what it takes to transpose numbers into memory
      work.Add(WorkKind::kTransposed, kInRegisters * kStored * terms * Product(strip_cols));
    }
    row += tile.rows;
  }
}

template <class Stored>
Work FewPixelsCut<Stored>::CountWork() const {
  const double vectors = Product(NumTasks(), strip_cols / lanes);
  Work work;
  for (const FewPixelsPhase& phase : phases) {
    for (const FewPixelsTap& tap : phase.taps) CountTap(tap, work);
    if (in_place) continue;
    const int64_t folds = phase.blocks.size() == 1 ? 1 : std::ssize(phase.blocks) + 1;
    work.Add(WorkKind::kFold, Product(std::ssize(phase.pixels), folds) * vectors);
  }
  if (!in_place) {
    work.Add(WorkKind::kCopied, Product(num_pixels, result.c, int64_t{sizeof(Compute)}) / 4);
    work.Add(WorkKind::kCopied, Product(NumWidened()));
  }
  work.Add(WorkKind::kTask, Product(NumTasks()));
  return work;
}

template <class Stored>
std::string FewPixelsCut<Stored>::Tiles() const {
  return fmt::format("{} pixels, {} strips of {} channels, {} terms at a time{}", num_pixels,
                     NumTasks(), strip_cols, chunk_terms, in_place ? ", in place" : "");
}

template struct FewPixelsCut<Float16>;
template struct FewPixelsCut<BFloat16>;
template struct FewPixelsCut<float>;
template struct FewPixelsCut<double>;

}  // namespace convgrad
