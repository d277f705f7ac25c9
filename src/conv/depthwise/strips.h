// Strips: part of a data tensor as compute-type numbers with channels innermost, which is what the
// depthwise kernels read. Made by transposing (NCHW), widening (16-bit types), repeating every
// channel (multiplier) or parting a group's channels; NHWC with multiplier 1 is used where it lies.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/axes/lines.h"
#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

// Where a data tensor's elements lie.
struct DataLayout {
  DataFormat format;
  int64_t batch, h, w, c;

  int64_t plane() const { return h * w; }
  // The same planes as one row each.
  DataLayout AsRow() const { return {format, batch, 1, h * w, c}; }
  // Element of NHWC: image, row, col, channel. Element of NCHW: plane = image * c + channel.
  int64_t AtPixel(int64_t image, int64_t row, int64_t col, int64_t channel) const {
    return ((image * h + row) * w + col) * c + channel;
  }
  int64_t AtPlane(int64_t plane, int64_t row, int64_t col) const {
    return (plane * h + row) * w + col;
  }
};

// The part of a data tensor that a strip holds: rows x cols of channels `channels` of one image,
// or, by plane, of planes that may be of several images: in NCHW they are numbered as they lie,
// image * c + channel, in NHWC channel * batch + image.
struct StripPart {
  int64_t image;
  Range channels, rows, cols;
  int64_t ahead = 0;  // elements from this part to the one packed next, fetched meanwhile; 0: none

  int64_t pixels() const { return rows.size() * cols.size(); }
};

// Where the part begins in a tensor (NHWC: not by plane).
inline int64_t FirstElement(const DataLayout& layout, const StripPart& part) {
  return layout.format == DataFormat::kNCHW
             ? layout.AtPlane(part.channels.begin, part.rows.begin, part.cols.begin)
             : layout.AtPixel(part.image, part.rows.begin, part.cols.begin, part.channels.begin);
}

// The rows of a range that a strip holds, one behind the other: those that are read.
class StripRows {
 public:
  StripRows() = default;
  // visit(read) calls read(row) for the rows that are read; those outside of `rows` don't count.
  template <class Visit>
  StripRows(Range rows, const Visit& visit)
      : rows_(rows), slots_(static_cast<size_t>(rows.size()), -1) {
    visit([&](int64_t row) {
      if (rows_.Has(row)) slots_[row - rows_.begin] = 0;
    });
    for (int64_t& slot : slots_) {
      if (slot == 0) slot = num_held_++;
    }
  }

  Range rows() const { return rows_; }
  bool has_all() const { return num_held_ == rows_.size(); }
  // The number of a row that is held.
  int64_t SlotOf(int64_t row) const { return slots_[row - rows_.begin]; }
  // body(run, slot of the first) for neighbours that are held, of these rows.
  template <class Body>
  void ForRuns(Range rows, const Body& body) const {
    for (int64_t row = rows.begin; row < rows.end;) {
      const int64_t begin = row;
      while (row < rows.end && SlotOf(row) >= 0) ++row;
      if (begin < row) {
        body(Range{begin, row}, SlotOf(begin));
      } else {
        ++row;
      }
    }
  }

 private:
  Range rows_ = {0, 0};
  std::vector<int64_t> slots_;  // of each row, or -1
  int64_t num_held_ = 0;
};

// The forms a strip's innermost dimension can take, for channels c of the part and multiplier M.
enum class StripForm {
  kPlain,     // c
  kRepeated,  // c * M + m, all m the same number: the input, for sums per output channel
  kParted,    // m, c of channels c * M + m: out_backprop, for sums per input channel
};

// Pixels of a plane that are transposed together, so that no vector is partly filled: long pieces
// of planes that are streams, short ones where computing should begin soon.
inline int64_t PixelsTogether(int64_t plane) {
  return plane < 256 ? 16 : 112;
}

// Pixels of NHWC that are put side by side by plane at a time.
inline constexpr int64_t kGatheredPixels = 8;

template <class Stored>
class StripPacker {
 public:
  using Compute = ComputeType<Stored>;

  // NCHW is always by plane; NHWC may be, when an image has too few channels to fill a vector (but
  // kRepeated).
  StripPacker(const KernelTable& kernels, const DataLayout& layout, bool by_plane, StripForm form,
              int64_t multiplier)
      : pack_(kernels.Pack<Stored>()),
        compute_pack_(kernels.Pack<Compute>()),
        shape_(kernels.Depthwise<Compute>()),
        layout_(layout),
        by_plane_(by_plane),
        form_(form),
        multiplier_(multiplier) {}

  // strip[row][col][form] = part of `data`. For kParted, channels of the part count groups. The
  // intermediate has room for as much as the strip and, by plane in NHWC, for kGatheredPixels
  // pixels of as many images as the part has channels.
  void Pack(const Stored* data, const StripPart& part, Compute* intermediate, Compute* strip) const;
  // The inverse of a kPlain Pack, rounding.
  void Unpack(const Compute* strip, const StripPart& part, Stored* data) const;

 private:
  // Channels first to last of the tensor itself as strip[row][col][channel].
  void PackPlain(const Stored* data, const StripPart& part, Compute* strip) const;
  const Compute* Plain(const Stored* data, const StripPart& part, Compute* intermediate) const;
  void PartPlanes(const Stored* data, const StripPart& part, Compute* strip) const;
  // NHWC by plane, plain or parted.
  void GatherImages(const Stored* data, const StripPart& part, Compute* intermediate,
                    Compute* strip) const;
  void GatherPixels(const Stored* data, Range planes, int64_t count, Compute* intermediate,
                    Compute* strip) const;
  void ScatterImages(const Compute* strip, const StripPart& part, Stored* data) const;

  const PackKernels<Stored>& pack_;
  const PackKernels<Compute>& compute_pack_;
  const DepthwiseKernels<Compute>& shape_;
  DataLayout layout_;
  bool by_plane_;
  StripForm form_;
  int64_t multiplier_;
};

}  // namespace convgrad
