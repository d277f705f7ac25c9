// Half-open ranges of whole numbers.
#pragma once

#include <cstdint>

namespace convgrad {

// [begin, end).
struct Range {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
  bool Has(int64_t i) const { return i >= begin && i < end; }
  bool operator==(const Range&) const = default;
};

// Part i of `count` nearly equal parts of [0, size).
inline Range ShareOf(int64_t size, int64_t count, int64_t i) {
  return {size * i / count, size * (i + 1) / count};
}

}  // namespace convgrad
