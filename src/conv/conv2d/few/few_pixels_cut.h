// How a forward convolution or an input gradient of few pixels is cut for the micro-kernel of few
// rows (kernels/gemm/few_rows.h): the filter is read once, where it lies, strip by strip of the
// result's channels, and all pixels meet what is read. Touches no data.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "conv/axes/tap_sum.h"
#include "conv/move/staging.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// So many pixels meet a filter at most: from more on, packed panels and larger tiles are quicker.
inline constexpr int64_t kFewPixels = 64;

// True for so few pixels and taps that the lists of where they meet are short.
bool HasFewPixels(const TapSum& sum);

// The pixels of a phase that one of its taps meets, in the order of the result.
struct FewPixelsTap {
  int64_t tap;  // of the filter
  std::vector<FewRow> rows;
};

struct FewPixelsPhase {
  std::vector<FewPixelsTap> taps;  // in canonical order
  std::vector<TapBlock> blocks;
  std::vector<int64_t> pixels;  // of the result
};

// Operands of a 16-bit type are widened: the source at once, the filter a few terms at a time.
template <class Stored>
struct FewPixelsCut {
  using Compute = ComputeType<Stored>;
  static constexpr bool kConverts = !std::is_same_v<Stored, Compute>;

  FewPixelsCut(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t NumStrips() const { return CeilDiv(sum.result_c, strip_cols); }
  int64_t NumTasks() const { return sum.groups * NumStrips(); }
  int64_t FilterOutputs() const {  // of all groups
    return sum.groups * (sum.forward ? sum.result_c : sum.source_c);
  }
  int64_t NumSums() const { return in_place ? 0 : num_pixels * strip_cols; }
  int64_t NumCopied() const { return copies_filter ? chunk_terms * strip_cols : 0; }
  int64_t NumWidened() const { return kConverts ? sum.batch * source.Image() : 0; }
  int64_t ScratchBytes() const;
  Work CountWork() const;
  std::string Tiles() const;

  const int num_threads;
  const TapSum sum;
  const bool fetches;  // operands come from beyond the caches
  const DataShape source, result;
  const FewRowsKernels<Compute>& kernels;
  const int64_t lanes, num_pixels;
  // True where pixels meet a copy of the filter, a few terms at a time: one that is widened, or
  // that an input gradient transposes for more pixels than a tile of the transposing kernel has
  // rows.
  const bool copies_filter;
  const bool in_place;  // sums wait where the result lies: one block of one tap, which all meet
  const int64_t strip_cols, chunk_terms;
  const int64_t sums_step;  // from pixel to pixel
  const int64_t a_step;     // from channel to channel of the source
  const std::vector<FewPixelsPhase> phases;

 private:
  bool ServesInPlace() const;
  int64_t StripCols() const;
  int64_t ChunkTerms() const;
  std::vector<FewPixelsPhase> ListPhases() const;
  void CountTap(const FewPixelsTap& tap, Work& work) const;
  FewPixelsTap MeetTap(const TapPhase& phase, int64_t tap) const;
};

extern template struct FewPixelsCut<Float16>;
extern template struct FewPixelsCut<BFloat16>;
extern template struct FewPixelsCut<float>;
extern template struct FewPixelsCut<double>;

}  // namespace convgrad
