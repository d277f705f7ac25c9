// Transposing kernels between storage and compute form, of any size from squares in registers; see
// pack.h. Included once per target.
#if defined(CONVGRAD_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_TRANSPOSE_INL_H_
#undef CONVGRAD_KERNELS_TRANSPOSE_INL_H_
#else
#define CONVGRAD_KERNELS_TRANSPOSE_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "kernels/simd/convert-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <class Stored>
using ComputeTag = hn::ScalableTag<ComputeType<Stored> >;

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
void PackTransposeStream(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                         int64_t to_stride, int64_t rows, int64_t cols) {
  TransposeNarrowOnes(from, from_stride, to, to_stride, rows, cols);
}

#else

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

// The blocks of a whole square loaded one by one into their places: only the shuffles within blocks
// are left.
template <class D, class T>
HWY_INLINE void LoadBlocks(D d, const T* from, int64_t from_stride,
                           hn::Vec<D> (&v)[hn::MaxLanes(D())]) {
  constexpr int64_t kLanes = hn::MaxLanes(d), kStep = kBlockLanes<D>;
  const hn::Half<D> half;
  const hn::Half<decltype(half)> block;
  const int64_t step = kStep * from_stride;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kLanes; ++i) {
    const T* at = from + i % kStep * from_stride + i / kStep * kStep;
    const auto load = [&](int64_t b) HWY_ATTR { return hn::LoadU(block, at + b * step); };
    v[i] = hn::Combine(d, hn::Combine(half, load(3), load(2)), hn::Combine(half, load(1), load(0)));
  }
}

// A whole square from where it lies. Rows far apart, which come from beyond the first cache, are
// loaded as whole vectors, so that every line is read once; near ones as blocks.
template <class D, class T, class Store>
HWY_INLINE void TransposeStoredSquare(D d, const T* from, int64_t from_stride, const Store& store) {
  constexpr int64_t kLanes = hn::MaxLanes(d), kNear = 4096 / sizeof(T);
  if constexpr (kBlocks<D> == 4) {
    if (from_stride <= kNear) {
      hn::Vec<D> v[kLanes];
      LoadBlocks(d, from, from_stride, v);
      TransposeInBlocks(d, v);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kLanes; ++i) store(i, v[i]);
      return;
    }
  }
  TransposeSquare<true>(
      d, kLanes, kLanes, [&](int64_t i) { return hn::LoadU(d, from + i * from_stride); }, store);
}

// So few rows or columns are not worth the shuffles.
inline constexpr int64_t kFewLines = 2;

template <class Stored>
void TransposeWidenSquare(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                          int64_t to_stride, int64_t rows, int64_t cols) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  if (rows == kLanes && cols == kLanes) {
    const auto store = [&](int64_t i, V v) { hn::StoreU(v, d, to + i * to_stride); };
    if constexpr (std::is_same_v<Stored, ComputeType<Stored> >) {
      TransposeStoredSquare(d, from, from_stride, store);
    } else {
      TransposeSquare<true>(
          d, rows, cols, [&](int64_t i) { return LoadWidened(d, from + i * from_stride); }, store);
    }
  } else if (rows <= kFewLines || cols <= kFewLines) {
    TransposeWidenOnes(from, from_stride, to, to_stride, rows, cols);
  } else {
    TransposeSquare<false>(
        d, rows, cols, [&](int64_t i) { return LoadWidenedFirst(d, from + i * from_stride, cols); },
        [&](int64_t i, V v) { StoreUpTo(d, v, to + i * to_stride, rows); });
  }
}

template <class Stored>
void TransposeNarrowSquare(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                           int64_t to_stride, int64_t rows, int64_t cols) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  if (rows == kLanes && cols == kLanes) {
    TransposeStoredSquare(d, from, from_stride,
                          [&](int64_t i, V v) { StoreNarrowed(d, v, to + i * to_stride); });
  } else if (rows <= kFewLines || cols <= kFewLines) {
    TransposeNarrowOnes(from, from_stride, to, to_stride, rows, cols);
  } else {
    TransposeSquare<false>(
        d, rows, cols, [&](int64_t i) { return LoadFirst(d, from + i * from_stride, cols); },
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

// Rows of one to four planes become pixels that lie one right behind the other. Squares would be
// mostly empty.
template <int64_t kRows, class Stored>
void InterleaveWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to, int64_t cols,
                     int64_t ahead) {
  const ComputeTag<Stored> d;
  constexpr int64_t kLanes = hn::MaxLanes(d), kLine = 64 / sizeof(Stored);
  int64_t col = 0;
  for (; col + kLanes <= cols; col += kLanes) {
    const Stored* at = from + col;
    if (ahead != 0 && col % kLine == 0) FetchLines(at, from_stride, kRows, ahead);
    const auto row = [&](int64_t i) HWY_ATTR { return LoadWidened(d, at + i * from_stride); };
    if constexpr (kRows == 1) {
      hn::StoreU(row(0), d, to + col);
    } else if constexpr (kRows == 2) {
      hn::StoreInterleaved2(row(0), row(1), d, to + col * kRows);
    } else if constexpr (kRows == 3) {
      hn::StoreInterleaved3(row(0), row(1), row(2), d, to + col * kRows);
    } else {
      hn::StoreInterleaved4(row(0), row(1), row(2), row(3), d, to + col * kRows);
    }
  }
  TransposeWidenOnes(from + col, from_stride, to + col * kRows, kRows, kRows, cols - col);
}

// Planes (long rows) to pixels: a few rows at a time, along them, so that each is one stream. One
// line is fetched ahead for each that is read: the machine drops most of a burst of fetches.
template <class Stored>
void PackTransposeWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                        int64_t to_stride, int64_t rows, int64_t cols, int64_t ahead) {
  if (to_stride == rows) {
    if (rows == 1) return InterleaveWiden<1>(from, from_stride, to, cols, ahead);
    if (rows == 2) return InterleaveWiden<2>(from, from_stride, to, cols, ahead);
    if (rows == 3) return InterleaveWiden<3>(from, from_stride, to, cols, ahead);
    if (rows == 4) return InterleaveWiden<4>(from, from_stride, to, cols, ahead);
  }
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

// As many squares below each other as make lines of the result, written around the caches. Parts of
// a line that are not written one right after the other take several times as long.
template <class D, class T>
HWY_INLINE void TransposeStreamLines(D d, const T* from, int64_t from_stride, T* to,
                                     int64_t to_stride) {
  using V = hn::Vec<D>;
  constexpr int64_t kLanes = hn::MaxLanes(d), kParts = 64 / sizeof(T) / kLanes;
  V lines[kParts][kLanes];
#pragma GCC unroll 2
  for (int64_t part = 0; part < kParts; ++part) {
    const T* corner = from + part * kLanes * from_stride;
    TransposeSquare<true>(
        d, kLanes, kLanes, [&](int64_t i) { return hn::LoadU(d, corner + i * from_stride); },
        [&](int64_t i, V v) { lines[part][i] = CanonicalNaN(d, v); });
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < kLanes; ++i) {
#pragma GCC unroll 2
    for (int64_t part = 0; part < kParts; ++part) {
      hn::Stream(lines[part][i], d, to + i * to_stride + part * kLanes);
    }
  }
}

// For numbers that are stored as they are computed and vectors of at least half a line.
template <class Stored>
void PackTransposeStream(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                         int64_t to_stride, int64_t rows, int64_t cols) {
  const ComputeTag<Stored> d;
  constexpr int64_t kLanes = hn::MaxLanes(d), kLine = 64 / sizeof(Stored);
  if constexpr (std::is_same_v<Stored, ComputeType<Stored> > && 2 * kLanes >= kLine) {
    if (reinterpret_cast<uintptr_t>(to) % 64 == 0 && to_stride % kLine == 0) {
      const int64_t whole = rows / kLine * kLine;
      for (int64_t col = 0; col + kLanes <= cols; col += kLanes) {
        for (int64_t row = 0; row < whole; row += kLine) {
          TransposeStreamLines(d, from + row * from_stride + col, from_stride,
                               to + col * to_stride + row, to_stride);
        }
      }
      const int64_t left = cols / kLanes * kLanes;
      PackTransposeNarrow(from + whole * from_stride, from_stride, to + whole, to_stride,
                          rows - whole, left, 0);
      PackTransposeNarrow(from + left, from_stride, to + left * to_stride, to_stride, rows,
                          cols - left, 0);
      return;
    }
  }
  PackTransposeNarrow(from, from_stride, to, to_stride, rows, cols, 0);
}

#endif  // HWY_TARGET

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
