// Rounds sums that are known but for a bound: most by vectors, those in doubt one by one. Must not
// know where sums come from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/memory.h"
#include "conv/precise/single_elements.h"
#include "conv/precise/slabs.h"
#include "kernels/precise/precise.h"
#include "order/canonical_order.h"

namespace convgrad {

// Numbers that will be read next, fetched from memory beside the rounding, which leaves it idle.
template <class Stored>
class NextNumbers {
 public:
  NextNumbers() = default;
  // In step with `count` elements of a result.
  NextNumbers(std::span<const Stored> numbers, int64_t count)
      : from_(reinterpret_cast<const std::byte*>(numbers.data())),
        bytes_of_element_(static_cast<double>(numbers.size_bytes()) /
                          static_cast<double>(std::max<int64_t>(1, count))) {}

  // Fetches what belongs to elements [begin, end).
  void Fetch(int64_t begin, int64_t end) const {
    constexpr int kToSecondCache = 2;
    for (int64_t line = LineOf(begin); line < LineOf(end); ++line) {
      __builtin_prefetch(from_ + line * kLineBytes, 0, kToSecondCache);
    }
  }

 private:
  int64_t LineOf(int64_t element) const {
    return static_cast<int64_t>(static_cast<double>(element) * bytes_of_element_) / kLineBytes;
  }

  const std::byte* from_ = nullptr;
  double bytes_of_element_ = 0;
};

// Rounds sums, piece by piece, as long as few are in doubt, which are settled one by one.
template <class Stored>
class CertifiedRounding {
 public:
  CertifiedRounding(const ConvArgs& args, const SingleElements<Stored>& elements)
      : args_(args), kernels_(PreciseKernelsOf<Stored>(args.kernels.isa)), elements_(elements) {
    // Beside what widened.h says four for the roundings of bounds, and of sums with their bounds.
    const int64_t chain = std::min(args.problem.MaxTerms(), kBlockTerms);
    relative_ = static_cast<double>(chain + 12) * 0x1p-53;
  }

  // A sum is off by less than this, by what its terms' absolute values are in all.
  double relative() const { return relative_; }

  // Elements [first, first + count) of the result, which are written from `to` on.
  struct Target {
    Stored* to;
    int64_t first, count;
  };

  // Sums as they are.
  void Finish(const double* sums, const Target& target, std::span<const Stored> next = {}) {
    next_ = NextNumbers<Stored>(next, target.count);
    ForPieces(args_.parallel, target.count, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> doubts;  // none: no bound is added
      RoundRun(sums + begin, sums + begin, {0, 0}, {target.to + begin, begin, end - begin}, doubts);
    });
  }

  // `sizes`: what bounds them and its lines. Where the bounds leave many in doubt, it learns what
  // unit all products have; where that does not help, `size_of_all()` computes S for every sum.
  template <class Sizes, class SizeOfAll>
  void FinishExact(const double* sums, const Target& target, const Sizes& sizes,
                   const SizeOfAll& size_of_all, std::span<const Stored> next = {}) {
    next_ = NextNumbers<Stored>(next, target.count);
    if (knowledge_ == Knowledge::kBounds && !RoundLines(sums, target, sizes)) {
      exact_below_ = elements_.Unit().exact_below;
      knowledge_ = Knowledge::kUnit;
    }
    if (knowledge_ == Knowledge::kUnit && !RoundLines(sums, target, sizes)) {
      knowledge_ = Knowledge::kSizes;
    }
    if (knowledge_ == Knowledge::kSizes) RoundSized(sums, size_of_all(), target);
  }

 private:
  // About all slabs: what one needed the next one will.
  enum class Knowledge { kBounds, kUnit, kSizes };

  SumBounds BoundsAt(double scale) const { return {relative_ * scale, exact_below_ / scale}; }

  // False, and some elements not settled, if many are in doubt.
  template <class Sizes>
  bool RoundLines(const double* sums, const Target& target, const Sizes& sizes) {
    constexpr int64_t kPiece = 1 << 14;
    const int64_t lines = sizes.NumLines(), count = target.count;
    const int64_t together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, count / lines));
    std::mutex mutex;
    std::vector<int64_t> doubts;
    bool many = false;
    args_.parallel.For(CeilDiv(lines, together), [&](int64_t piece) {
      std::vector<int64_t> some;
      sizes.VisitRuns(
          piece * together, std::min(lines, (piece + 1) * together),
          [&](int64_t begin, int64_t size, const double* of_run, double scale) {
            RoundRun(sums + begin, of_run, BoundsAt(scale), {target.to + begin, begin, size}, some);
          });
      if (some.empty()) return;
      const std::lock_guard lock(mutex);
      many |= AreMany(static_cast<int64_t>(doubts.size() + some.size()), count);
      if (!many) doubts.insert(doubts.end(), some.begin(), some.end());
    });
    if (many) return false;
    SettleAll(doubts, target);
    return true;
  }

  void RoundSized(const double* sums, const double* sizes, const Target& target) {
    constexpr int64_t kSettledTogether = 1 << 10;
    args_.parallel.For(CeilDiv(target.count, kSettledTogether), [&](int64_t piece) {
      const int64_t begin = piece * kSettledTogether;
      std::vector<int64_t> doubts;
      RoundRun(sums + begin, sizes + begin, BoundsAt(1),
               {target.to + begin, begin, std::min(target.count - begin, kSettledTogether)},
               doubts);
      SettleAll(doubts, target);
    });
  }

  // `doubts` count from the target's first element.
  void SettleAll(const std::vector<int64_t>& doubts, const Target& target) const {
    args_.parallel.For(static_cast<int64_t>(doubts.size()), [&](int64_t i) {
      const int64_t doubt = doubts[static_cast<size_t>(i)];
      target.to[doubt] = elements_.Settled(target.first + doubt);
    });
  }

  void RoundRun(const double* sums, const double* sizes, const SumBounds& bounds, const Target& run,
                std::vector<int64_t>& doubts) const {
    constexpr int64_t kRun = 1 << 8;
    int64_t in_doubt[kRun];
    for (int64_t at = 0; at < run.count; at += kRun) {
      const int64_t count = std::min(run.count - at, kRun);
      next_.Fetch(run.first + at, run.first + at + count);
      const int64_t num =
          kernels_.round(sums + at, sizes + at, bounds, run.to + at, count, in_doubt);
      for (int64_t i = 0; i < num; ++i) doubts.push_back(run.first + at + in_doubt[i]);
    }
  }

  const ConvArgs& args_;
  const PreciseKernels<Stored>& kernels_;
  const SingleElements<Stored>& elements_;
  NextNumbers<Stored> next_;
  double relative_, exact_below_ = 0;
  Knowledge knowledge_ = Knowledge::kBounds;
};

}  // namespace convgrad
