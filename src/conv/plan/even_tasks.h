// How evenly whole tasks fall to threads.
#pragma once

#include <cstdint>

#include "base/checked.h"
#include "conv/plan/work.h"

namespace convgrad {

// The most tasks that a thread gets, of what each would if they could be cut.
inline double Unevenness(int64_t tasks, int num_threads) {
  return Product(RoundUp(tasks, num_threads)) / Product(tasks);
}

}  // namespace convgrad
