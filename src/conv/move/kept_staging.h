// Slabs (staging.h) of the kept rows and columns of a tensor: pixels that nothing reads are not
// copied, and those of the result that nothing adds to are written as zeros.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "conv/axes/kept_positions.h"
#include "conv/axes/slab.h"
#include "conv/move/staging.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// A tensor some of whose pixels are kept.
struct KeptTensor {
  const KeptPixels& kept;
  DataShape whole;

  KeptTensor(const KeptPixels& kept_in, DataFormat format, int64_t channels)
      : kept(kept_in), whole{format, kept_in.rows.size, kept_in.cols.size, channels} {}

  int64_t KeptCols() const { return kept.cols.count(); }
};

// One kept row of an image: the kept columns to [column][channel].
template <class Stored>
void LoadKeptRow(const PackKernels<Stored>& kernels, const KeptTensor& tensor, int64_t row,
                 const Stored* image, const CopiedPixels<ComputeType<Stored>>& to) {
  const DataShape& whole = tensor.whole;
  const KeptPositions& cols = tensor.kept.cols;
  const int64_t num_residues = std::ssize(cols.residues), plane = whole.h * whole.w;
  const int64_t next_row = tensor.kept.rows.period * whole.w;
  auto* pixels = to.first;
  for (size_t rank = 0; rank < cols.residues.size(); ++rank, pixels += to.distance) {
    const int64_t first = row * whole.w + cols.residues[rank], count = cols.CountOf(rank);
    if (whole.format == DataFormat::kNHWC) {
      kernels.copy_widen(image + first * whole.c, cols.period * whole.c, pixels,
                         num_residues * to.distance, count, whole.c);
      continue;
    }
    constexpr int64_t kTogether = 16;
    for (int64_t c = 0; c < whole.c; c += kTogether) {
      const bool last = c + kTogether >= whole.c;
      kernels.transpose_every(image + first + c * plane, plane, cols.period, pixels + c,
                              num_residues * to.distance, std::min(kTogether, whole.c - c), count,
                              last ? next_row - c * plane : kTogether * plane);
    }
  }
}

// LoadSlab of kept pixels; `slab` counts kept rows.
template <class Stored>
void LoadKept(const Parallel& parallel, const PackKernels<Stored>& kernels,
              const KeptTensor& tensor, const Slab& slab, const Stored* from,
              const CopiedPixels<ComputeType<Stored>>& to) {
  if (tensor.kept.all()) {
    return LoadSlab(parallel, kernels, tensor.whole, slab, {0, tensor.whole.c}, from, to);
  }
  const int64_t row_numbers = tensor.KeptCols() * to.distance;
  parallel.For(slab.num_images() * slab.num_rows(), [&](int64_t i) {
    const int64_t image = slab.image_begin + i / slab.num_rows();
    const int64_t row = tensor.kept.rows.PositionOf(slab.row_begin + i % slab.num_rows());
    LoadKeptRow(kernels, tensor, row, from + image * tensor.whole.Image(),
                {to.first + i * row_numbers, to.distance});
  });
}

// Zeros so many bytes, whole lines of them around the caches; the caller fences.
inline void StreamZeros(const KernelTable& table, void* first, int64_t bytes) {
  alignas(kLineBytes) static constexpr std::byte kZeros[4096] = {};
  auto* to = static_cast<std::byte*>(first);
  int64_t left = bytes, most = std::ssize(kZeros);
  most -= static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLineBytes);
  while (left > 0) {  // pieces end with a line
    const int64_t now = std::min(left, std::exchange(most, std::ssize(kZeros)));
    table.stream_bytes(kZeros, to, now);
    to += now;
    left -= now;
  }
}

// Zeros where a slab's pixels, which lie one behind the other in a row, are not kept; around the
// caches if they stream. The slab counts all rows.
template <class Number>
void ZeroDropped(const Parallel& parallel, const KernelTable& table, const KeptPixels& kept,
                 const Slab& slab, const PixelOffsets& offsets, Number* first, bool stream) {
  if (kept.all()) return;
  const auto zero = [&](Number* to, int64_t count) {
    if (stream) {
      StreamZeros(table, to, count * int64_t{sizeof(Number)});
    } else {
      std::fill_n(to, count, Number{});
    }
  };
  const std::vector<int64_t> dropped = kept.cols.DroppedResidues();
  const int64_t pixel = offsets.col_stride, width = kept.cols.size;
  parallel.For(slab.num_images() * slab.num_rows(), [&](int64_t i) {
    const int64_t row = slab.row_begin + i % slab.num_rows();
    Number* const to = first + offsets.At(slab.image_begin + i / slab.num_rows(), row, 0);
    if (!kept.rows.Has(row)) {
      zero(to, width * pixel);
    } else {
      for (const int64_t residue : dropped) {
        for (int64_t col = residue; col < width; col += kept.cols.period) {
          zero(to + col * pixel, pixel);
        }
      }
    }
    if (stream) std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

// Where kept rows of a result's image come from, and where they go.
template <class Stored>
struct KeptRows {
  CopiedPixels<const ComputeType<Stored>> from;  // the kept row `first`
  int64_t first;
  Stored* image;
  int64_t begin, end;  // rows of the image
  bool stream;         // planes, or rows of zeros, are written around the caches
};

template <class Stored>
void StorePixelRows(const KernelTable& table, const KeptTensor& tensor,
                    const KeptRows<Stored>& rows) {
  const PackKernels<Stored>& kernels = table.Pack<Stored>();
  const DataShape& whole = tensor.whole;
  const KeptPositions &kept = tensor.kept.rows, &cols = tensor.kept.cols;
  const int64_t num_cols = tensor.KeptCols();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    Stored* to = rows.image + row * whole.w * whole.c;
    if (rows.stream && !kept.Has(row)) {
      StreamZeros(table, to, whole.w * whole.c * int64_t{sizeof(Stored)});
      continue;
    }
    std::fill_n(to, whole.w * whole.c, Stored{});
    if (!kept.Has(row)) continue;
    const int64_t index = kept.CountBefore(row);
    const auto* from = rows.from.first + (index - rows.first) * num_cols * rows.from.distance;
    for (int64_t col = 0; col < num_cols; ++col, from += rows.from.distance) {
      kernels.narrow(from, to + cols.PositionOf(col) * whole.c, whole.c);
    }
  }
  if (rows.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Planes that are put together at a time.
inline constexpr int64_t kPlanesTogether = 16;

// Rows of `width` that a plane is put together of at a time: whole lines of the cache, where these
// are written around it.
template <class Stored>
int64_t RowsTogether(int64_t width, bool stream) {
  constexpr int64_t kPixels = 256, kLine = kLineBytes / int64_t{sizeof(Stored)};
  const int64_t line_rows = stream ? kLine / std::gcd(kLine, width) : 1;
  return RoundUp(std::max<int64_t>(1, kPixels / width), line_rows);
}

// From one of these planes to the next, and so what a thread holds of each.
inline int64_t PlaneStride(int64_t pixels) {
  return RoundUp(pixels + kBehindApart, kPlanesTogether);
}

// The memory of the planes that a thread holds at the most.
template <class Stored>
int64_t PlanesTogetherBytes(const KeptPixels& kept) {
  const int64_t width = kept.cols.size;
  return kept.all() ? 0
                    : kPlanesTogether * PlaneStride(RowsTogether<Stored>(width, true) * width) *
                          int64_t{sizeof(ComputeType<Stored>)};
}

// A few planes at a time are put together in a cache, where zeros stay, and written in order.
template <class Stored>
void StorePlaneRows(const KernelTable& table, const KeptTensor& tensor,
                    const KeptRows<Stored>& rows) {
  using Compute = ComputeType<Stored>;
  const PackKernels<Stored>& kernels = table.Pack<Stored>();
  const DataShape& whole = tensor.whole;
  const KeptPositions &kept = tensor.kept.rows, &cols = tensor.kept.cols;
  const int64_t num_cols = tensor.KeptCols(), num_residues = std::ssize(cols.residues);
  const int64_t pixels = (rows.end - rows.begin) * whole.w;
  const int64_t stride = PlaneStride(pixels);
  AlignedArray<Compute> planes(kPlanesTogether * stride);
  std::fill_n(planes.data(), planes.size(), Compute{0});
  const int64_t begin = kept.CountBefore(rows.begin), end = kept.CountBefore(rows.end);
  for (int64_t c = 0; c < whole.c; c += kPlanesTogether) {
    const int64_t channels = std::min(kPlanesTogether, whole.c - c);
    for (int64_t i = begin; i < end; ++i) {
      const Compute* from = rows.from.first + (i - rows.first) * num_cols * rows.from.distance + c;
      Compute* to = planes.data() + (kept.PositionOf(i) - rows.begin) * whole.w;
      for (size_t rank = 0; rank < cols.residues.size(); ++rank, from += rows.from.distance) {
        kernels.transpose_apart(from, num_residues * rows.from.distance, to + cols.residues[rank],
                                stride, cols.period, cols.CountOf(rank), channels);
      }
    }
    Stored* to = rows.image + (c * whole.h + rows.begin) * whole.w;
    for (int64_t q = 0; q < channels; ++q, to += whole.h * whole.w) {
      const Compute* plane = planes.data() + q * stride;
      if constexpr (std::is_same_v<Stored, Compute>) {
        if (rows.stream) {
          table.stream_bytes(plane, to, pixels * int64_t{sizeof(Compute)});
          continue;
        }
      }
      kernels.narrow(plane, to, pixels);
    }
  }
  if (rows.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

// StoreSlab of kept pixels; `slab` counts kept rows. The rows between those of a slab, behind them,
// and before the first one are written with them.
template <class Stored>
void StoreKept(const Parallel& parallel, const KernelTable& table, const KeptTensor& tensor,
               const Slab& slab, const CopiedPixels<const ComputeType<Stored>>& from, Stored* to,
               bool stream) {
  const PackKernels<Stored>& kernels = table.Pack<Stored>();
  const DataShape& whole = tensor.whole;
  const KeptPositions& kept = tensor.kept.rows;
  if (tensor.kept.all())
    return StoreSlab(parallel, kernels, whole, slab, {0, whole.c}, from, to, stream);
  const int64_t begin = slab.row_begin == 0 ? 0 : kept.PositionOf(slab.row_begin);
  const int64_t end = slab.row_end == kept.count() ? kept.size : kept.PositionOf(slab.row_end);
  const int64_t piece_rows = RowsTogether<Stored>(whole.w, stream);
  const int64_t first_piece = begin / piece_rows;
  const int64_t pieces = CeilDiv(end, piece_rows) - first_piece;
  parallel.For(slab.num_images() * pieces, [&](int64_t i) {
    const int64_t image = i / pieces, row = (first_piece + i % pieces) * piece_rows;
    const KeptRows<Stored> rows{
        {from.first + image * slab.num_rows() * tensor.KeptCols() * from.distance, from.distance},
        slab.row_begin,
        to + (slab.image_begin + image) * whole.Image(),
        std::max(begin, row),
        std::min(end, row + piece_rows),
        stream,
    };
    if (whole.format == DataFormat::kNHWC) {
      StorePixelRows(table, tensor, rows);
    } else {
      StorePlaneRows(table, tensor, rows);
    }
  });
}

}  // namespace convgrad
