// Memory that a tile fetches while it is computed: so many bytes with each term, a step further on.
// Knows no vectors.
#pragma once

#include <cstdint>

namespace convgrad {

struct Ahead {
  static constexpr int64_t kLine = 64;
  const char* at;
  int64_t step, bytes;

  // Fetches for one term: the first line, or all of them.
  template <bool kAll>
  [[gnu::always_inline]] void Fetch() {
    __builtin_prefetch(at, 0, 2);
    for (int64_t next = kLine; kAll && next < bytes; next += kLine) {
      __builtin_prefetch(at + next, 0, 2);
    }
    at += step;
  }

  // Fetches what `terms` terms do, and no line twice where they share some.
  [[gnu::always_inline]] void FetchForSeveral(int terms) {
    if (step > kLine) {
      for (int i = 0; i < terms; ++i) Fetch<true>();
      return;
    }
    const char* const end = at + terms * step;
    for (; at < end; at += kLine) __builtin_prefetch(at, 0, 2);
    at = end;
  }
};

}  // namespace convgrad
