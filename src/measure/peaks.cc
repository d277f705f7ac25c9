#include "measure/peaks.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/resources.h"
#include "measure/sampler.h"

namespace convgrad {
namespace {

// The loops' own unit; every slice is a multiple of it.
constexpr int64_t kUnit = 1024;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr CacheSize kUsualCaches[] = {{1, 32 << 10, 1}, {2, kMiB, 1}, {3, 32 * kMiB, 1024}};
// Long against the handing out of a piece of work, short against an interrupt.
constexpr double kPieceSeconds = 1e-4;
constexpr int64_t kPiecesPerThread = 16;
// Trials end when so many in a row were no better: another program may have had the machine.
constexpr int kFruitlessTrials = 8;
constexpr double kLeastSeconds = 0.02, kMostSeconds = 0.3;
// Rates of two rounds that are nearer are the same: clocks and memory vary by as much on their own.
constexpr double kNear = 0.9;
constexpr int kMostRounds = 4;
// The share of the time of its CPUs that a trial has which nothing disturbs.
constexpr double kUndisturbedShare = 0.9;

struct Sink {
  alignas(kAlignment) std::byte bytes[kAlignment];
};

// The best that trials achieve, and whether it had the CPUs to itself.
class Trials {
 public:
  explicit Trials(const Parallel& parallel)
      : parallel_(parallel), num_cpus_(std::min(parallel.num_threads(), UsableCpus())) {}

  const Parallel& parallel() const { return parallel_; }
  // True if that holds for every best so far.
  bool are_undisturbed() const { return are_undisturbed_; }

  // The most that `trial`, which returns how much it did, achieves a second.
  double BestRate(const std::function<double()>& trial) {
    const Clock clock = SystemClock();
    const double begin = clock.wall();
    double best = 0, share_of_best = 0;
    for (int fruitless = 0;;) {
      const double start = clock.wall(), cpu_start = clock.cpu();
      const double done = trial();
      const double cpu_end = clock.cpu(), end = clock.wall();
      const double rate = done / std::max(end - start, 1e-9);
      fruitless = rate > 1.01 * best ? 0 : fruitless + 1;
      if (rate > best) share_of_best = (cpu_end - cpu_start) / (end - start) / num_cpus_;
      best = std::max(best, rate);
      const bool is_enough = fruitless >= kFruitlessTrials && end - begin >= kLeastSeconds;
      if (is_enough || end - begin >= kMostSeconds) break;
    }
    are_undisturbed_ = are_undisturbed_ && share_of_best >= kUndisturbedShare;
    return best;
  }

 private:
  const Parallel& parallel_;
  const int num_cpus_;
  bool are_undisturbed_ = true;
};

// How often `piece` must run to take kPieceSeconds.
int64_t RepeatsOf(const std::function<void()>& piece) {
  const auto now = SystemClock().wall;
  for (int64_t repeats = 1;; repeats *= 2) {
    const double start = now();
    for (int64_t i = 0; i < repeats; ++i) piece();
    if (now() - start >= kPieceSeconds) return repeats;
  }
}

// 10^9 a second of all threads. piece(thread) does `amount`; it runs on every thread again and
// again.
double ThreadedRate(Trials& trials, double amount, const std::function<void(int)>& piece) {
  const int64_t repeats = RepeatsOf([&] { piece(0); });
  const int64_t pieces = kPiecesPerThread * trials.parallel().num_threads();
  return 1e-9 * trials.BestRate([&] {
    trials.parallel().For(pieces, [&](int64_t) {
      for (int64_t i = 0; i < repeats; ++i) piece(Parallel::ThreadIndex());
    });
    return amount * static_cast<double>(repeats * pieces);
  });
}

double FmaPeak(Trials& trials, int64_t (*fma)(int64_t, void*)) {
  constexpr int64_t kRounds = 256;
  Sink sink;
  const double flops = static_cast<double>(fma(kRounds, sink.bytes));
  return ThreadedRate(trials, flops, [fma](int) {
    Sink own;
    fma(kRounds, own.bytes);
  });
}

// A slice of a buffer for every thread, each thread at its own again and again.
void MeasureCache(const MachineLimitKernels& kernels, Trials& trials, int64_t slice,
                  std::byte* buffer, LevelPeak& level) {
  const double bytes = static_cast<double>(slice);
  level.read_gbs = ThreadedRate(trials, bytes, [&](int thread) {
    Sink sink;
    kernels.read(buffer + thread * slice, slice, sink.bytes);
  });
  level.write_gbs = ThreadedRate(
      trials, bytes, [&](int thread) { kernels.write(buffer + thread * slice, slice); });
}

// All of the buffer once, in pieces.
void MeasureMemory(const MachineLimitKernels& kernels, Trials& trials, int64_t bytes,
                   std::byte* buffer, LevelPeak& level) {
  const int64_t pieces = kPiecesPerThread * trials.parallel().num_threads();
  const int64_t piece_bytes = bytes / pieces / kUnit * kUnit;
  const auto rate = [&](const std::function<void(std::byte*)>& piece) {
    return 1e-9 * trials.BestRate([&] {
      trials.parallel().For(pieces, [&](int64_t i) { piece(buffer + i * piece_bytes); });
      return static_cast<double>(pieces * piece_bytes);
    });
  };
  level.read_gbs = rate([&](std::byte* at) {
    Sink sink;
    kernels.read(at, piece_bytes, sink.bytes);
  });
  level.write_gbs = std::max(rate([&](std::byte* at) { kernels.write(at, piece_bytes); }),
                             rate([&](std::byte* at) { kernels.write_around(at, piece_bytes); }));
}

// The size of a buffer that lies in memory whatever the caches hold.
int64_t MemoryBufferBytes(const std::vector<LevelPeak>& levels) {
  const int64_t wanted = std::clamp(4 * levels.back().capacity, 64 * kMiB, 1024 * kMiB);
  return std::max(16 * kMiB, std::min(wanted, AvailableMemory() / 4)) / kUnit * kUnit;
}

// The size of a thread's part of a buffer that fits a level with room to spare and is more than the
// level before it holds.
int64_t SliceBytes(const LevelPeak& level, int64_t capacity_before, int num_threads) {
  const int64_t total =
      std::max(level.capacity / 2, std::min(2 * capacity_before, level.capacity / 10 * 9));
  return std::max(kUnit, total / num_threads / kUnit * kUnit);
}

void FirstTouch(const MachineLimitKernels& kernels, const Parallel& parallel, int64_t bytes,
                std::byte* buffer) {
  const int64_t pieces = CeilDiv(bytes, kMiB);
  parallel.For(pieces, [&](int64_t i) {
    kernels.write(buffer + i * kMiB, std::min(kMiB, bytes - i * kMiB));
  });
}

PeakRound MeasureRound(const KernelTable& kernels, const Parallel& parallel,
                       std::vector<LevelPeak> caches, AlignedArray<std::byte>& buffer) {
  const MachineLimitKernels& limits = kernels.machine_limits;
  Trials trials(parallel);
  Peaks peaks;
  peaks.isa = kernels.isa;
  peaks.num_threads = parallel.num_threads();
  peaks.f32_gflops = FmaPeak(trials, limits.fma_f32);
  peaks.f64_gflops = FmaPeak(trials, limits.fma_f64);
  peaks.levels = std::move(caches);
  int64_t capacity_before = 0;
  for (LevelPeak& level : peaks.levels) {
    const int64_t slice =
        std::min(SliceBytes(level, capacity_before, peaks.num_threads),
                 std::max(kUnit, buffer.size() / peaks.num_threads / kUnit * kUnit));
    MeasureCache(limits, trials, slice, buffer.data(), level);
    capacity_before = level.capacity;
  }
  LevelPeak memory;
  memory.name = "memory";
  MeasureMemory(limits, trials, buffer.size(), buffer.data(), memory);
  peaks.levels.push_back(memory);
  return {std::move(peaks), trials.are_undisturbed()};
}

bool HaveSameLevels(const Peaks& one, const Peaks& other) {
  const auto is_same = [](const LevelPeak& a, const LevelPeak& b) {
    return a.name == b.name && a.capacity == b.capacity;
  };
  return std::equal(one.levels.begin(), one.levels.end(), other.levels.begin(), other.levels.end(),
                    is_same);
}

// Pointers to all rates, in the same order for the same levels. AnyPeaks: Peaks or const Peaks.
template <class AnyPeaks>
auto RatesOf(AnyPeaks& peaks) {
  std::vector rates = {&peaks.f32_gflops, &peaks.f64_gflops};
  for (auto& level : peaks.levels) {
    rates.push_back(&level.read_gbs);
    rates.push_back(&level.write_gbs);
  }
  return rates;
}

void RaiseTo(const Peaks& other, Peaks& peaks) {
  if (!HaveSameLevels(peaks, other)) return;
  const auto rates = RatesOf(peaks);
  const auto others = RatesOf(other);
  for (size_t i = 0; i < rates.size(); ++i) *rates[i] = std::max(*rates[i], *others[i]);
}

// True if two undisturbed rounds came near every rate of `peaks`.
bool AreConfirmed(const Peaks& peaks, const std::vector<PeakRound>& rounds) {
  const auto rates = RatesOf(peaks);
  for (size_t i = 0; i < rates.size(); ++i) {
    const auto is_near = [&](const PeakRound& round) {
      return round.is_undisturbed && *RatesOf(round.peaks)[i] >= kNear * *rates[i];
    };
    if (std::count_if(rounds.begin(), rounds.end(), is_near) < 2) return false;
  }
  return true;
}

}  // namespace

const LevelPeak& Peaks::LevelOf(int64_t bytes) const {
  for (const LevelPeak& level : levels) {
    if (bytes <= level.capacity) return level;
  }
  return levels.back();
}

std::vector<LevelPeak> CacheLevels(std::span<const CacheSize> caches, int num_threads) {
  std::vector<LevelPeak> levels;
  for (const CacheSize& cache : caches) {
    if (cache.level < 1 || cache.level > 3 || cache.bytes < kUnit) continue;
    LevelPeak level;
    level.name = "L" + std::to_string(cache.level);
    level.capacity = cache.bytes * CeilDiv(num_threads, std::max(1, cache.num_sharing));
    levels.push_back(level);
  }
  const auto is_smaller = [](const LevelPeak& a, const LevelPeak& b) {
    return a.capacity < b.capacity;
  };
  std::sort(levels.begin(), levels.end(), is_smaller);
  return levels.empty() ? CacheLevels(kUsualCaches, num_threads) : levels;
}

Peaks MeasurePeaks(const KernelTable& kernels, const Parallel& parallel,
                   std::span<const CacheSize> caches, const Peaks* earlier) {
  const std::vector<LevelPeak> levels = CacheLevels(caches, parallel.num_threads());
  AlignedArray<std::byte> buffer(MemoryBufferBytes(levels));
  FirstTouch(kernels.machine_limits, parallel, buffer.size(), buffer.data());
  return ConfirmPeaks([&] { return MeasureRound(kernels, parallel, levels, buffer); }, earlier);
}

Peaks ConfirmPeaks(const std::function<PeakRound()>& round, const Peaks* earlier) {
  std::vector<PeakRound> rounds = {round()};
  Peaks best = rounds.front().peaks;
  if (earlier != nullptr) RaiseTo(*earlier, best);
  while (rounds.size() < kMostRounds && !AreConfirmed(best, rounds)) {
    rounds.push_back(round());
    RaiseTo(rounds.back().peaks, best);
  }
  best.confirmed = AreConfirmed(best, rounds);
  return best;
}

bool AreNear(const Peaks& one, const Peaks& other) {
  if (!HaveSameLevels(one, other)) return false;
  const auto rates = RatesOf(one), others = RatesOf(other);
  const auto is_near = [](const double* x, const double* y) {
    return *x >= kNear * *y && *y >= kNear * *x;
  };
  return std::equal(rates.begin(), rates.end(), others.begin(), is_near);
}

int64_t CacheEvictor::BufferBytes(std::span<const CacheSize> caches, int num_threads) {
  return 2 * RoundUp(CacheLevels(caches, num_threads).back().capacity, kMiB);
}

CacheEvictor::CacheEvictor(const KernelTable& kernels, const Parallel& parallel,
                           std::span<const CacheSize> caches)
    : kernels_(kernels.machine_limits),
      parallel_(parallel),
      buffer_(BufferBytes(caches, parallel.num_threads())) {
  FirstTouch(kernels_, parallel_, buffer_.size(), buffer_.data());
}

// By reading: lines that were written would have to leave the caches again while the work is timed.
void CacheEvictor::Evict() const {
  parallel_.For(buffer_.size() / kMiB, [&](int64_t i) {
    Sink sink;
    kernels_.read(buffer_.data() + i * kMiB, kMiB, sink.bytes);
  });
}

}  // namespace convgrad
