// Bytes read into memory in pieces, so that a request to stop is heard between two of them, and
// into memory that grows with what has come, never with what was claimed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/memory.h"

namespace convgrad {

// Up to so many bytes of a file are cheaper to read than to map.
inline constexpr int64_t kSmallFile = 64 << 10;

using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;

// The next bytes of a file or stream; fewer than were asked for only at its end.
using ReadNext = std::function<int64_t(void* into, int64_t bytes)>;

// Reads up to `bytes`. Returns how many came.
int64_t ReadPieces(const ReadNext& read, std::byte* into, int64_t bytes);

struct GrownBytes {
  AlignedBytes data;  // with kAlignment bytes of zeros behind the memory that was read into
  int64_t size = 0;
};

// Reads to the end, or `most` bytes. Takes memory for `first` of them (kUnknownSize where nothing
// is known), then for twice as many, and so on; `check` may throw before so many bytes are taken.
inline constexpr int64_t kUnknownSize = 1 << 20;
GrownBytes ReadGrowing(const ReadNext& read, int64_t first, int64_t most,
                       const std::function<void(int64_t bytes)>& check);

}  // namespace convgrad
