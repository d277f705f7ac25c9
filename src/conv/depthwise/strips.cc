#include "conv/depthwise/strips.h"

#include <algorithm>
#include <type_traits>

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
                            pixels, part.ahead);
    }
    return;
  }
  const bool all_channels = size == layout_.c;
  const int64_t num_calls = whole_rows ? 1 : part.rows.size();
  const int64_t pixels = part.pixels() / num_calls;
  for (int64_t i = 0; i < num_calls; ++i) {
    const Stored* from = data + layout_.AtPixel(part.image, part.rows.begin + i, part.cols.begin,
                                                part.channels.begin);
    Compute* to = strip + i * pixels * size;
    if (all_channels) {
      pack_.widen(from, to, pixels * size);
    } else {
      pack_.copy_widen(from, layout_.c, to, size, pixels, size);
    }
  }
}

// The same where it lies, if that is how it lies, else in the intermediate.
template <class Stored>
auto StripPacker<Stored>::Plain(const Stored* data, const StripPart& part,
                                Compute* intermediate) const -> const Compute* {
  if constexpr (std::is_same_v<Stored, Compute>) {
    const bool whole_rows = part.rows.size() == 1 || part.cols.size() == layout_.w;
    if (layout_.format == DataFormat::kNHWC && whole_rows && part.channels.size() == layout_.c) {
      return data + FirstElement(layout_, part);
    }
  }
  PackPlain(data, part, intermediate);
  return intermediate;
}

// NCHW: planes c * M + m of all c, for one m after the other.
template <class Stored>
void StripPacker<Stored>::PartPlanes(const Stored* data, const StripPart& part,
                                     Compute* strip) const {
  const int64_t size = part.channels.size();
  const int64_t num_calls = part.cols.size() == layout_.w ? 1 : part.rows.size();
  const int64_t pixels = part.pixels() / num_calls;
  for (int64_t m = 0; m < multiplier_; ++m) {
    for (int64_t i = 0; i < num_calls; ++i) {
      const int64_t from = layout_.AtPlane(part.channels.begin * multiplier_ + m,
                                           part.rows.begin + i, part.cols.begin);
      pack_.transpose_widen(data + from, multiplier_ * layout_.plane(),
                            strip + (i * pixels * multiplier_ + m) * size, multiplier_ * size, size,
                            pixels, part.ahead);
    }
  }
}

template <class Stored>
void StripPacker<Stored>::Pack(const Stored* data, const StripPart& part, Compute* intermediate,
                               Compute* strip) const {
  const int64_t size = part.channels.size();
  if (by_plane_ && layout_.format == DataFormat::kNHWC) {
    GatherImages(data, part, intermediate, strip);
  } else if (form_ == StripForm::kPlain) {
    PackPlain(data, part, strip);
  } else if (form_ == StripForm::kRepeated) {
    shape_.repeat(Plain(data, part, intermediate), strip, part.pixels() * size, multiplier_);
  } else if (layout_.format == DataFormat::kNCHW) {
    PartPlanes(data, part, strip);
  } else {
    StripPart groups = part;
    groups.channels = {part.channels.begin * multiplier_, part.channels.end * multiplier_};
    shape_.part(Plain(data, groups, intermediate), strip, part.pixels(), size, multiplier_);
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

// With one channel a row of an image is a row of a matrix. With more, the numbers of one pixel are:
// some pixels of all images are widened into the intermediate first, since the images themselves
// often lie a multiple of 4 KiB apart and their lines push each other out of the first cache.
template <class Stored>
void StripPacker<Stored>::GatherImages(const Stored* data, const StripPart& part,
                                       Compute* intermediate, Compute* strip) const {
  const int64_t size = part.channels.size();
  if (layout_.c == multiplier_) {
    for (int64_t row = 0; row < part.rows.size(); ++row) {
      const int64_t from =
          layout_.AtPixel(part.channels.begin, part.rows.begin + row, part.cols.begin, 0);
      pack_.transpose_widen(data + from, layout_.plane() * layout_.c,
                            strip + row * part.cols.size() * multiplier_ * size, size, size,
                            part.cols.size() * multiplier_, part.ahead);
    }
    return;
  }
  for (int64_t row = part.rows.begin; row < part.rows.end; ++row) {
    for (int64_t col = part.cols.begin; col < part.cols.end; col += kGatheredPixels) {
      const int64_t count = std::min(kGatheredPixels, part.cols.end - col);
      GatherPixels(data + layout_.AtPixel(0, row, col, 0), part.channels, count, intermediate,
                   strip);
      strip += count * multiplier_ * size;
    }
  }
}

// `count` pixels of a row, `data` those of the first image.
template <class Stored>
void StripPacker<Stored>::GatherPixels(const Stored* data, Range planes, int64_t count,
                                       Compute* intermediate, Compute* strip) const {
  const int64_t size = planes.size(), stride = kGatheredPixels * layout_.c;
  Range widened = {0, 0};  // images in the intermediate
  ForChannels(planes, layout_.batch, [&](int64_t channel, Range images, int64_t first) {
    if (images.begin < widened.begin || images.end > widened.end) {
      for (int64_t i = images.begin; i < images.end; ++i) {
        pack_.widen(data + i * layout_.plane() * layout_.c,
                    intermediate + (i - images.begin) * stride, count * layout_.c);
      }
      widened = images;
    }
    const Compute* from = intermediate + (images.begin - widened.begin) * stride;
    for (int64_t pixel = 0; pixel < count; ++pixel) {
      compute_pack_.transpose_widen(from + pixel * layout_.c + channel * multiplier_, stride,
                                    strip + pixel * multiplier_ * size + first, size, images.size(),
                                    multiplier_, 0);
    }
  });
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
                             images.size(), 0);
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
                             layout_.plane(), pixels, size, part.ahead);
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

}  // namespace convgrad
