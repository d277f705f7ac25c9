#include "tensor/reorder.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace convgrad {
namespace {

// Tiles of 32 x 32: a tile's rows are whole cache lines on both sides, and its copy (at most 8 KiB)
// stays in the first-level cache.
constexpr int64_t kTile = 32;

uint16_t Reversed(uint16_t value) {
  return __builtin_bswap16(value);
}
uint32_t Reversed(uint32_t value) {
  return __builtin_bswap32(value);
}
uint64_t Reversed(uint64_t value) {
  return __builtin_bswap64(value);
}

// f(T{}) with the unsigned integer of `element_bytes`.
template <class F>
void VisitWord(int element_bytes, F&& f) {
  switch (element_bytes) {
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: ThrowInternal("elements that are not 2, 4 or 8 bytes");
  }
}

// Some axes of an array, walked together as one: `sizes` with the first fastest, and the distance
// in elements of neighbours along each on the side where they don't lie contiguously.
struct AxisGroup {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t count = 1;

  void Add(int64_t size, int64_t stride) {
    sizes.push_back(size);
    strides.push_back(stride);
    count *= size;
  }
  int64_t OffsetOf(int64_t index) const {
    if (sizes.empty()) return 0;
    int64_t offset = 0;
    size_t axis = 0;
    for (; axis + 1 < sizes.size(); ++axis) {  // no division for the last axis, often the only one
      offset += index % sizes[axis] * strides[axis];
      index /= sizes[axis];
    }
    return offset + index * strides[axis];
  }
};

// Reversing the order of the axes as many small transposes. The source's fastest axes make one
// group (contiguous in the source), the target's fastest axes another (contiguous in the target);
// for every index of the axes between, the two are transposed tile by tile.
struct ReversalPlan {
  AxisGroup source_fast;  // strides in the target
  AxisGroup target_fast;  // strides in the source
  AxisGroup between_source, between_target;
};

ReversalPlan PlanReversal(std::span<const int64_t> shape) {
  std::vector<int64_t> sizes, source_strides, target_strides;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(sizes),
               [](int64_t n) { return n != 1; });
  const size_t rank = sizes.size();
  source_strides.assign(rank, 1);
  target_strides.assign(rank, 1);
  for (size_t at = 1; at < rank; ++at) {
    source_strides[at] = source_strides[at - 1] * sizes[at - 1];
    target_strides[rank - 1 - at] = target_strides[rank - at] * sizes[rank - at];
  }
  ReversalPlan plan;
  size_t first = 0, last = rank;
  while (first + 1 < last && (first == 0 || plan.source_fast.count < kTile)) {
    plan.source_fast.Add(sizes[first], target_strides[first]);
    ++first;
  }
  while (first < last && (last == rank || plan.target_fast.count < kTile)) {
    --last;
    plan.target_fast.Add(sizes[last], source_strides[last]);
  }
  // The target's order, so that its lines are finished while they are in the cache.
  for (size_t at = last; at-- > first;) {
    plan.between_source.Add(sizes[at], source_strides[at]);
    plan.between_target.Add(sizes[at], target_strides[at]);
  }
  return plan;
}

template <class Word>
class Reversal {
 public:
  Reversal(const ReversalPlan& plan, bool swap_bytes, const std::byte* source, std::byte* target)
      : plan_(plan), swap_bytes_(swap_bytes), source_(source), target_(target) {}

  void Run() const {
    for (int64_t at = 0; at < plan_.between_source.count; ++at) {
      const int64_t source_offset = plan_.between_source.OffsetOf(at);
      const int64_t target_offset = plan_.between_target.OffsetOf(at);
      for (int64_t row = 0; row < plan_.source_fast.count; row += kTile) {
        for (int64_t column = 0; column < plan_.target_fast.count; column += kTile) {
          MoveTile(row, column, source_offset, target_offset);
        }
      }
    }
  }

 private:
  // Rows count along the source's fast axes, columns along the target's.
  void MoveTile(int64_t row, int64_t column, int64_t source_offset, int64_t target_offset) const {
    const int64_t rows = std::min(kTile, plan_.source_fast.count - row);
    const int64_t columns = std::min(kTile, plan_.target_fast.count - column);
    Word tile[kTile][kTile + 1];
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t from = source_offset + row + plan_.target_fast.OffsetOf(column + c);
      std::memcpy(tile[c], source_ + from * sizeof(Word), rows * sizeof(Word));
    }
    for (int64_t r = 0; r < rows; ++r) {
      Word line[kTile];
      for (int64_t c = 0; c < columns; ++c) line[c] = tile[c][r];
      if (swap_bytes_)
        std::transform(line, line + columns, line, [](Word w) { return Reversed(w); });
      const int64_t to = target_offset + column + plan_.source_fast.OffsetOf(row + r);
      std::memcpy(target_ + to * sizeof(Word), line, columns * sizeof(Word));
    }
  }

  const ReversalPlan& plan_;
  bool swap_bytes_;
  const std::byte* source_;
  std::byte* target_;
};

}  // namespace

void CopyFromFortranOrder(std::span<const int64_t> shape, int element_bytes, bool swap_bytes,
                          const std::byte* source, std::byte* target) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const ReversalPlan plan = PlanReversal(shape);
  VisitWord(element_bytes,
            [&](auto word) { Reversal<decltype(word)>(plan, swap_bytes, source, target).Run(); });
}

void SwapBytes(int element_bytes, int64_t count, std::byte* elements) {
  VisitWord(element_bytes, [&](auto word) {
    for (int64_t at = 0; at < count; ++at) {
      std::byte* element = elements + at * sizeof(word);
      std::memcpy(&word, element, sizeof(word));
      word = Reversed(word);
      std::memcpy(element, &word, sizeof(word));
    }
  });
}

}  // namespace convgrad
