// Numbers that whoever runs a test may set in the environment: CONVGRAD_TEST_PROBLEMS, how many
// random problems, CONVGRAD_TEST_SEED, from which seed, and others that a test names.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace convgrad {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

}  // namespace convgrad
