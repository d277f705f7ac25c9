// How the channels of a depthwise problem are dealt to pieces of work: chunks that begin at whole
// vectors, so that none but a lone one is narrower than a vector.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/checked.h"
#include "base/range.h"

namespace convgrad {

// Channels whose results, `multiplier` each, are whole vectors, if those are few; else no more
// channels than fill one.
inline int64_t ChannelsOfVectors(int64_t lanes, int64_t multiplier) {
  constexpr int64_t kFewVectors = 8;
  const int64_t shared = std::gcd(lanes, multiplier);
  return multiplier / shared <= kFewVectors ? lanes / shared : CeilDiv(lanes, multiplier);
}

// Vectors of planes, of so many pixels each, that a strip is made of: one, so that transposing
// writes line after line (four take a fifth longer at 56x56, two or four a tenth longer at 14x14),
// but of the smallest planes as many as make it this many pixels, so that not all is overhead.
inline int64_t VectorsOfPlanes(int64_t plane) {
  constexpr int64_t kPixels = 196, kMostVectors = 4;
  return std::clamp<int64_t>(CeilDiv(kPixels, plane), 1, kMostVectors);
}

class ChannelChunks {
 public:
  ChannelChunks() = default;
  // `num_channels` in chunks of about `wanted`, boundaries at multiples of `unit`.
  ChannelChunks(int64_t num_channels, int64_t unit, int64_t wanted)
      : num_channels_(num_channels),
        unit_(unit),
        num_units_(std::max<int64_t>(1, num_channels / unit)),
        num_chunks_(CeilDiv(num_units_, std::max<int64_t>(1, wanted / unit))) {}

  int64_t count() const { return num_chunks_; }
  // Channels of the widest.
  int64_t widest() const {
    const int64_t rest = num_channels_ < unit_ ? 0 : num_channels_ % unit_;  // of the last chunk
    return std::min(num_channels_, CeilDiv(num_units_, num_chunks_) * unit_ + rest);
  }
  Range operator[](int64_t chunk) const {
    const int64_t end = chunk + 1 == num_chunks_ ? num_channels_ : Boundary(chunk + 1);
    return {Boundary(chunk), end};
  }

 private:
  int64_t Boundary(int64_t chunk) const { return num_units_ * chunk / num_chunks_ * unit_; }

  int64_t num_channels_ = 0, unit_ = 1, num_units_ = 1, num_chunks_ = 1;
};

}  // namespace convgrad
