// Packing kernels; see pack.h. They know storage and compute numbers and strides, not what the rows
// and columns mean. Included once per target.
#if defined(CONVGRAD_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PACK_INL_H_
#undef CONVGRAD_KERNELS_PACK_INL_H_
#else
#define CONVGRAD_KERNELS_PACK_INL_H_
#endif

#include <type_traits>
#include <utility>

#include "kernels/kernel_table.h"
#include "kernels/pack/stream_bytes-inl.h"
#include "kernels/pack/transpose-inl.h"
#include "kernels/pack/transpose_steps-inl.h"
#include "kernels/simd/convert-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <class Stored>
void PackWiden(const Stored* from, ComputeType<Stored>* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = WidenOne(from[i]);
}

template <class Stored>
void PackNarrow(const ComputeType<Stored>* from, Stored* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = NarrowOne<Stored>(from[i]);
}

template <class T>
void PackSwapPairs(T* rows, int64_t pairs, int64_t width) {
  for (int64_t i = 0; i < pairs; ++i, rows += 2 * width) {
    for (int64_t col = 0; col < width; ++col) std::swap(rows[col], rows[width + col]);
  }
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
                    int64_t block_stride, int64_t rows, int64_t groups, int64_t cols,
                    int64_t block_cols) {
  for (int64_t group = 0; group < groups; ++group, from += cols) {
    for (int64_t col = 0; col < cols; col += block_cols, to += block_stride) {
      PackCopyWiden(from + col, from_stride, to, block_cols, rows, HWY_MIN(block_cols, cols - col));
    }
  }
}

// One lane.
template <class Stored>
void PackGatherWiden(const Stored* const* from, int64_t count, ComputeType<Stored>* to,
                     int64_t to_step, int64_t) {
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

// How numbers of a row go into another, by vectors and one by one.
struct Widening {
  template <class D, class Stored>
  static HWY_INLINE void Move(D d, const Stored* from, hn::TFromD<D>* to) {
    hn::StoreU(LoadWidened(d, from), d, to);
  }
  template <class Stored>
  static HWY_INLINE void MoveOne(const Stored* from, ComputeType<Stored>* to) {
    *to = WidenOne(*from);
  }
};
struct Narrowing {
  template <class D, class Stored>
  static HWY_INLINE void Move(D d, const hn::TFromD<D>* from, Stored* to) {
    StoreNarrowed(d, hn::LoadU(d, from), to);
  }
  template <class Stored>
  static HWY_INLINE void MoveOne(const ComputeType<Stored>* from, Stored* to) {
    *to = NarrowOne<Stored>(*from);
  }
};

// Rows of columns that lie at `from` and come to lie at `to`, so many numbers apart.
template <class From, class To>
struct MovedRows {
  const From* from;
  int64_t from_stride;
  To* to;
  int64_t to_stride;
  int64_t rows, cols;
};

// Rows of kLanes columns or more, as whole vectors of kLanes: the last one of a row ends at the
// row's end, over columns that are already there. Nothing is masked and nothing behind a row
// touched.
template <class Moving, size_t kLanes, class Compute, class From, class To>
HWY_INLINE void MoveWideRows(MovedRows<From, To> moved) {
  const hn::CappedTag<Compute, kLanes> d;
  constexpr int64_t kStep = kLanes;
  for (int64_t row = 0; row < moved.rows; ++row) {
    for (int64_t col = 0; col < moved.cols - kStep; col += kStep) {
      Moving::Move(d, moved.from + col, moved.to + col);
    }
    Moving::Move(d, moved.from + moved.cols - kStep, moved.to + moved.cols - kStep);
    moved.from += moved.from_stride;
    moved.to += moved.to_stride;
  }
}

template <class Moving, class Compute, class From, class To>
HWY_INLINE void MoveRows(const MovedRows<From, To>& moved) {
  constexpr int64_t kMost = hn::MaxLanes(hn::ScalableTag<Compute>());
  if (moved.cols >= kMost) return MoveWideRows<Moving, kMost, Compute>(moved);
  if constexpr (kMost > 8) {
    if (moved.cols >= 8) return MoveWideRows<Moving, 8, Compute>(moved);
  }
  if constexpr (kMost > 4) {
    if (moved.cols >= 4) return MoveWideRows<Moving, 4, Compute>(moved);
  }
  if (moved.cols >= 2) return MoveWideRows<Moving, 2, Compute>(moved);
  for (int64_t row = 0; row < moved.rows * moved.cols; ++row) {
    Moving::MoveOne(moved.from + row * moved.from_stride, moved.to + row * moved.to_stride);
  }
}

template <class Stored>
void PackWiden(const Stored* from, ComputeType<Stored>* to, int64_t count) {
  using Compute = ComputeType<Stored>;
  MoveRows<Widening, Compute>(MovedRows<Stored, Compute>{from, count, to, count, 1, count});
}

template <class Stored>
void PackNarrow(const ComputeType<Stored>* from, Stored* to, int64_t count) {
  using Compute = ComputeType<Stored>;
  MoveRows<Narrowing, Compute>(MovedRows<Compute, Stored>{from, count, to, count, 1, count});
}

template <class T>
void PackSwapPairs(T* rows, int64_t pairs, int64_t width) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const int64_t vector_pairs = width == 1 ? pairs / (kLanes / 2) : 0;  // of neighbours
  for (int64_t i = 0; i < vector_pairs; ++i, rows += kLanes) {
    hn::StoreU(hn::Reverse2(d, hn::LoadU(d, rows)), d, rows);
  }
  for (int64_t i = vector_pairs * (kLanes / 2); i < pairs; ++i, rows += 2 * width) {
    int64_t col = 0;
    for (; col + kLanes <= width; col += kLanes) {
      const auto first = hn::LoadU(d, rows + col);
      hn::StoreU(hn::LoadU(d, rows + width + col), d, rows + col);
      hn::StoreU(first, d, rows + width + col);
    }
    for (; col < width; ++col) std::swap(rows[col], rows[width + col]);
  }
}

// Every second number of a row is copied; nothing behind the last one is read.
template <class T>
HWY_INLINE void CopyEverySecond(const T* from, T* to, int64_t count) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes < count; i += lanes) {
    hn::Vec<decltype(d)> even, odd;
    hn::LoadInterleaved2(d, from + 2 * i, even, odd);
    hn::StoreU(even, d, to + i);
  }
  for (; i < count; ++i) to[i] = from[2 * i];
}

template <class Stored>
HWY_INLINE void PackCopyWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                              int64_t to_stride, int64_t rows, int64_t cols) {
  if constexpr (std::is_same_v<Stored, ComputeType<Stored> >) {
    if (cols == 1 && from_stride == 2 && to_stride == 1) return CopyEverySecond(from, to, rows);
  }
  using Compute = ComputeType<Stored>;
  MoveRows<Widening, Compute>(
      MovedRows<Stored, Compute>{from, from_stride, to, to_stride, rows, cols});
}

// A few rows at a time for all blocks of some groups, so that rows are read in memory order: rows a
// power of two apart would otherwise push each other out of the cache from block to block.
template <class Stored>
void PackSplitWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                    int64_t block_stride, int64_t rows, int64_t groups, int64_t cols,
                    int64_t block_cols) {
  constexpr int64_t kRowsTogether = 4, kColsTogether = 512, kLine = 64 / sizeof(Stored);
  // The machine's own prefetcher does not follow several short streams.
  constexpr int64_t kAhead = (16 << 10) / sizeof(Stored);
  const int64_t ahead = HWY_MAX(kAhead / from_stride, kRowsTogether) * from_stride;
  const int64_t most_groups = HWY_MAX(kColsTogether / cols, 1);
  for (int64_t first = 0; first < groups; first += most_groups) {
    const int64_t all_cols = HWY_MIN(most_groups, groups - first) * cols;
    for (int64_t row = 0; row < rows; row += kRowsTogether) {
      const int64_t num_rows = HWY_MIN(kRowsTogether, rows - row);
      const Stored* some = from + first * cols + row * from_stride;
      ComputeType<Stored>* block = to + row * block_cols;
      for (int64_t group = 0, fetched = 0; group < all_cols; group += cols) {
        for (; fetched < group + cols; fetched += kLine) {  // the machine drops most of a burst
          FetchLines(some + fetched, from_stride, num_rows, ahead);
        }
        for (int64_t col = 0; col < cols; col += block_cols, block += block_stride) {
          PackCopyWiden(some + group + col, from_stride, block, block_cols, num_rows,
                        HWY_MIN(block_cols, cols - col));
        }
      }
    }
    to += all_cols / cols * ((cols + block_cols - 1) / block_cols) * block_stride;
  }
}

// A square at a time from as many streams as a vector has lanes.
template <class Stored>
void PackGatherWiden(const Stored* const* from, int64_t count, ComputeType<Stored>* to,
                     int64_t to_step, int64_t ahead) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t k = 0; k < count; k += kLanes, to += kLanes * to_step) {
    if (ahead != 0) {
      for (int64_t i = 0; i < kLanes; ++i) {
        if (from[i] != nullptr) FetchLines(from[i] + k, 0, 1, ahead);
      }
    }
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
  return {PackWiden<Stored>,
          PackNarrow<Stored>,
          PackTransposeWiden<Stored>,
          PackTransposeNarrow<Stored>,
          PackTransposeStream<Stored>,
          PackTransposeEvery<Stored>,
          PackTransposeApart<ComputeType<Stored> >,
          PackSwapPairs<ComputeType<Stored> >,
          PackCopyWiden<Stored>,
          PackSplitWiden<Stored>,
          PackGatherWiden<Stored>,
          PackScatterNarrow<Stored>};
}

inline void FillPack(KernelTable& table) {
  table.stream_bytes = StreamBytes;
  table.pack_f16 = MakePackKernels<Float16>();
  table.pack_bf16 = MakePackKernels<BFloat16>();
  table.pack_f32 = MakePackKernels<float>();
  table.pack_f64 = MakePackKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
