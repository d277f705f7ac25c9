// The bytes that caches hold, and when a result is written around them. Knows addresses and sizes
// only.
#pragma once

#include <cstdint>

#include "base/memory.h"
#include "problem/geometry.h"

namespace convgrad {

// Results of fewer bytes are found in a cache afterwards, and written faster through it.
inline constexpr int64_t kLeavesTheCaches = int64_t{4} << 20;

// Operands and a result of so many bytes push each other out of the caches of one thread.
inline constexpr int64_t kTensorsLeaveTheCaches = 2 * kLeavesTheCaches;

// True if so many bytes push each other out of the caches of so many threads.
inline bool LeaveTheCaches(int64_t bytes, int num_threads) {
  return bytes >= kTensorsLeaveTheCaches + (num_threads == 1 ? 0 : kLeavesTheCaches);
}

// True if most of so many bytes is still in the caches when it is read again.
inline bool CachesHold(int64_t bytes, int num_threads) {
  return bytes < int64_t{num_threads == 1 ? 14 : 20} << 20;
}
// The same of all tensors.
inline bool CachesHold(const Problem& problem, int num_threads) {
  return CachesHold(problem.OperandBytes() + problem.ResultBytes(), num_threads);
}

// True if a result that is computed faster than memory takes it is best left to the caches, which
// hold all tensors: one of few terms, or of a few more where threads share what memory takes. That
// of several stride phases is not: each thread's lines would lie among the others'.
inline bool PaysToCache(const Problem& problem, int num_threads) {
  const int64_t few_terms = num_threads == 1 ? 4 : 12;
  return CachesHold(problem, num_threads) &&
         problem.ValidTerms() <= few_terms * problem.NumResults();
}

inline bool IsLine(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kAlignment == 0;
}

// True if a result that kernels write in place, row by row, is best written around the caches: it
// is too large to be found there afterwards, and its rows are whole lines if the first one begins
// with one.
inline bool PaysToStream(int64_t bytes, int64_t row_bytes) {
  return bytes >= kLeavesTheCaches && row_bytes % kLineBytes == 0;
}
inline bool PaysToStream(const void* result, int64_t bytes, int64_t row_bytes) {
  return PaysToStream(bytes, row_bytes) && IsLine(result);
}

// A result in planes is written a vector of each plane in turn. Where planes begin at the same
// place of a page, halves of their lines reach memory slower around the caches than lines from
// these do.
inline bool PaysToStreamPlanes(int64_t bytes, int64_t plane_bytes, int64_t vector_bytes) {
  constexpr int64_t kPageBytes = 4096;
  const bool crowds = vector_bytes < kLineBytes && plane_bytes % kPageBytes == 0;
  return !crowds && PaysToStream(bytes, plane_bytes);
}
inline bool PaysToStreamPlanes(const void* result, int64_t bytes, int64_t plane_bytes,
                               int64_t vector_bytes) {
  return PaysToStreamPlanes(bytes, plane_bytes, vector_bytes) && IsLine(result);
}

}  // namespace convgrad
