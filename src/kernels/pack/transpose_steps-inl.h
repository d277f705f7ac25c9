// Transposing from or to numbers that are a step apart in their rows; see pack.h. Included once per
// target.
#if defined(CONVGRAD_KERNELS_TRANSPOSE_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_TRANSPOSE_STEPS_INL_H_
#undef CONVGRAD_KERNELS_TRANSPOSE_STEPS_INL_H_
#else
#define CONVGRAD_KERNELS_TRANSPOSE_STEPS_INL_H_
#endif

#include <cstdint>

#include "kernels/pack/transpose-inl.h"
#include "kernels/simd/convert-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// The even ones of 2 * num_cols - 1 columns, whose last is the last that may be read.
template <class Stored>
void TransposeEvenSquare(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                         int64_t to_stride, int64_t num_rows, int64_t num_cols) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const int64_t read = 2 * num_cols - 1;
  const int64_t low = HWY_MIN(read, kLanes), high = read - low;
  TransposeSquare<false>(
      d, num_rows, num_cols,
      [&](int64_t i) {
        const Stored* at = from + i * from_stride;
        return hn::ConcatEven(d, high > 0 ? LoadWidenedFirst(d, at + kLanes, high) : hn::Zero(d),
                              LoadWidenedFirst(d, at, low));
      },
      [&](int64_t i, V v) { StoreUpTo(d, v, to + i * to_stride, num_rows); });
}

template <class Stored>
void TransposeEven(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                   int64_t to_stride, int64_t rows, int64_t cols, int64_t ahead) {
  const ComputeTag<Stored> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d), kLine = 64 / sizeof(Stored);
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int64_t num_rows = HWY_MIN(kLanes, rows - row);
    for (int64_t col = 0; col < cols; col += kLanes) {
      const Stored* corner = from + row * from_stride + 2 * col;
      ComputeType<Stored>* square = to + col * to_stride + row;
      for (int64_t line = 0; ahead != 0 && line < 2 * kLanes; line += kLine) {
        FetchLines(corner + line, from_stride, num_rows, ahead);
      }
      // Whole vectors end with the number behind the last one.
      if (num_rows < kLanes || col + kLanes >= cols) {
        TransposeEvenSquare(corner, from_stride, square, to_stride, num_rows,
                            HWY_MIN(kLanes, cols - col));
        continue;
      }
      TransposeSquare<true>(
          d, kLanes, kLanes,
          [&](int64_t i) {
            const Stored* at = corner + i * from_stride;
            return hn::ConcatEven(d, LoadWidened(d, at + kLanes), LoadWidened(d, at));
          },
          [&](int64_t i, V v) { hn::StoreU(v, d, square + i * to_stride); });
    }
  }
}

template <class T>
void TransposeApart(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                    int64_t cols) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t col = 0; col < cols; col += kLanes) {
    const int64_t num_cols = HWY_MIN(kLanes, cols - col);
    for (int64_t row = 0; row < rows; row += kLanes) {
      const T* corner = from + row * from_stride + col;
      T* square = to + col * to_stride + 2 * row;
      const auto store = [&](int64_t i, V v) {
        hn::StoreInterleaved2(v, hn::Zero(d), d, square + i * to_stride);
      };
      if (rows - row >= kLanes && num_cols == kLanes) {
        TransposeSquare<true>(
            d, kLanes, kLanes, [&](int64_t i) { return hn::LoadU(d, corner + i * from_stride); },
            store);
      } else {
        TransposeSquare<false>(
            d, rows - row, num_cols,
            [&](int64_t i) { return LoadFirst(d, corner + i * from_stride, num_cols); }, store);
      }
    }
  }
}

#endif  // HWY_TARGET

template <class Stored>
void PackTransposeEvery(const Stored* from, int64_t from_stride, int64_t from_step,
                        ComputeType<Stored>* to, int64_t to_stride, int64_t rows, int64_t cols,
                        [[maybe_unused]] int64_t ahead) {
#if HWY_TARGET != HWY_SCALAR
  if (from_step == 2 && rows > kFewLines && cols > kFewLines) {
    return TransposeEven(from, from_stride, to, to_stride, rows, cols, ahead);
  }
#endif
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      to[col * to_stride + row] = WidenOne(from[row * from_stride + col * from_step]);
    }
  }
}

template <class T>
void PackTransposeApart(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                        int64_t to_step, int64_t rows, int64_t cols) {
  if (to_step == 1) {
    return PackTransposeNarrow<T>(from, from_stride, to, to_stride, rows, cols, 0);
  }
#if HWY_TARGET != HWY_SCALAR
  if (to_step == 2 && rows > kFewLines && cols > kFewLines) {
    return TransposeApart(from, from_stride, to, to_stride, rows, cols);
  }
#endif
  for (int64_t col = 0; col < cols; ++col) {
    for (int64_t row = 0; row < rows; ++row) {
      to[col * to_stride + row * to_step] = from[row * from_stride + col];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
