// The limits of this machine, measured: fused multiply-adds, and bandwidth of each level of the
// memory. Knows the kernel table and threads; must not know convolutions, or where results are
// kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// A data cache as the system describes it.
struct CacheSize {
  int level = 1;
  int64_t bytes = 0;
  int num_sharing = 1;  // CPUs that share one
};

struct LevelPeak {
  std::string name;      // "L1", "L2", "L3", "memory"
  int64_t capacity = 0;  // bytes that all threads together find there; memory, the last, 0
  double read_gbs = 0;   // of all threads together, 10^9 bytes a second
  double write_gbs = 0;  // of ordinary stores; of memory also around the caches, if that is faster
};

struct Peaks {
  Isa isa = Isa::kScalar;
  int num_threads = 1;
  double f32_gflops = 0, f64_gflops = 0;
  std::vector<LevelPeak> levels;  // nearest first

  // The nearest level that holds `bytes`.
  const LevelPeak& LevelOf(int64_t bytes) const;
};

// What `num_threads` threads find at each level but memory; without a word from the system, the
// levels of a common processor.
std::vector<LevelPeak> CacheLevels(std::span<const CacheSize> caches, int num_threads);

// Takes a second or two. Peaks are maxima: each is the best of several trials. Throws "memory/..."
// where there is no memory for the buffers.
Peaks MeasurePeaks(const KernelTable& kernels, const Parallel& parallel,
                   std::span<const CacheSize> caches);

// Empties the caches of whatever was in them, by filling them with something else.
class CacheEvictor {
 public:
  CacheEvictor(const KernelTable& kernels, const Parallel& parallel,
               std::span<const CacheSize> caches);
  void Evict() const;
  static int64_t BufferBytes(std::span<const CacheSize> caches, int num_threads);

 private:
  const MachineLimitKernels& kernels_;
  const Parallel& parallel_;
  AlignedArray<std::byte> buffer_;
};

}  // namespace convgrad
