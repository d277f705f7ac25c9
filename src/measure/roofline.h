// The best possible time of a problem on a machine of known peaks. Must not measure anything.
#pragma once

#include <cstdint>
#include <string>

#include "measure/peaks.h"
#include "problem/geometry.h"

namespace convgrad {

struct Roofline {
  double seconds = 0;      // the best possible
  std::string bound;       // what sets it: "compute", "L1", "L2", "L3", "memory"
  double peak_gflops = 0;  // of the problem's type; 16-bit types compute as float32
  double peak_gbs = 0;     // of the level the data are in, operands read, then the result written
  bool is_provisional = false;  // the peaks are not confirmed
};

// All floating-point operations at the peak of multiply-adds, or all bytes at the bandwidth of the
// nearest level that holds them (`cold`: of memory), whichever takes longer. Input that no window
// reaches is not counted.
Roofline RooflineOf(const Problem& problem, const Peaks& peaks, bool cold);

// Bytes of the operands that a result depends on.
int64_t NeededOperandBytes(const Problem& problem);

}  // namespace convgrad
