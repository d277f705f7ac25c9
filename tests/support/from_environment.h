// Numbers that whoever runs a test may set in the environment: CONVGRAD_TEST_PROBLEMS, how many
// random problems, CONVGRAD_TEST_SEED, from which seed, and others that a test names. And how much
// is tried where time is short.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace convgrad {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// True under the address or thread sanitizer, with which all may be ten times as slow and take
// several times the memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// How often to try what one more trial hardly changes: `rounds`, or a fifth of them with a
// sanitizer or a tool of another build.
inline int Rounds(int rounds) {
  const bool all = !kSanitized && std::getenv("CONVGRAD_TEST_BINARY") == nullptr;
  return all ? rounds : std::max(1, rounds / 5);
}

}  // namespace convgrad
