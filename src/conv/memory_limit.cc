#include "conv/memory_limit.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/resources.h"

namespace convgrad {

int64_t MemoryLimit::Bytes() {
  if (bytes_ == 0) bytes_ = AvailableMemory() / 5 * 4 + allocated_bytes_;
  return bytes_;
}

bool MemoryLimit::Allows(int64_t need) {
  // So little is left on any machine that runs at all: to ask the system takes as long as many a
  // small convolution.
  constexpr int64_t kNoQuestion = int64_t{4} << 20;
  if (bytes_ == 0 && need - allocated_bytes_ <= kNoQuestion) return true;
  return need <= Bytes();
}

void MemoryLimit::Refuse(int64_t need, const std::string& parts, const std::string& advice) {
  ThrowIo("memory/limit", "memory",
          fmt::format("{} are needed ({}), the limit is {}", FormatExactBytes(need), parts,
                      FormatExactBytes(Bytes())),
          advice);
}

}  // namespace convgrad
