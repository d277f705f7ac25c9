#include "base/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/resources.h"

namespace convgrad {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
// Smaller memory is the C library's, which gives pages back to the system after every run that had
// more than 128 KiB in all (mallopt's M_TRIM_THRESHOLD): where runs are short, getting them again
// takes as long as the run.
constexpr size_t kSmallestBlock = size_t{64} << 10;
constexpr size_t kMostKept = size_t{1} << 30;

// Address sanitizers see what is used after it was freed only if it was.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kKeep = false;
#else
constexpr bool kKeep = true;
#endif

size_t RoundUpTo(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Says where the next block begins in its first page: in turn at its beginning and a little behind
// its middle. Blocks of one place meet, row by row, in the same sets of the caches where rows of
// pixels are a power of two apart; and a load waits for a store before it to an address that ends
// like its own, which is why the places are no multiple of 256 bytes apart, as pixels often are.
// Places only a few lines apart would be worse: a row's results would be stored just ahead of its
// loads.
size_t NextPlace() {
  constexpr size_t kSecondPlace = kPage / 2 + 14 * kAlignment;
  static std::atomic<size_t> count = 0;
  return count++ % 2 * kSecondPlace;
}

// Pages straight from the system, huge ones (and aligned to them) if it has any and there are
// enough bytes; the block begins in the first one. Null where there are none.
void* MapBlock(size_t block_bytes) {
  const size_t bytes = block_bytes + kPage, place = NextPlace();
  const bool huge = block_bytes >= kHugePage;
  const size_t slack = huge ? kHugePage - kPage : 0;
  void* const mapped = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  if (mapped == MAP_FAILED) return nullptr;
  if (!huge) return static_cast<char*>(mapped) + place;
  char* const start = static_cast<char*>(mapped);
  const size_t before =
      RoundUpTo(reinterpret_cast<uintptr_t>(start), kHugePage) - reinterpret_cast<uintptr_t>(start);
  if (before > 0) munmap(start, before);
  if (slack > before) munmap(start + before + bytes, slack - before);
  madvise(start + before, bytes, MADV_HUGEPAGE);  // advice only: failure changes nothing
  return start + before + place;
}

void UnmapBlock(void* block, size_t block_bytes) {
  char* const begin = static_cast<char*>(block);
  munmap(begin - reinterpret_cast<uintptr_t>(begin) % kPage, block_bytes + kPage);
}

// All large blocks: those in use, counted, and those kept for the next that asks.
class Blocks {
 public:
  // A block of at least `bytes`, whole pages; `bytes` becomes what it has. Null if there is none.
  void* Take(size_t& bytes) {
    const std::lock_guard lock(mutex_);
    const auto fit = kept_.lower_bound(bytes);
    // A block much larger than needed is left for one that needs it.
    if (fit != kept_.end() && fit->first <= bytes + bytes / 4) {
      bytes = fit->first;
      return InUse(Unkeep(fit), bytes);
    }
    const size_t room = most_in_use_ - std::min(most_in_use_, in_use_ + bytes);
    while (kept_bytes_ > room) Release(kept_bytes_ - room);
    void* block = MapBlock(bytes);
    if (block == nullptr) {
      while (!kept_.empty()) Release(kept_bytes_);
      block = MapBlock(bytes);
    }
    return block == nullptr ? nullptr : InUse(block, bytes);
  }

  void Give(void* block, size_t bytes) {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    if (!kKeep || kept_bytes_ + bytes > kMostKept) {
      UnmapBlock(block, bytes);
      return;
    }
    kept_.emplace(bytes, block);
    kept_bytes_ += bytes;
  }

  size_t kept_bytes() {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

  void ReleaseAll() {
    const std::lock_guard lock(mutex_);
    while (!kept_.empty()) Release(kept_bytes_);
  }

 private:
  using Kept = std::multimap<size_t, void*>;

  void* InUse(void* block, size_t bytes) {
    in_use_ += bytes;
    most_in_use_ = std::max(most_in_use_, in_use_);
    return block;
  }

  void* Unkeep(Kept::iterator at) {
    void* const block = at->second;
    kept_bytes_ -= at->first;
    kept_.erase(at);
    return block;
  }

  // The smallest block that has `bytes`, or the largest.
  void Release(size_t bytes) {
    auto at = kept_.lower_bound(bytes);
    if (at == kept_.end()) --at;
    const size_t released = at->first;
    UnmapBlock(Unkeep(at), released);
  }

  std::mutex mutex_;
  Kept kept_;
  size_t kept_bytes_ = 0, in_use_ = 0, most_in_use_ = 0;
};

Blocks& AllBlocks() {
  static Blocks& blocks = *new Blocks;  // never destroyed: tensors may be, later
  return blocks;
}

}  // namespace

void FreeAligned::operator()(void* memory) const {
  if (block_bytes > 0) {
    AllBlocks().Give(memory, block_bytes);
  } else {
    std::free(memory);
  }
}

std::unique_ptr<std::byte[], FreeAligned> AllocateBytes(size_t bytes) {
  constexpr size_t kLargestSize = size_t{1} << 62;
  void* memory = nullptr;
  size_t block_bytes = 0;
  if (bytes <= kLargestSize) {
    // One vector more than asked for, since kernels read their scratch in whole vectors.
    const size_t padded = RoundUpTo(bytes, kAlignment) + kAlignment;
    if (padded >= kSmallestBlock) {
      block_bytes = RoundUpTo(padded, kPage);
      memory = AllBlocks().Take(block_bytes);
    } else {
      memory = std::aligned_alloc(kAlignment, padded);
    }
  }
  if (memory == nullptr) {
    const auto size = static_cast<int64_t>(std::min(bytes, kLargestSize));
    ThrowIo("memory/exhausted", "memory",
            fmt::format("{} bytes ({}) could not be allocated", bytes, FormatBytes(size)),
            "free memory or use smaller tensors");
  }
  return {static_cast<std::byte*>(memory), FreeAligned{block_bytes}};
}

int64_t KeptMemoryBytes() {
  return static_cast<int64_t>(AllBlocks().kept_bytes());
}

void ReleaseKeptMemory() {
  AllBlocks().ReleaseAll();
}

}  // namespace convgrad
