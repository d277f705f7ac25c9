#include "tensor/read_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace convgrad {
namespace {

AlignedBytes Allocate(int64_t capacity) {
  AlignedBytes bytes = AllocateBytes(static_cast<size_t>(capacity) + kAlignment);
  std::memset(bytes.get() + capacity, 0, kAlignment);
  return bytes;
}

}  // namespace

int64_t ReadPieces(const ReadNext& read, std::byte* into, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    RetryUnlessStopped();
    const int64_t piece = std::min(bytes - done, kPieceBytes);
    const int64_t got = read(into + done, piece);
    done += got;
    if (got < piece) break;
  }
  return done;
}

GrownBytes ReadGrowing(const ReadNext& read, int64_t first, int64_t most,
                       const std::function<void(int64_t bytes)>& check) {
  int64_t capacity = std::min(first, most);
  check(capacity);
  GrownBytes grown = {Allocate(capacity)};
  grown.size = ReadPieces(read, grown.data.get(), capacity);
  while (grown.size == capacity && capacity < most) {
    capacity = capacity > most / 2 ? most : 2 * capacity;
    check(capacity);
    AlignedBytes larger = Allocate(capacity);
    std::memcpy(larger.get(), grown.data.get(), static_cast<size_t>(grown.size));
    grown.data = std::move(larger);
    grown.size += ReadPieces(read, grown.data.get() + grown.size, capacity - grown.size);
  }
  return grown;
}

}  // namespace convgrad
