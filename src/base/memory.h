// Aligned memory for tensors and scratch. Large blocks ask for huge pages, and are kept when freed:
// touching new pages costs as much time as many a kernel needs to fill them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace convgrad {

inline constexpr int64_t kLineBytes = 64;         // of a cache
inline constexpr size_t kAlignment = kLineBytes;  // the widest vector has as many

struct FreeAligned {
  void operator()(void* memory) const;
  size_t block_bytes = 0;  // of a large block; 0: not one
};

// `bytes` (0 is fine) of uninitialised memory aligned to kAlignment. Throws the I/O error
// "memory/exhausted" that names the size when there is none.
std::unique_ptr<std::byte[], FreeAligned> AllocateBytes(size_t bytes);

// The bytes that freed blocks hold for the next. Never so many that they, and what is in use,
// together exceed the most that was ever in use at once, nor over 1 GiB.
int64_t KeptMemoryBytes();

// Gives that back to the system.
void ReleaseKeptMemory();

// An owning array of trivial elements; uninitialised unless filled.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(int64_t size)
      : bytes_(AllocateBytes(static_cast<size_t>(size) * sizeof(T))), size_(size) {}
  T* data() { return reinterpret_cast<T*>(bytes_.get()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.get()); }
  int64_t size() const { return size_; }
  T& operator[](int64_t at) { return data()[at]; }
  const T& operator[](int64_t at) const { return data()[at]; }

 private:
  std::unique_ptr<std::byte[], FreeAligned> bytes_;
  int64_t size_ = 0;
};

}  // namespace convgrad
