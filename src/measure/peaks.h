// The limits of this machine, measured: fused multiply-adds, and bandwidth of each level of the
// memory. Knows the kernel table and threads; must not know convolutions, or where results are
// kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  // Two undisturbed measurements came near each of them. Else other work may have held them back.
  bool confirmed = false;
  // Something was faster than they allow, and they were measured again and stayed what they are: it
  // is what they are held against that does not fit.
  bool settled = false;

  // The nearest level that holds `bytes`.
  const LevelPeak& LevelOf(int64_t bytes) const;
};

// The capacity that `num_threads` threads find at each level but memory; without a word from the
// system, the levels of a common processor.
std::vector<LevelPeak> CacheLevels(std::span<const CacheSize> caches, int num_threads);

// Takes a few seconds. Peaks are maxima: each is the best of several trials in several rounds, and
// of `earlier`, unconfirmed ones of the same machine. Throws "memory/..." where there is no memory
// for the buffers.
Peaks MeasurePeaks(const KernelTable& kernels, const Parallel& parallel,
                   std::span<const CacheSize> caches, const Peaks* earlier = nullptr);

// One measurement of everything.
struct PeakRound {
  Peaks peaks;
  bool is_undisturbed = false;  // its threads had the CPUs that there are for them
};

// The best of rounds until two undisturbed ones are near it, or until four, and of `earlier`.
Peaks ConfirmPeaks(const std::function<PeakRound()>& round, const Peaks* earlier);

// True if no rate of one is far from that of the other. False for other levels.
bool AreNear(const Peaks& one, const Peaks& other);

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
