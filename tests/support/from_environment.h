// Numbers that whoever runs a test may set in the environment: CONVGRAD_TEST_PROBLEMS, how many
// random problems, CONVGRAD_TEST_SEED, from which seed, and others that a test names. And how much
// is tried where time is short.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace convgrad {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// How often to try what one more trial hardly changes: `rounds`, or a fifth of them where all may
// be ten times as slow, under the address or thread sanitizer or with a tool of another build.
inline int Rounds(int rounds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return rounds / 5;
#else
  return std::getenv("CONVGRAD_TEST_BINARY") == nullptr ? rounds : rounds / 5;
#endif
}

}  // namespace convgrad
