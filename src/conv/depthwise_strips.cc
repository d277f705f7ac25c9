#include "conv/depthwise_strips.h"

#include <cstring>
#include <utility>

namespace convgrad {

template <class Stored>
int64_t StripPacker<Stored>::IntermediateSize(int64_t num_channels, int64_t pixels) const {
  if (form_ == StripForm::kPlain) return 0;
  if (form_ == StripForm::kRepeated) return num_channels * pixels;
  return layout_.format == DataFormat::kNHWC ? num_channels * multiplier_ * pixels : 0;
}

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
  if (form_ == StripForm::kPlain) {
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

template <class Stored>
void StripPacker<Stored>::Unpack(const Compute* strip, const StripPart& part, Stored* data) const {
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
