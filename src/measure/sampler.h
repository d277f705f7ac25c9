// Repeated timing of one piece of work: warm-up until it stops getting faster, then samples until
// the median is known well enough or time is up. Must not know what is timed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "measure/order_statistics.h"

namespace convgrad {

struct SamplingOptions {
  double target_width = 0.02;    // of the median's confidence interval, as a part of the median
  int64_t min_samples = 10;      // before the width counts; fewer only where time is up
  double min_seconds = 0.1;      // likewise: noise that comes and goes must have its chance
  double max_seconds = 2;        // warm-up included; at least one sample is always taken
  double sample_seconds = 2e-4;  // shorter work is repeated for as long, so that the clock's own
                                 // resolution and cost (some 50 ns) stay below a thousandth
  bool repeat_short = true;      // else a sample is always one iteration
};

// Seconds since some moment, of the world and of this process's CPUs.
struct Clock {
  std::function<double()> wall;
  std::function<double()> cpu;
};
Clock SystemClock();

enum class StopReason { kNarrow, kTime };
const char* NameOf(StopReason reason);  // "interval", "time"

struct Sampling {
  std::vector<double> seconds;  // of one iteration, sample by sample
  double cpu_seconds = 0;       // of one iteration, mean
  int64_t warmup = 0;           // iterations before the first sample
  int64_t sample_iterations = 1;
  StopReason stop_reason = StopReason::kTime;
  Summary summary;
  int64_t iterations() const { return sample_iterations * static_cast<int64_t>(seconds.size()); }
};

// Times `body`; `between` runs before each warm-up iteration and each sample, untimed. Throws
// Stopped when the process is asked to end.
Sampling Sample(const SamplingOptions& options, const Clock& clock,
                const std::function<void()>& body, const std::function<void()>& between);

}  // namespace convgrad
