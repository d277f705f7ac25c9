// Moves the input of a convolution, or its gradient, between two forms: `space`, as it lies, where
// windows lie side by side, and `depth`, where each window is one pixel whose channels are
// [kernel_h, kernel_w, channels of a group]. Knows neither terms nor sums.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

template <class T>
class WindowMover {
 public:
  // The problem is in NCHW or has one group, and its windows take every number of the input once.
  WindowMover(const Problem& problem, const KernelTable& table)
      : g_(problem.geometry),
        of_planes_(problem.data_format == DataFormat::kNCHW),
        pack_(table.Pack<T>()),
        planes_(table.Plane<T>()) {}

  int64_t NumElements() const { return g_.batch * g_.in_h * g_.in_w * g_.in_c; }
  // ToDepth puts so many numbers aside: rows of windows that are split together.
  int64_t ScratchElements(int num_threads) const { return num_threads * RowElements(); }
  // Adds what a move takes, either way.
  void AddMoves(Work& work) const {
    constexpr double kStored = sizeof(T) / 4.0;
    work.Add(of_planes_ ? WorkKind::kTransposed : WorkKind::kCopied,
             kStored * Product(NumElements()));
    const bool splits = of_planes_ && !OnePixel();
    work.Add(WorkKind::kRun, Product(splits ? g_.batch * g_.in_c * g_.in_h : NumPieces()));
  }

  void ToDepth(const Parallel& parallel, const T* space, T* depth) const {
    PerThread<AlignedArray<T>> rows(parallel);
    parallel.For(NumPieces(), [&](int64_t i) {
      if (!of_planes_) {
        const auto [row, window] = RowOfWindows(i);
        pack_.copy_widen(space + row, RunSize(), depth + window, WindowSize(), g_.out_w, RunSize());
      } else if (OnePixel()) {
        pack_.transpose_narrow(space + i * WindowSize(), Taps(), depth + i * WindowSize(),
                               g_.group_in_c, g_.group_in_c, Taps(), 0);
      } else {
        SplitRows(space, i, rows.Own(RowElements()).data(), depth);
      }
    });
  }

  void ToSpace(const Parallel& parallel, const T* depth, T* space) const {
    parallel.For(NumPieces(), [&](int64_t i) {
      if (!of_planes_) {
        const auto [row, window] = RowOfWindows(i);
        pack_.copy_widen(depth + window, WindowSize(), space + row, RunSize(), g_.out_w, RunSize());
      } else if (OnePixel()) {
        pack_.transpose_widen(depth + i * WindowSize(), g_.group_in_c, space + i * WindowSize(),
                              Taps(), Taps(), g_.group_in_c, 0);
      } else {
        MergeRows(depth, i, space);
      }
    });
  }

 private:
  // A row of windows begins in `space` and, with this row of the filter, in `depth`.
  struct NhwcRow {
    int64_t space, depth;
  };

  bool OnePixel() const { return g_.out_h * g_.out_w == 1; }
  int64_t Taps() const { return g_.kernel_h * g_.kernel_w; }
  int64_t RunSize() const { return g_.kernel_w * g_.group_in_c; }
  int64_t WindowSize() const { return g_.kernel_h * RunSize(); }
  int64_t Plane() const { return g_.out_h * g_.out_w; }

  // A row of the input in NHWC; in NCHW a row of a channel's windows, or all of one window.
  int64_t NumPieces() const {
    if (!of_planes_) return g_.batch * g_.in_h;
    return OnePixel() ? g_.batch * g_.groups : g_.batch * g_.in_c * g_.kernel_h;
  }
  NhwcRow RowOfWindows(int64_t row) const {
    return {row * g_.out_w * RunSize(),
            row / g_.kernel_h * g_.out_w * WindowSize() + row % g_.kernel_h * RunSize()};
  }

  // So many rows of windows are split by one call of a kernel: narrow ones take it little longer.
  int64_t RowsTogether() const {
    constexpr int64_t kPixels = 128;
    return std::clamp<int64_t>(kPixels / g_.out_w, 1, g_.out_h);
  }

  int64_t RowElements() const {
    const bool splits = of_planes_ && !OnePixel() && RowsTogether() > 1;
    return splits ? RowsTogether() * g_.in_w : 0;
  }

  // A piece of NCHW begins here in `space`, and in `depth`.
  int64_t FirstOfRows(int64_t piece) const {
    return (piece / g_.kernel_h * g_.in_h + piece % g_.kernel_h) * g_.in_w;
  }
  int64_t FirstOfPlanes(int64_t piece) const {
    const int64_t row = piece % g_.kernel_h, channel = piece / g_.kernel_h;
    const int64_t in_group = channel % g_.group_in_c, group = channel / g_.group_in_c;
    return ((group * g_.kernel_h + row) * RunSize() + in_group) * Plane();
  }

  void SplitRows(const T* space, int64_t piece, T* rows, T* depth) const {
    constexpr int64_t kFewCols = 3;  // for which there is a kernel of its own
    const T* from = space + FirstOfRows(piece);
    T* to = depth + FirstOfPlanes(piece);
    for (int64_t row = 0; row < g_.out_h;) {
      const int64_t taken = std::min(RowsTogether(), g_.out_h - row);
      const T* at = taken == 1 ? from : rows;
      for (int64_t i = 0; i < taken; ++i, from += g_.kernel_h * g_.in_w) {
        if (taken > 1) std::copy_n(from, g_.in_w, rows + i * g_.in_w);
      }
      const int64_t pixels = taken * g_.out_w;
      if (g_.kernel_w <= kFewCols) {
        planes_.split(at, to, g_.group_in_c * Plane(), g_.kernel_w, taken * g_.in_w);
      } else {
        pack_.transpose_narrow(at, g_.kernel_w, to, g_.group_in_c * Plane(), pixels, g_.kernel_w,
                               0);
      }
      row += taken;
      to += pixels;
    }
  }

  void MergeRows(const T* depth, int64_t piece, T* space) const {
    const T* from = depth + FirstOfPlanes(piece);
    T* to = space + FirstOfRows(piece);
    for (int64_t row = 0; row < g_.out_h; ++row, from += g_.out_w, to += g_.kernel_h * g_.in_w) {
      pack_.transpose_widen(from, g_.group_in_c * Plane(), to, g_.kernel_w, g_.kernel_w, g_.out_w,
                            0);
    }
  }

  const ConvGeometry g_;
  const bool of_planes_;
  const PackKernels<T>& pack_;
  const PlaneKernels<T>& planes_;
};

}  // namespace convgrad
