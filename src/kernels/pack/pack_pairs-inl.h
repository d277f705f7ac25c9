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
#include "kernels/pack/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

// A pair moves like a float.
using PairTag = hn::ScalableTag<float>;
using PairVector = hn::Vec<PairTag>;
inline constexpr int64_t kPairs = hn::MaxLanes(PairTag());

using NumberTag = hn::ScalableTag<uint16_t>;          // of kPairs pairs
using HalfNumberTag = hn::Rebind<uint16_t, PairTag>;  // of kPairs numbers

HWY_INLINE const uint16_t* BitsOf(const BFloat16* numbers) {
  return reinterpret_cast<const uint16_t*>(numbers);
}

// kPairs pairs from, and to, memory; the first `count` of them, the others zero.
HWY_INLINE PairVector LoadPairs(const BFloat16* from, int64_t num_numbers) {
  const NumberTag d;
  const auto kept = hn::FirstN(d, static_cast<size_t>(HWY_MIN(num_numbers, 2 * kPairs)));
  return hn::BitCast(PairTag(), hn::MaskedLoad(kept, d, BitsOf(from)));
}
HWY_INLINE void StorePairs(PairVector pairs, BFloat16Pair* to, int64_t count) {
  auto* floats = reinterpret_cast<float*>(to);
  if (count >= kPairs) return hn::StoreU(pairs, PairTag(), floats);
  hn::BlendedStore(pairs, hn::FirstN(PairTag(), static_cast<size_t>(count)), PairTag(), floats);
}

// Numbers [begin, end) of the kPairs that start at `from`, each with a zero above it.
HWY_INLINE hn::Vec<hn::ScalableTag<uint32_t>> LoadNumbers(const BFloat16* from, int64_t begin,
                                                          int64_t end) {
  const HalfNumberTag d;
  const auto first = [&](int64_t count) {
    return hn::FirstN(d, static_cast<size_t>(HWY_MAX(0, HWY_MIN(count, kPairs))));
  };
  const auto kept = hn::AndNot(first(begin), first(end));
  return hn::PromoteTo(hn::ScalableTag<uint32_t>(), hn::MaskedLoad(kept, d, BitsOf(from)));
}

HWY_INLINE PairVector Combine(hn::Vec<hn::ScalableTag<uint32_t>> first,
                              hn::Vec<hn::ScalableTag<uint32_t>> second) {
  return hn::BitCast(PairTag(), hn::Or(first, hn::ShiftLeft<16>(second)));
}

// The first `count` numbers, or all kPairs, each with a zero above it; a null row reads as zeros.
// It is not read by an empty mask: that takes processors hundreds of steps where no memory is.
HWY_INLINE hn::Vec<hn::ScalableTag<uint32_t>> LoadRow(const BFloat16* row, int64_t count) {
  const hn::ScalableTag<uint32_t> d;
  const HalfNumberTag dh;
  if (row == nullptr) return hn::Zero(d);
  if (count >= kPairs) return hn::PromoteTo(d, hn::LoadU(dh, BitsOf(row)));
  return hn::PromoteTo(d,
                       hn::MaskedLoad(hn::FirstN(dh, static_cast<size_t>(count)), dh, BitsOf(row)));
}

// One number of each of two rows, the first `count` of them.
HWY_INLINE PairVector CombineRows(const BFloat16* first, const BFloat16* second, int64_t count) {
  return Combine(LoadRow(first, count), LoadRow(second, count));
}

// Where the numbers of two vectors are, of two vectors of their pairs.
struct PairPlaces {
  HWY_ALIGN uint16_t at[4 * kPairs] = {};

  constexpr PairPlaces() {
    for (int i = 0; i < 4 * kPairs; ++i) {
      at[i] = static_cast<uint16_t>(i / 2 + i % 2 * 2 * kPairs);
    }
  }
};
inline constexpr PairPlaces kPairPlaces;

// Numbers from these places of one vector, or, behind them, of two. As assembly: the library has
// no such look-up of 16 bits.
HWY_INLINE hn::Vec<NumberTag> FromOne(hn::Vec<NumberTag> one, hn::Vec<NumberTag> places) {
  hn::Vec<NumberTag> found;
  asm("vpermw %1, %2, %0" : "=v"(found.raw) : "v"(one.raw), "v"(places.raw));
  return found;
}
HWY_INLINE hn::Vec<NumberTag> FromTwo(hn::Vec<NumberTag> one, hn::Vec<NumberTag> other,
                                      hn::Vec<NumberTag> places) {
  asm("vpermt2w %1, %2, %0" : "+v"(one.raw) : "v"(other.raw), "v"(places.raw));
  return one;
}

// One number of each of two rows, `cols` pairs; a null row reads as zeros.
HWY_INLINE void StoreCombined(const BFloat16* first, const BFloat16* second, BFloat16Pair* to,
                              int64_t cols) {
  const NumberTag d;
  int64_t col = 0;
  if (first != nullptr && second != nullptr && cols >= 2 * kPairs) {
    const auto low = hn::Load(d, kPairPlaces.at);
    const auto high = hn::Load(d, kPairPlaces.at + 2 * kPairs);
    for (; col + 2 * kPairs <= cols; col += 2 * kPairs) {
      const auto one = hn::LoadU(d, BitsOf(first + col));
      const auto other = hn::LoadU(d, BitsOf(second + col));
      auto* bits = reinterpret_cast<uint16_t*>(to + col);
      hn::StoreU(FromTwo(one, other, low), d, bits);
      hn::StoreU(FromTwo(one, other, high), d, bits + 2 * kPairs);
    }
  }
  for (; col < cols; col += kPairs) {
    StorePairs(CombineRows(first == nullptr ? nullptr : first + col,
                           second == nullptr ? nullptr : second + col, cols - col),
               to + col, cols - col);
  }
}

// Pair i and the following ones.
HWY_INLINE PairVector CombineApart(const BFloat16* row, const PairsApart& pairs, int64_t i) {
  const int64_t first = pairs.begin + i, second = first + pairs.apart;
  return Combine(LoadNumbers(row + first, -first, pairs.cols - first),
                 LoadNumbers(row + second, -second, pairs.cols - second));
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

// Rows without room between them, of an odd number of columns that fits a vector: as many rows as
// a vector of pairs has place for at a time.
void PairOddCols(const BFloat16* from, BFloat16Pair* to, int64_t rows, int64_t cols) {
  const NumberTag d;
  const int64_t pairs = (cols + 1) / 2, most = kPairs / pairs;
  HWY_ALIGN uint16_t places[2 * kPairs], kept[2 * kPairs];
  for (int64_t i = 0; i < 2 * kPairs; ++i) {
    const int64_t row = i / (2 * pairs), col = i % (2 * pairs);
    const bool holds = row < most && col < cols;
    places[i] = static_cast<uint16_t>(holds ? row * cols + col : 0);
    kept[i] = holds ? 0xFFFF : 0;
  }
  const auto numbers_at = hn::Load(d, places), mask = hn::Load(d, kept);
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t count = HWY_MIN(most, rows - row);
    const auto numbers = hn::BitCast(d, LoadPairs(from + row * cols, count * cols));
    const auto placed = hn::And(FromOne(numbers, numbers_at), mask);
    StorePairs(hn::BitCast(PairTag(), placed), to + row * pairs, count * pairs);
  }
}

void PairCols(const BFloat16* from, int64_t from_stride, BFloat16Pair* to, int64_t to_stride,
              int64_t rows, int64_t cols) {
  if (cols % 2 == 0) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(to + row * to_stride, from + row * from_stride,
                  static_cast<size_t>(cols / 2) * sizeof(BFloat16Pair));
    }
    return;
  }
  const int64_t pairs = (cols + 1) / 2;
  if (from_stride == cols && to_stride == pairs && pairs <= kPairs) {
    return PairOddCols(from, to, rows, cols);
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t pair = 0; pair < pairs; pair += kPairs) {
      StorePairs(LoadPairs(from + row * from_stride + 2 * pair, cols - 2 * pair),
                 to + row * to_stride + pair, pairs - pair);
    }
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
  constexpr int64_t kLine = 64 / sizeof(BFloat16);
  for (int64_t row = 0; row < rows; row += 2) {
    const BFloat16* const first = from + row * from_stride;
    const BFloat16* const second = row + 1 < rows ? first + from_stride : nullptr;
    for (int64_t col = 0; col < cols; col += kLine) {
      FetchLines(first + col, from_stride, 2, 2 * from_stride);
      StoreCombined(first + col, second == nullptr ? nullptr : second + col,
                    to + row / 2 * to_stride + col, HWY_MIN(kLine, cols - col));
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

// Whole blocks of fewer than two vectors of pairs, of two rows; returns their columns. Masks are
// made once for all blocks.
HWY_INLINE int64_t SplitNarrowBlocks(const BFloat16* first, const BFloat16* second,
                                     BFloat16Pair* to, int64_t block_stride, int64_t cols,
                                     int64_t block_cols) {
  const hn::ScalableTag<uint32_t> d;
  const HalfNumberTag dh;
  const int64_t whole = block_cols / kPairs * kPairs, rest = block_cols - whole;
  const auto kept = hn::FirstN(dh, static_cast<size_t>(rest));
  const auto kept_pairs = hn::FirstN(PairTag(), static_cast<size_t>(rest));
  int64_t col = 0;
  for (; col + block_cols <= cols; col += block_cols, to += block_stride) {
    if (whole > 0) StorePairs(CombineRows(first + col, second + col, kPairs), to, kPairs);
    if (rest == 0) continue;
    const int64_t at = col + whole;
    const auto one = hn::PromoteTo(d, hn::MaskedLoad(kept, dh, BitsOf(first + at)));
    const auto other = hn::PromoteTo(d, hn::MaskedLoad(kept, dh, BitsOf(second + at)));
    hn::BlendedStore(Combine(one, other), kept_pairs, PairTag(),
                     reinterpret_cast<float*>(to + whole));
  }
  return col;
}

void PairSplit(const BFloat16* first, const BFloat16* second, int64_t from_stride, BFloat16Pair* to,
               int64_t block_stride, int64_t rows, int64_t cols, int64_t block_cols) {
  // The machine's own prefetcher does not follow several short streams.
  constexpr int64_t kAhead = (16 << 10) / sizeof(BFloat16), kLine = 64 / sizeof(BFloat16);
  const int64_t ahead = HWY_MAX(kAhead / from_stride, 1) * from_stride;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; col += kLine) {
      if (first != nullptr) FetchLines(first + col, from_stride, 1, ahead);
      if (second != nullptr) FetchLines(second + col, from_stride, 1, ahead);
    }
    BFloat16Pair* block = to + row * block_cols;
    int64_t col = 0;
    if (block_cols < 2 * kPairs && first != nullptr && second != nullptr) {
      col = SplitNarrowBlocks(first, second, block, block_stride, cols, block_cols);
      block += col / block_cols * block_stride;
    }
    for (; col < cols; col += block_cols) {
      StoreCombined(first == nullptr ? nullptr : first + col,
                    second == nullptr ? nullptr : second + col, block,
                    HWY_MIN(block_cols, cols - col));
      block += block_stride;
    }
    if (first != nullptr) first += from_stride;
    if (second != nullptr) second += from_stride;
  }
}

void PairApart(const BFloat16* from, int64_t from_stride, const PairsApart& pairs, BFloat16Pair* to,
               int64_t to_stride, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < pairs.count; i += kPairs) {
      StorePairs(CombineApart(from + row * from_stride, pairs, i), to + row * to_stride + i,
                 pairs.count - i);
    }
  }
}

void PairApartTransposed(const BFloat16* from, int64_t from_stride, const PairsApart& pairs,
                         BFloat16Pair* to, int64_t to_stride, int64_t rows) {
  const auto load = [&](int64_t row, int64_t i) {
    return CombineApart(from + row * from_stride, pairs, i);
  };
  TransposePairs(rows, pairs.count, load, to, to_stride);
}

// load(place, k): the pairs from k on of a place that is not null.
template <class Load>
HWY_INLINE void GatherPairs(const BFloat16* const* from, int64_t count, BFloat16Pair* to,
                            int64_t to_step, const Load& load) {
  for (int64_t k = 0; k < count; k += kPairs) {
    const auto load_place = [&](int64_t i) {
      return from[i] == nullptr ? hn::Zero(PairTag()) : load(from[i], k);
    };
    const auto store = [&](int64_t i, PairVector v) {
      StorePairs(v, to + (k + i) * to_step, kPairs);
    };
    if (count - k >= kPairs) {
      TransposeSquare<true>(PairTag(), kPairs, kPairs, load_place, store);
    } else {
      TransposeSquare<false>(PairTag(), kPairs, count - k, load_place, store);
    }
  }
}

void PairGatherCols(const BFloat16* const* from, int64_t count, BFloat16Pair* to, int64_t to_step) {
  GatherPairs(from, count, to, to_step, [&](const BFloat16* place, int64_t k) {
    return LoadPairs(place + 2 * k, 2 * (count - k));
  });
}

void PairGatherRows(const BFloat16* const* from, int64_t apart, int64_t count, BFloat16Pair* to,
                    int64_t to_step, int64_t ahead) {
  GatherPairs(from, count, to, to_step, [&](const BFloat16* place, int64_t k) {
    constexpr int64_t kLine = 64 / sizeof(BFloat16);
    if (k % kLine == 0) FetchLines(place + k, apart, 2, ahead);
    return CombineRows(place + k, place + k + apart, count - k);
  });
}

BFloat16Magnitudes PairMagnitudes(const BFloat16* numbers, int64_t count) {
  const NumberTag d;
  constexpr int64_t kNumbers = 2 * kPairs;
  const auto one = hn::Set(d, 1), sign = hn::Set(d, 0x8000);
  auto least_less_one = hn::Set(d, 0xFFFF), greatest = hn::Zero(d);
  const auto look_at = [&](hn::Vec<NumberTag> bits) HWY_ATTR {
    const auto magnitude = hn::AndNot(sign, bits);
    // Less one, zero is the greatest of all.
    least_less_one = hn::Min(least_less_one, hn::Sub(magnitude, one));
    greatest = hn::Max(greatest, magnitude);
  };
  int64_t i = 0;
  for (; i + kNumbers <= count; i += kNumbers) look_at(hn::LoadU(d, BitsOf(numbers + i)));
  if (i < count) {
    const auto kept = hn::FirstN(d, static_cast<size_t>(count - i));
    look_at(hn::MaskedLoad(kept, d, BitsOf(numbers + i)));
  }
  uint16_t least[kNumbers], most[kNumbers];
  hn::StoreU(least_less_one, d, least);
  hn::StoreU(greatest, d, most);
  BFloat16Magnitudes result{0xFFFF, 0};
  for (int64_t lane = 0; lane < kNumbers; ++lane) {
    if (least[lane] != 0xFFFF)
      result.least = HWY_MIN(result.least, static_cast<uint16_t>(least[lane] + 1));
    result.greatest = HWY_MAX(result.greatest, most[lane]);
  }
  return result;
}

inline void FillPackPairs(KernelTable& table) {
  if (!table.has_bf16_pairs) return;
  table.pack_bf16_pairs = {
      PairCols,  PairColsTransposed,  PairRows,       PairRowsTransposed, PairSplit,
      PairApart, PairApartTransposed, PairGatherCols, PairGatherRows,     PairMagnitudes};
}

#else

inline void FillPackPairs(KernelTable&) {}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
