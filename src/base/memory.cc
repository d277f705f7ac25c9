#include "base/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>

#include "base/checked.h"
#include "base/error.h"

namespace convgrad {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void FreeAligned::operator()(void* memory) const {
  std::free(memory);
}

std::unique_ptr<std::byte[], FreeAligned> AllocateBytes(size_t bytes) {
  const bool large = bytes >= 2 * kHugePage;
  const size_t alignment = large ? kHugePage : kAlignment;
  // One vector more than asked for, so that a kernel's masked last load stays inside.
  const size_t padded = RoundUp(static_cast<int64_t>(bytes), kAlignment) + kAlignment;
  void* memory = nullptr;
  if (bytes > size_t{1} << 62 || posix_memalign(&memory, alignment, padded) != 0) {
    ThrowIo("memory/exhausted", "memory", fmt::format("{} bytes could not be allocated", bytes),
            "free memory or use smaller tensors");
  }
  if (large) madvise(memory, padded, MADV_HUGEPAGE);  // advice only: failure changes nothing
  return std::unique_ptr<std::byte[], FreeAligned>(static_cast<std::byte*>(memory));
}

}  // namespace convgrad
