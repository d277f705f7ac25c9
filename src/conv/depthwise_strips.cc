#include "conv/depthwise_strips.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace convgrad {

template <class Stored>
void StripPacker<Stored>::PackPlain(const Stored* data, const StripPart& part,
                                    Compute* strip) const {
  const int64_t size = part.channels.size();
  const bool whole_rows = part.cols.size() == layout_.w;
  if (layout_.format == DataFormat::kNCHW) {
    const int64_t num_calls = whole_rows ? 1 : part.rows.size();
    const int64_t pixels = part.pixels() / num_calls;
    for (int64_t i = 0; i < num_calls; ++i) {
      const int64_t from =
          layout_.AtPlane(part.channels.begin, part.rows.begin + i, part.cols.begin);
      pack_.transpose_widen(data + from, layout_.plane(), strip + i * pixels * size, size, size,
                            pixels);
    }
    return;
  }
  const bool all_channels = size == layout_.c;
  const int64_t num_calls = !all_channels ? part.pixels() : whole_rows ? 1 : part.rows.size();
  const int64_t pixels = part.pixels() / num_calls;
  for (int64_t i = 0; i < num_calls; ++i) {
    const int64_t pixel = i * pixels;
    const int64_t from =
        layout_.AtPixel(part.image, part.rows.begin + pixel / part.cols.size(),
                        part.cols.begin + pixel % part.cols.size(), part.channels.begin);
    pack_.widen(data + from, strip + pixel * size, pixels * size);
  }
}

// NCHW: planes c * M + m of all c, for one m after the other.
template <class Stored>
void StripPacker<Stored>::PartPlanes(const Stored* data, const StripPart& part,
                                     Compute* strip) const {
  const int64_t size = part.channels.size();
  for (int64_t m = 0; m < multiplier_; ++m) {
    for (int64_t row = 0; row < part.rows.size(); ++row) {
      const int64_t from = layout_.AtPlane(part.channels.begin * multiplier_ + m,
                                           part.rows.begin + row, part.cols.begin);
      Compute* to = strip + (row * part.cols.size() * multiplier_ + m) * size;
      pack_.transpose_widen(data + from, multiplier_ * layout_.plane(), to, multiplier_ * size,
                            size, part.cols.size());
    }
  }
}

template <class Stored>
void StripPacker<Stored>::Pack(const Stored* data, const StripPart& part, Compute* intermediate,
                               Compute* strip) const {
  const int64_t size = part.channels.size();
  if (by_plane_ && layout_.format == DataFormat::kNHWC) {
    GatherImages(data, part, strip);
  } else if (form_ == StripForm::kPlain) {
    PackPlain(data, part, strip);
  } else if (form_ == StripForm::kRepeated) {
    PackPlain(data, part, intermediate);
    shape_.repeat(intermediate, strip, part.pixels() * size, multiplier_);
  } else if (layout_.format == DataFormat::kNCHW) {
    PartPlanes(data, part, strip);
  } else {
    StripPart groups = part;
    groups.channels = {part.channels.begin * multiplier_, part.channels.end * multiplier_};
    PackPlain(data, groups, intermediate);
    shape_.part(intermediate, strip, part.pixels(), size, multiplier_);
  }
}

// Calls body(channel, images, first) for every channel with planes in `planes`, which are numbered
// channel * batch + image; they are the part's from number `first` on.
template <class Body>
void ForChannels(Range planes, int64_t batch, const Body& body) {
  for (int64_t plane = planes.begin; plane < planes.end;) {
    const int64_t channel = plane / batch;
    const int64_t end = std::min(planes.end, (channel + 1) * batch);
    body(channel, Range{plane - channel * batch, end - channel * batch}, plane - planes.begin);
    plane = end;
  }
}

// With one channel a row of an image is a row of a matrix; with more, the numbers of one pixel are.
template <class Stored>
void StripPacker<Stored>::GatherImages(const Stored* data, const StripPart& part,
                                       Compute* strip) const {
  const int64_t size = part.channels.size(), image_size = layout_.plane() * layout_.c;
  const bool whole_row = layout_.c == multiplier_;
  constexpr int64_t kPixelsAhead = 16;  // more streams than the machine foresees
  const int64_t step = whole_row ? part.cols.size() : 1;
  // Pixels outside: the images' lines are fetched once for all their channels.
  for (int64_t pixel = 0; pixel < part.pixels(); pixel += step) {
    const int64_t row = part.rows.begin + pixel / part.cols.size();
    const int64_t col = part.cols.begin + pixel % part.cols.size();
    ForChannels(part.channels, layout_.batch, [&](int64_t channel, Range images, int64_t first) {
      const Stored* from = data + layout_.AtPixel(images.begin, row, col, channel * multiplier_);
      if (first == 0 && !whole_row) {
        for (int64_t i = 0; i < images.size(); ++i) {
          __builtin_prefetch(from + i * image_size + kPixelsAhead * layout_.c, 0, 2);
        }
      }
      pack_.transpose_widen(from, image_size, strip + pixel * multiplier_ * size + first, size,
                            images.size(), step * multiplier_);
    });
  }
}

template <class Stored>
void StripPacker<Stored>::ScatterImages(const Compute* strip, const StripPart& part,
                                        Stored* data) const {
  const int64_t size = part.channels.size(), image_size = layout_.plane() * layout_.c;
  const int64_t step = layout_.c == 1 ? part.cols.size() : 1;
  ForChannels(part.channels, layout_.batch, [&](int64_t channel, Range images, int64_t first) {
    for (int64_t pixel = 0; pixel < part.pixels(); pixel += step) {
      const int64_t to = layout_.AtPixel(images.begin, part.rows.begin + pixel / part.cols.size(),
                                         part.cols.begin + pixel % part.cols.size(), channel);
      pack_.transpose_narrow(strip + pixel * size + first, size, data + to, image_size, step,
                             images.size());
    }
  });
}

template <class Stored>
void StripPacker<Stored>::Unpack(const Compute* strip, const StripPart& part, Stored* data) const {
  if (by_plane_ && layout_.format == DataFormat::kNHWC) return ScatterImages(strip, part, data);
  const int64_t size = part.channels.size();
  const bool whole_rows = part.cols.size() == layout_.w;
  const bool planes = layout_.format == DataFormat::kNCHW;
  const bool by_pixel = !planes && size != layout_.c;
  const int64_t num_calls = by_pixel ? part.pixels() : whole_rows ? 1 : part.rows.size();
  const int64_t pixels = part.pixels() / num_calls;
  for (int64_t i = 0; i < num_calls; ++i) {
    const int64_t row = part.rows.begin + i * pixels / part.cols.size();
    const int64_t col = part.cols.begin + i * pixels % part.cols.size();
    const Compute* from = strip + i * pixels * size;
    if (planes) {
      pack_.transpose_narrow(from, size, data + layout_.AtPlane(part.channels.begin, row, col),
                             layout_.plane(), pixels, size);
    } else {
      pack_.narrow(from, data + layout_.AtPixel(part.image, row, col, part.channels.begin),
                   pixels * size);
    }
  }
}

template class StripPacker<Float16>;
template class StripPacker<BFloat16>;
template class StripPacker<float>;
template class StripPacker<double>;

AlignedArray<std::byte> BufferPool::Take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      AlignedArray<std::byte> buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
  }
  AlignedArray<std::byte> buffer(bytes_);
  std::memset(buffer.data(), 0, static_cast<size_t>(bytes_));  // lanes beyond the channels are read
  return buffer;
}

void BufferPool::Give(AlignedArray<std::byte> buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(buffer));
}

}  // namespace convgrad
