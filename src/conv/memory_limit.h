// The memory that a computation may take.
#pragma once

#include <cstdint>
#include <string>

namespace convgrad {

class MemoryLimit {
 public:
  // The limit is `max_bytes`; where that is 0, what is allocated already, `allocated_bytes` of what
  // is needed, and 80 % of what the system has available besides.
  MemoryLimit(int64_t max_bytes, int64_t allocated_bytes)
      : allocated_bytes_(allocated_bytes), bytes_(max_bytes) {}

  int64_t Bytes();
  // True if it is no less than what is needed in all.
  bool Allows(int64_t need);
  // Throws I/O "memory/limit", naming need, what it consists of, and limit.
  [[noreturn]] void Refuse(int64_t need, const std::string& parts, const std::string& advice);

 private:
  const int64_t allocated_bytes_;
  int64_t bytes_;  // 0: not known yet
};

}  // namespace convgrad
