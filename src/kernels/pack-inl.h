// Packing kernels; see pack.h. They know storage and compute numbers and strides, not what the rows
// and columns mean. Included once per target.
#if defined(CONVGRAD_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PACK_INL_H_
#undef CONVGRAD_KERNELS_PACK_INL_H_
#else
#define CONVGRAD_KERNELS_PACK_INL_H_
#endif

#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/convert-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <class Stored>
void TransposeWidenOnes(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                        int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      to[col * to_stride + row] = WidenOne(from[row * from_stride + col]);
    }
  }
}

template <class Stored>
void TransposeNarrowOnes(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                         int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      to[col * to_stride + row] = NarrowOne<Stored>(from[row * from_stride + col]);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

template <class Stored>
void PackWiden(const Stored* from, ComputeType<Stored>* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = WidenOne(from[i]);
}

template <class Stored>
void PackNarrow(const ComputeType<Stored>* from, Stored* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = NarrowOne<Stored>(from[i]);
}

template <class Stored>
void PackTransposeWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                        int64_t to_stride, int64_t rows, int64_t cols, int64_t) {
  TransposeWidenOnes(from, from_stride, to, to_stride, rows, cols);
}

template <class Stored>
void PackTransposeNarrow(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                         int64_t to_stride, int64_t rows, int64_t cols, int64_t) {
  TransposeNarrowOnes(from, from_stride, to, to_stride, rows, cols);
}

template <class Stored>
void PackCopyWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                   int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      to[row * to_stride + col] = WidenOne(from[row * from_stride + col]);
    }
  }
}

template <class Stored>
void PackSplitWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                    int64_t block_stride, int64_t rows, int64_t cols, int64_t block_cols) {
  for (int64_t col = 0; col < cols; col += block_cols) {
    PackCopyWiden(from + col, from_stride, to, block_cols, rows, HWY_MIN(block_cols, cols - col));
    to += block_stride;
  }
}

// One lane.
template <class Stored>
void PackGatherWiden(const Stored* const* from, int64_t count, ComputeType<Stored>* to,
                     int64_t to_step) {
  for (int64_t k = 0; k < count; ++k) {
    to[k * to_step] = *from == nullptr ? ComputeType<Stored>{0} : WidenOne((*from)[k]);
  }
}

template <class Stored>
void PackScatterNarrow(const ComputeType<Stored>* from, int64_t from_step, int64_t count,
                       Stored* const* to) {
  if (*to == nullptr) return;
  for (int64_t k = 0; k < count; ++k) (*to)[k] = NarrowOne<Stored>(from[k * from_step]);
}

#else

template <class Stored>
using ComputeTag = hn::ScalableTag<ComputeType<Stored> >;

template <class Stored>
void PackWiden(const Stored* from, ComputeType<Stored>* to, int64_t count) {
  const ComputeTag<Stored> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(LoadWidened(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = WidenOne(from[i]);
}

template <class Stored>
void PackNarrow(const ComputeType<Stored>* from, Stored* to, int64_t count) {
  const ComputeTag<Stored> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) StoreNarrowed(d, hn::LoadU(d, from + i), to + i);
  for (; i < count; ++i) to[i] = NarrowOne<Stored>(from[i]);
}

// How many 128-bit blocks a vector has, and lanes a block.
template <class D>
inline constexpr size_t kBlockLanes = 16 / sizeof(hn::TFromD<D>);
template <class D>
inline constexpr size_t kBlocks = hn::MaxLanes(D()) / kBlockLanes<D>;

// Element e of block b of row r of each group of kBlockLanes rows moves to element r of block b of
// row e: rounds of the perfect shuffle.
template <class D, class V, size_t kLanes>
HWY_INLINE void TransposeInBlocks(D d, V (&v)[kLanes]) {
  constexpr size_t kRows = kBlockLanes<D>;
#pragma GCC unroll 16
  for (size_t round = 1; round < kRows; round *= 2) {
    V next[kLanes];
#pragma GCC unroll 16
    for (size_t i = 0; i < kLanes; ++i) {
      const size_t group = i / kRows * kRows;
      const V a = v[group + i % kRows / 2];
      const V b = v[group + i % kRows / 2 + kRows / 2];
      next[i] = i % 2 == 0 ? hn::InterleaveLower(d, a, b) : hn::InterleaveUpper(d, a, b);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kLanes; ++i) v[i] = next[i];
  }
}

// Block b of v[g * kBlockLanes + e] becomes block g of v[b * kBlockLanes + e]. Exchanging
// neighbours is a shuffle and two blends, exchanging halves two shuffles: 4 shuffles and 4 blends
// for 4 vectors.
template <class D, class V, size_t kLanes>
HWY_INLINE void TransposeBlocks(D d, V (&v)[kLanes]) {
  constexpr size_t kStep = kBlockLanes<D>;
#pragma GCC unroll 16
  for (size_t e = 0; e < kStep; ++e) {
    if constexpr (kBlocks<D> == 2) {
      const V a = v[e], b = v[kStep + e];
      v[e] = hn::ConcatLowerLower(d, b, a);
      v[kStep + e] = hn::ConcatUpperUpper(d, b, a);
    } else if constexpr (kBlocks<D> == 4) {
      const V a = v[e], b = v[kStep + e], c = v[2 * kStep + e], f = v[3 * kStep + e];
      const V even_ab = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a);
      const V odd_ab = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
      const V even_cf = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(f), c);
      const V odd_cf = hn::OddEvenBlocks(f, hn::SwapAdjacentBlocks(c));
      v[e] = hn::ConcatLowerLower(d, even_cf, even_ab);
      v[kStep + e] = hn::ConcatLowerLower(d, odd_cf, odd_ab);
      v[2 * kStep + e] = hn::ConcatUpperUpper(d, even_cf, even_ab);
      v[3 * kStep + e] = hn::ConcatUpperUpper(d, odd_cf, odd_ab);
    }
  }
}

// One square, or its first `rows` x `cols` part when kWhole is false.
template <bool kWhole, class D, class Load, class Store>
HWY_INLINE void TransposeSquare(D d, int64_t rows, int64_t cols, const Load& load,
                                const Store& store) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  hn::Vec<D> v[kLanes];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kLanes; ++i) v[i] = kWhole || i < rows ? load(i) : hn::Zero(d);
  TransposeInBlocks(d, v);
  TransposeBlocks(d, v);
#pragma GCC unroll 16
  for (int64_t i = 0; i < kLanes; ++i) {
    if (kWhole || i < cols) store(i, v[i]);
  }
}

// A square's worth of columns (or fewer) is not worth the shuffles below this many.
inline constexpr int64_t kFewLines = 2;

template <class Stored>
void TransposeWidenSquare(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                          int64_t to_stride, int64_t rows, int64_t cols) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  if (rows == kLanes && cols == kLanes) {
    TransposeSquare<true>(
        d, rows, cols, [&](int64_t i) { return LoadWidened(d, from + i * from_stride); },
        [&](int64_t i, V v) { hn::StoreU(v, d, to + i * to_stride); });
  } else if (rows <= kFewLines || cols <= kFewLines) {
    TransposeWidenOnes(from, from_stride, to, to_stride, rows, cols);
  } else {
    const auto kept = hn::FirstN(d, static_cast<size_t>(rows));
    TransposeSquare<false>(
        d, rows, cols, [&](int64_t i) { return LoadWidenedFirst(d, from + i * from_stride, cols); },
        [&](int64_t i, V v) {
          if (rows == kLanes) {  // masked stores are slow on some machines
            hn::StoreU(v, d, to + i * to_stride);
          } else {
            hn::BlendedStore(v, kept, d, to + i * to_stride);
          }
        });
  }
}

template <class Stored>
void TransposeNarrowSquare(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                           int64_t to_stride, int64_t rows, int64_t cols) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  if (rows == kLanes && cols == kLanes) {
    TransposeSquare<true>(
        d, rows, cols, [&](int64_t i) { return hn::LoadU(d, from + i * from_stride); },
        [&](int64_t i, V v) { StoreNarrowed(d, v, to + i * to_stride); });
  } else if (rows <= kFewLines || cols <= kFewLines) {
    TransposeNarrowOnes(from, from_stride, to, to_stride, rows, cols);
  } else {
    const auto kept = hn::FirstN(d, static_cast<size_t>(cols));
    TransposeSquare<false>(
        d, rows, cols, [&](int64_t i) { return hn::MaskedLoad(kept, d, from + i * from_stride); },
        [&](int64_t i, V v) {
          if (rows == kLanes) {
            StoreNarrowed(d, v, to + i * to_stride);
          } else {
            StoreNarrowedFirst(d, v, to + i * to_stride, rows);
          }
        });
  }
}

// Fetches, for each of `rows` rows, the line `ahead` elements behind, to read or to write it; there
// may be no such line.
template <bool kWrite = false, class Stored>
HWY_INLINE void FetchLines(const Stored* from, int64_t from_stride, int64_t rows, int64_t ahead) {
  uintptr_t at = reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(ahead) * sizeof(Stored);
  for (int64_t row = 0; row < rows; ++row) {
    __builtin_prefetch(reinterpret_cast<const void*>(at), kWrite, 2);
    at += static_cast<uintptr_t>(from_stride) * sizeof(Stored);
  }
}

// Planes (long rows) to pixels: a few rows at a time, along them, so that each is one stream. One
// line is fetched ahead for each that is read: the machine drops most of a burst of fetches.
template <class Stored>
void PackTransposeWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                        int64_t to_stride, int64_t rows, int64_t cols, int64_t ahead) {
  constexpr int64_t kLanes = hn::MaxLanes(ComputeTag<Stored>());
  constexpr int64_t kLine = 64 / sizeof(Stored);
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int64_t num_rows = HWY_MIN(kLanes, rows - row);
    for (int64_t col = 0; col < cols; col += kLanes) {
      const Stored* corner = from + row * from_stride + col;
      if (ahead != 0 && col % kLine == 0) FetchLines(corner, from_stride, num_rows, ahead);
      TransposeWidenSquare(corner, from_stride, to + col * to_stride + row, to_stride, num_rows,
                           HWY_MIN(kLanes, cols - col));
    }
  }
}

// Pixels to planes: a few planes at a time; with all of them inside, 256 planes took twice as long.
template <class Stored>
void PackTransposeNarrow(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                         int64_t to_stride, int64_t rows, int64_t cols, int64_t ahead) {
  constexpr int64_t kLanes = hn::MaxLanes(ComputeTag<Stored>());
  constexpr int64_t kLine = 64 / sizeof(Stored);
  for (int64_t col = 0; col < cols; col += kLanes) {
    const int64_t num_cols = HWY_MIN(kLanes, cols - col);
    for (int64_t row = 0; row < rows; row += kLanes) {
      Stored* corner = to + col * to_stride + row;
      if (ahead != 0 && row % kLine == 0) FetchLines<true>(corner, to_stride, num_cols, ahead);
      TransposeNarrowSquare(from + row * from_stride + col, from_stride, corner, to_stride,
                            HWY_MIN(kLanes, rows - row), num_cols);
    }
  }
}

// Rows of kLanes columns or more, as whole vectors of kLanes: the last one of a row ends at the
// row's end, over columns that are already there. Nothing is masked and nothing behind a row
// touched.
template <size_t kLanes, class Stored>
HWY_INLINE void CopyRows(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                         int64_t to_stride, int64_t rows, int64_t cols) {
  const hn::CappedTag<ComputeType<Stored>, kLanes> d;
  constexpr int64_t kStep = kLanes;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols - kStep; col += kStep) {
      hn::StoreU(LoadWidened(d, from + col), d, to + col);
    }
    hn::StoreU(LoadWidened(d, from + cols - kStep), d, to + cols - kStep);
    from += from_stride;
    to += to_stride;
  }
}

template <class Stored>
HWY_INLINE void PackCopyWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                              int64_t to_stride, int64_t rows, int64_t cols) {
  constexpr int64_t kMost = hn::MaxLanes(ComputeTag<Stored>());
  if (cols >= kMost) return CopyRows<kMost>(from, from_stride, to, to_stride, rows, cols);
  if constexpr (kMost > 8) {
    if (cols >= 8) return CopyRows<8>(from, from_stride, to, to_stride, rows, cols);
  }
  if constexpr (kMost > 4) {
    if (cols >= 4) return CopyRows<4>(from, from_stride, to, to_stride, rows, cols);
  }
  if (cols >= 2) return CopyRows<2>(from, from_stride, to, to_stride, rows, cols);
  for (int64_t row = 0; row < rows * cols; ++row)
    to[row * to_stride] = WidenOne(from[row * from_stride]);
}

// A few rows at a time for all blocks, so that rows are read in memory order: rows a power of two
// apart would otherwise push each other out of the cache from block to block.
template <class Stored>
void PackSplitWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                    int64_t block_stride, int64_t rows, int64_t cols, int64_t block_cols) {
  constexpr int64_t kRowsTogether = 4, kLine = 64 / sizeof(Stored);
  // The machine's own prefetcher does not follow several short streams.
  constexpr int64_t kAhead = (16 << 10) / sizeof(Stored);
  const int64_t ahead = HWY_MAX(kAhead / from_stride, kRowsTogether) * from_stride;
  for (int64_t row = 0; row < rows; row += kRowsTogether) {
    const int64_t num_rows = HWY_MIN(kRowsTogether, rows - row);
    ComputeType<Stored>* block = to + row * block_cols;
    for (int64_t col = 0; col < cols; col += kLine) {
      FetchLines(from + row * from_stride + col, from_stride, num_rows, ahead);
    }
    for (int64_t col = 0; col < cols; col += block_cols) {
      PackCopyWiden(from + row * from_stride + col, from_stride, block, block_cols, num_rows,
                    HWY_MIN(block_cols, cols - col));
      block += block_stride;
    }
  }
}

// A square at a time from as many streams as a vector has lanes.
template <class Stored>
void PackGatherWiden(const Stored* const* from, int64_t count, ComputeType<Stored>* to,
                     int64_t to_step) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t k = 0; k < count; k += kLanes, to += kLanes * to_step) {
    const auto store = [&](int64_t i, V v) { hn::StoreU(v, d, to + i * to_step); };
    if (count - k >= kLanes) {
      TransposeSquare<true>(
          d, kLanes, kLanes,
          [&](int64_t i) { return from[i] == nullptr ? hn::Zero(d) : LoadWidened(d, from[i] + k); },
          store);
    } else {
      TransposeSquare<false>(
          d, kLanes, count - k,
          [&](int64_t i) {
            return from[i] == nullptr ? hn::Zero(d) : LoadWidenedFirst(d, from[i] + k, count - k);
          },
          store);
    }
  }
}

template <class Stored>
void PackScatterNarrow(const ComputeType<Stored>* from, int64_t from_step, int64_t count,
                       Stored* const* to) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t k = 0; k < count; k += kLanes, from += kLanes * from_step) {
    const auto load = [&](int64_t i) { return hn::LoadU(d, from + i * from_step); };
    if (count - k >= kLanes) {
      TransposeSquare<true>(d, kLanes, kLanes, load, [&](int64_t i, V v) {
        if (to[i] != nullptr) StoreNarrowed(d, v, to[i] + k);
      });
    } else {
      TransposeSquare<false>(d, count - k, kLanes, load, [&](int64_t i, V v) {
        if (to[i] != nullptr) StoreNarrowedFirst(d, v, to[i] + k, count - k);
      });
    }
  }
}

#endif  // HWY_TARGET

template <class Stored>
PackKernels<Stored> MakePackKernels() {
  return {PackWiden<Stored>,           PackNarrow<Stored>,       PackTransposeWiden<Stored>,
          PackTransposeNarrow<Stored>, PackCopyWiden<Stored>,    PackSplitWiden<Stored>,
          PackGatherWiden<Stored>,     PackScatterNarrow<Stored>};
}

inline void FillPack(KernelTable& table) {
  table.pack_f16 = MakePackKernels<Float16>();
  table.pack_bf16 = MakePackKernels<BFloat16>();
  table.pack_f32 = MakePackKernels<float>();
  table.pack_f64 = MakePackKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
