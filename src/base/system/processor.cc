#include "base/system/processor.h"

#include <sched.h>

namespace convgrad {

int CurrentProcessor() {
  return sched_getcpu();
}

void LeaveProcessors(std::span<const std::atomic<int>> taken) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return;
  cpu_set_t others = usable;
  for (const int processor : taken) {
    if (processor >= 0 && processor < CPU_SETSIZE) CPU_CLR(processor, &others);
  }
  // The system moves a thread at once when it may no longer be where it is.
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return;
  sched_setaffinity(0, sizeof(usable), &usable);
}

}  // namespace convgrad
