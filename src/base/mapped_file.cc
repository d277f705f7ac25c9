#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include "base/checked.h"
#include "base/memory.h"
#include "base/resources.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older kernels answer EINVAL
#endif

namespace convgrad {
namespace {

// The handler may run at any instruction of any thread: it reads only these fixed, lock-free slots.
struct MappingSlot {
  std::atomic<bool> taken;
  std::atomic<uintptr_t> begin;  // 0: not a mapping (yet, or any more)
  std::atomic<uintptr_t> end;
  std::atomic<bool> damaged;
};

constexpr int kMostMappings = 1024;
MappingSlot mapping_slots[kMostMappings];
struct sigaction previous_action;
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

int TakeSlot() {
  for (int at = 0; at < kMostMappings; ++at) {
    if (!mapping_slots[at].taken.exchange(true)) {
      mapping_slots[at].damaged = false;
      return at;
    }
  }
  return -1;
}

void FreeSlot(int at) {
  mapping_slots[at].begin = 0;
  mapping_slots[at].taken = false;
}

// Zeros from the page of `address` to the end of its mapping: what lies behind the new end of a
// truncated file can't be read either.
bool ReplaceByZeros(uintptr_t address) {
  for (MappingSlot& slot : mapping_slots) {
    const uintptr_t begin = slot.begin, end = slot.end;
    if (begin == 0 || address < begin || address >= end) continue;
    const uintptr_t page = address & ~(PageBytes() - 1);
    slot.damaged = true;
    return mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool from_memory = info->si_code > 0;  // not from kill()
  if (from_memory && ReplaceByZeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = saved_errno;
    return;
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
    return;
  }
  sigaction(SIGBUS, &previous_action, nullptr);
  if (!from_memory) raise(SIGBUS);  // else the faulting access happens again
}

// Says whether a file read ahead of its use would still be there when it is used: the end of a
// larger one would push out its beginning, and all of it be read twice.
bool FitsInMemory(size_t bytes) {
  constexpr size_t kNoQuestion = size_t{256} << 20;
  return bytes <= kNoQuestion || static_cast<int64_t>(bytes) <= AvailableMemory() / 2;
}

void InstallHandlerOnce() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    PageBytes();  // the handler must not be the first to ask
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_action);
  });
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::Map(int descriptor, int64_t size) {
  if (size <= 0) return nullptr;
  InstallHandlerOnce();
  const int slot = TakeSlot();
  if (slot < 0) return nullptr;
  // A reserved stretch with one page more than the file: a vector load past the last element then
  // meets zeros even if the file ends at a page's end.
  const size_t file_bytes = RoundUp(size, static_cast<int64_t>(PageBytes()));
  const size_t reserved = file_bytes + PageBytes();
  static_assert(kAlignment <= 4096);
  void* start =
      mmap(nullptr, reserved, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED ||
      mmap(start, file_bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
    if (start != MAP_FAILED) munmap(start, reserved);
    FreeSlot(slot);
    return nullptr;
  }
  mapping_slots[slot].end = reinterpret_cast<uintptr_t>(start) + file_bytes;
  mapping_slots[slot].begin = reinterpret_cast<uintptr_t>(start);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const std::byte*>(start), size, reserved, slot));
}

MappedFile::~MappedFile() {
  // Out of the list first: the addresses may belong to someone else as soon as they are unmapped.
  FreeSlot(slot_);
  munmap(const_cast<std::byte*>(data_), reserved_bytes_);
}

void MappedFile::ReadAhead(int64_t offset, int64_t bytes) const {
  const auto page = static_cast<int64_t>(PageBytes());
  const int64_t begin = offset / page * page;
  const auto length = static_cast<size_t>(std::min(offset + bytes, size_) - begin);
  if (offset >= size_ || !FitsInMemory(length)) return;
  void* const start = const_cast<std::byte*>(data_) + begin;
  if (madvise(start, length, MADV_POPULATE_READ) != 0) madvise(start, length, MADV_WILLNEED);
}

bool MappedFile::damaged() const {
  return mapping_slots[slot_].damaged;
}

}  // namespace convgrad
