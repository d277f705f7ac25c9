// Loops that do nothing but run into one limit of the machine: fused multiply-adds a second, bytes
// read or written a second. What a kernel achieved is measured against them.
#pragma once

#include <cstdint>

namespace convgrad {

struct MachineLimitKernels {
  // `rounds` times a fused multiply-add on each of as many independent vectors as hide its latency.
  // Returns the floating-point operations, two for each multiply-add of a lane. `sink` (64 bytes)
  // takes what was computed, so that nothing can be left out.
  int64_t (*fma_f32)(int64_t rounds, void* sink);
  int64_t (*fma_f64)(int64_t rounds, void* sink);

  // Reads or writes all of `bytes`, a multiple of 1024, from a 64-byte aligned address on.
  void (*read)(const void* from, int64_t bytes, void* sink);
  void (*write)(void* to, int64_t bytes);
  // Past the caches, where the instruction set can; else like `write`.
  void (*write_around)(void* to, int64_t bytes);
};

}  // namespace convgrad
