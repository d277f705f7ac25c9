// Slabs of a tensor as channels-innermost numbers of the compute type, and back: what an algorithm
// needs when the tensor is NCHW or of a 16-bit type.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "conv/axes/slab.h"
#include "kernels/pack/pack.h"
#include "problem/geometry.h"

namespace convgrad {

// A data tensor's logical sizes, and how it lies in memory.
struct DataShape {
  DataFormat format;
  int64_t h, w, c;

  int64_t Image() const { return h * w * c; }
};

// Where the pixel (image, row, col) of some rows of some images starts in channels-innermost
// memory.
struct PixelOffsets {
  int64_t image_stride, row_stride, col_stride, origin;

  PixelOffsets(const DataShape& shape, int64_t first_image, int64_t first_row, int64_t num_rows)
      : image_stride(num_rows * shape.w * shape.c),
        row_stride(shape.w * shape.c),
        col_stride(shape.c),
        origin(first_image * image_stride + first_row * row_stride) {}
  int64_t At(int64_t image, int64_t row, int64_t col) const {
    return image * image_stride + row * row_stride + col * col_stride - origin;
  }
};

// From one copied pixel of `channels` numbers to the next. Pixels a large power of two apart would
// meet in few sets of the caches, which a square of them, or a tile's, is more than: a line between
// them.
template <class T>
int64_t StagedPixel(int64_t channels) {
  constexpr int64_t kFewSetsStride = 1024, kSize = sizeof(T);
  return channels * kSize % kFewSetsStride == 0 ? channels + kLineBytes / kSize : channels;
}

// Pixels as they are copied, and from one to the next.
template <class T>
struct CopiedPixels {
  T* first;
  int64_t distance;
};

namespace staging {

// Pieces of a slab's image plane for threads: all of it, in runs of pixels.
inline constexpr int64_t kPiecePixels = 512;

// Pixels of a piece where `num_threads` threads take some pieces of `images` planes each: whole
// lines of a plane's numbers.
inline int64_t PiecePixels(int64_t images, int64_t plane, int num_threads) {
  constexpr int64_t kPiecesPerThread = 4, kLeast = 32;
  if (num_threads == 1) return kPiecePixels;
  const int64_t equal = RoundUp(CeilDiv(images * plane, kPiecesPerThread * num_threads), kLeast);
  return std::clamp(equal, kLeast, kPiecePixels);
}

// body(image index in the slab, first pixel, pixels) for pieces of every image's rows.
template <class Body>
void ForPieces(const Parallel& parallel, const DataShape& shape, const Slab& slab,
               const Body& body) {
  const int64_t plane = slab.num_rows() * shape.w;
  const int64_t most = PiecePixels(slab.num_images(), plane, parallel.num_threads());
  const int64_t pieces = CeilDiv(plane, most);
  parallel.For(slab.num_images() * pieces, [&](int64_t i) {
    const int64_t pixel = i % pieces * most;
    body(i / pieces, pixel, std::min(most, plane - pixel));
  });
}

// body(image, line, first pixel, pixels) for pieces of `lines` lines of every image, so short that
// their cache lines stay cached from channel block to channel block.
template <class Body>
void ForLines(const Parallel& parallel, int64_t images, int64_t lines, int64_t line_pixels,
              const Body& body) {
  constexpr int64_t kLinePixels = 128;
  const int64_t pieces = CeilDiv(line_pixels, kLinePixels);
  parallel.For(images * lines * pieces, [&](int64_t i) {
    const int64_t pixel = i % pieces * kLinePixels, line = i / pieces % lines;
    body(i / pieces / lines, line, pixel, std::min(kLinePixels, line_pixels - pixel));
  });
}

}  // namespace staging

// `pixels` pixels of `channels` planes, from `first` of the first plane on, side by side
// `to_stride` numbers apart. What is read next is fetched meanwhile: these pixels of the planes
// that follow, behind the last ones the next pixels.
template <class Stored>
void LoadPlanes(const PackKernels<Stored>& kernels, const Stored* first, int64_t plane,
                int64_t channels, int64_t pixels, ComputeType<Stored>* to, int64_t to_stride) {
  constexpr int64_t kTogether = 16;
  for (int64_t c = 0; c < channels; c += kTogether) {
    const bool wraps = c + kTogether >= channels && pixels < plane;
    kernels.transpose_widen(first + c * plane, plane, to + c, to_stride,
                            std::min(kTogether, channels - c), pixels,
                            wraps ? pixels - c * plane : kTogether * plane);
  }
}

// Channels [begin, begin + count) of a tensor.
struct ChannelRange {
  int64_t begin, count;
};

// `to`: [images][rows][w][channels of the range] of the slab.
template <class Stored>
void LoadSlab(const Parallel& parallel, const PackKernels<Stored>& kernels, const DataShape& shape,
              const Slab& slab, const ChannelRange& channels, const Stored* tensor,
              const CopiedPixels<ComputeType<Stored>>& to) {
  const int64_t plane = slab.num_rows() * shape.w, count = channels.count;
  staging::ForPieces(parallel, shape, slab, [&](int64_t n, int64_t pixel, int64_t pixels) {
    const Stored* image = tensor + (slab.image_begin + n) * shape.Image();
    const int64_t first = slab.row_begin * shape.w + pixel;
    auto* piece = to.first + (n * plane + pixel) * to.distance;
    if (shape.format == DataFormat::kNCHW) {
      LoadPlanes(kernels, image + channels.begin * shape.h * shape.w + first, shape.h * shape.w,
                 count, pixels, piece, to.distance);
    } else if (count == shape.c && to.distance == count) {
      kernels.widen(image + first * shape.c, piece, pixels * shape.c);
    } else {
      kernels.copy_widen(image + first * shape.c + channels.begin, shape.c, piece, to.distance,
                         pixels, count);
    }
  });
}

// All channels.
template <class Stored>
void LoadSlab(const Parallel& parallel, const PackKernels<Stored>& kernels, const DataShape& shape,
              const Slab& slab, const Stored* tensor, ComputeType<Stored>* to) {
  LoadSlab(parallel, kernels, shape, slab, {0, shape.c}, tensor, {to, shape.c});
}

// The opposite of LoadSlab. `stream`: planes are written around the caches.
template <class Stored>
void StoreSlab(const Parallel& parallel, const PackKernels<Stored>& kernels, const DataShape& shape,
               const Slab& slab, const ChannelRange& channels,
               const CopiedPixels<const ComputeType<Stored>>& from, Stored* tensor, bool stream) {
  const int64_t plane = slab.num_rows() * shape.w, count = channels.count;
  staging::ForPieces(parallel, shape, slab, [&](int64_t n, int64_t pixel, int64_t pixels) {
    Stored* image = tensor + (slab.image_begin + n) * shape.Image();
    const int64_t first = slab.row_begin * shape.w + pixel;
    const auto* piece = from.first + (n * plane + pixel) * from.distance;
    Stored* planes = image + channels.begin * shape.h * shape.w + first;
    if (shape.format == DataFormat::kNHWC && count == shape.c && from.distance == count) {
      kernels.narrow(piece, image + first * shape.c, pixels * shape.c);
    } else if (shape.format == DataFormat::kNHWC) {
      Stored* group = image + first * shape.c + channels.begin;
      for (int64_t i = 0; i < pixels; ++i) {
        kernels.narrow(piece + i * from.distance, group + i * shape.c, count);
      }
    } else if (stream) {
      kernels.transpose_stream(piece, from.distance, planes, shape.h * shape.w, pixels, count);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      kernels.transpose_narrow(piece, from.distance, planes, shape.h * shape.w, pixels, count, 0);
    }
  });
}

}  // namespace convgrad
