#include "measure/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/error.h"
#include "base/parallel.h"

namespace convgrad {
namespace {

void CheckStop() {
  if (StopRequested()) throw Stopped{};
}

// Until three iterations in a row are not 2 % faster than all before, for at least half of
// min_seconds (a core needs some milliseconds for its frequency), for at most a quarter of the
// time there is. Returns the fastest iteration's seconds.
double WarmUp(const SamplingOptions& options, const Clock& clock, const std::function<void()>& body,
              const std::function<void()>& between, Sampling& sampling) {
  const double begin = clock.wall();
  double fastest = 0;
  for (int since_faster = 0;;) {
    between();
    const double start = clock.wall();
    body();
    const double end = clock.wall();
    CheckStop();
    const double seconds = end - start;
    const bool is_faster = sampling.warmup == 0 || seconds < 0.98 * fastest;
    since_faster = is_faster ? 0 : since_faster + 1;
    fastest = sampling.warmup == 0 ? seconds : std::min(fastest, seconds);
    ++sampling.warmup;
    const double elapsed = end - begin;
    if (elapsed >= options.max_seconds / 4) return fastest;
    if (since_faster >= 3 && elapsed >= options.min_seconds / 2) return fastest;
  }
}

int64_t SampleIterations(const SamplingOptions& options, double seconds) {
  if (!options.repeat_short || seconds >= options.sample_seconds) return 1;
  constexpr double kMost = 1e6;
  const double wanted = seconds > 0 ? std::ceil(options.sample_seconds / seconds) : kMost;
  return static_cast<int64_t>(std::min(wanted, kMost));
}

}  // namespace

Clock SystemClock() {
  const auto wall = [] {
    using std::chrono::steady_clock;
    return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
  };
  const auto cpu = [] {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  };
  return {wall, cpu};
}

const char* NameOf(StopReason reason) {
  switch (reason) {
    case StopReason::kNarrow: return "interval";
    case StopReason::kTime: return "time";
  }
  ThrowInternal("unknown reason to stop");
}

Sampling Sample(const SamplingOptions& options, const Clock& clock,
                const std::function<void()>& body, const std::function<void()>& between) {
  Sampling sampling;
  const double begin = clock.wall();
  const double fastest = WarmUp(options, clock, body, between, sampling);
  sampling.sample_iterations = SampleIterations(options, fastest);
  const double first = clock.wall();
  double cpu_seconds = 0;
  for (int64_t next_look = options.min_samples;;) {
    between();
    const double cpu_start = clock.cpu();
    const double start = clock.wall();
    for (int64_t i = 0; i < sampling.sample_iterations; ++i) body();
    const double end = clock.wall();
    cpu_seconds += clock.cpu() - cpu_start;
    CheckStop();
    sampling.seconds.push_back((end - start) / static_cast<double>(sampling.sample_iterations));
    sampling.cpu_seconds = cpu_seconds / static_cast<double>(sampling.iterations());

    const bool is_late = end - begin >= options.max_seconds;
    const int64_t count = static_cast<int64_t>(sampling.seconds.size());
    const bool looks = count >= next_look && end - first >= options.min_seconds;
    if (!is_late && !looks) continue;
    sampling.summary = Summarize(sampling.seconds);
    const bool is_narrow = RelativeWidth(sampling.summary) <= options.target_width;
    sampling.stop_reason = is_narrow ? StopReason::kNarrow : StopReason::kTime;
    if (is_narrow || is_late) return sampling;
    next_look = count + 1 + count / 8;  // looking costs a sort
  }
}

}  // namespace convgrad
