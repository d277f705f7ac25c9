// Packing of bfloat16 pairs; see pack_pairs.h. Included once per target, of which one has
// instructions for pairs.
#if defined(CONVGRAD_KERNELS_PACK_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PACK_PAIRS_INL_H_
#undef CONVGRAD_KERNELS_PACK_PAIRS_INL_H_
#else
#define CONVGRAD_KERNELS_PACK_PAIRS_INL_H_
#endif

#include <cstring>

#include "kernels/kernel_table.h"
#include "kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

// A pair moves like a float.
using PairTag = hn::ScalableTag<float>;
using PairVector = hn::Vec<PairTag>;
inline constexpr int64_t kPairs = hn::MaxLanes(PairTag());

// kPairs pairs from, and to, memory; the first `count` of them, the others zero.
HWY_INLINE PairVector LoadPairs(const BFloat16* from, int64_t num_numbers) {
  if (num_numbers >= 2 * kPairs) return hn::LoadU(PairTag(), reinterpret_cast<const float*>(from));
  BFloat16 part[2 * kPairs] = {};
  std::memcpy(part, from, static_cast<size_t>(num_numbers) * sizeof(BFloat16));
  return hn::LoadU(PairTag(), reinterpret_cast<const float*>(part));
}
HWY_INLINE void StorePairs(PairVector pairs, BFloat16Pair* to, int64_t count) {
  if (count >= kPairs) return hn::StoreU(pairs, PairTag(), reinterpret_cast<float*>(to));
  BFloat16Pair part[kPairs];
  hn::StoreU(pairs, PairTag(), reinterpret_cast<float*>(part));
  std::memcpy(to, part, static_cast<size_t>(count) * sizeof(BFloat16Pair));
}

// One number of each of two rows; `second` may be null.
HWY_INLINE PairVector CombineRows(const BFloat16* first, const BFloat16* second, int64_t count) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const auto load = [&](const BFloat16* row) {
    BFloat16 part[kPairs] = {};
    if (count < kPairs) {
      std::memcpy(part, row, static_cast<size_t>(count) * sizeof(BFloat16));
      row = part;
    }
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(row)));
  };
  const auto low = load(first);
  if (second == nullptr) return hn::BitCast(PairTag(), low);
  return hn::BitCast(PairTag(), hn::Or(low, hn::ShiftLeft<16>(load(second))));
}

// Transposes lines of pairs square by square: load(line, i) is the pairs from i on of a
// line, which become element `line` of to[pair].
template <class Load>
HWY_INLINE void TransposePairs(int64_t lines, int64_t pairs, const Load& load, BFloat16Pair* to,
                               int64_t to_stride) {
  for (int64_t line = 0; line < lines; line += kPairs) {
    const int64_t num_lines = HWY_MIN(kPairs, lines - line);
    for (int64_t pair = 0; pair < pairs; pair += kPairs) {
      const int64_t num_pairs = HWY_MIN(kPairs, pairs - pair);
      const auto load_line = [&](int64_t i) { return load(line + i, pair); };
      const auto store = [&](int64_t i, PairVector v) {
        StorePairs(v, to + (pair + i) * to_stride + line, num_lines);
      };
      if (num_lines == kPairs && num_pairs == kPairs) {
        TransposeSquare<true>(PairTag(), num_lines, num_pairs, load_line, store);
      } else {
        TransposeSquare<false>(PairTag(), num_lines, num_pairs, load_line, store);
      }
    }
  }
}

void PairCols(const BFloat16* from, int64_t from_stride, BFloat16Pair* to, int64_t to_stride,
              int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    if (cols % 2 != 0) to[row * to_stride + cols / 2] = {from[row * from_stride + cols - 1], {0}};
    std::memcpy(to + row * to_stride, from + row * from_stride,
                static_cast<size_t>(cols / 2) * sizeof(BFloat16Pair));
  }
}

void PairColsTransposed(const BFloat16* from, int64_t from_stride, BFloat16Pair* to,
                        int64_t to_stride, int64_t rows, int64_t cols) {
  const auto load = [&](int64_t row, int64_t pair) {
    return LoadPairs(from + row * from_stride + 2 * pair, cols - 2 * pair);
  };
  TransposePairs(rows, (cols + 1) / 2, load, to, to_stride);
}

void PairRows(const BFloat16* from, int64_t from_stride, BFloat16Pair* to, int64_t to_stride,
              int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; row += 2) {
    const BFloat16* const first = from + row * from_stride;
    const BFloat16* const second = row + 1 < rows ? first + from_stride : nullptr;
    for (int64_t col = 0; col < cols; col += kPairs) {
      StorePairs(CombineRows(first + col, second == nullptr ? nullptr : second + col, cols - col),
                 to + row / 2 * to_stride + col, cols - col);
    }
  }
}

void PairRowsTransposed(const BFloat16* from, int64_t from_stride, BFloat16Pair* to,
                        int64_t to_stride, int64_t rows, int64_t cols) {
  const auto load = [&](int64_t pair_of_rows, int64_t col) {
    const BFloat16* const first = from + 2 * pair_of_rows * from_stride + col;
    return CombineRows(first, 2 * pair_of_rows + 1 < rows ? first + from_stride : nullptr,
                       cols - col);
  };
  TransposePairs((rows + 1) / 2, cols, load, to, to_stride);
}

inline void FillPackPairs(KernelTable& table) {
  if (!table.has_bf16_pairs) return;
  table.pack_bf16_pairs = {PairCols, PairColsTransposed, PairRows, PairRowsTransposed};
}

#else

inline void FillPackPairs(KernelTable&) {}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
