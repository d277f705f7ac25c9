// A problem of float32 or 16 bits cut into some images, or rows of one, at a time, as problems of
// float64 on widened copies, where products are exact. Must not know what their sums are for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/plan/algorithm.h"
#include "kernels/precise/precise.h"

namespace convgrad {

Problem InFloat(Problem problem);

// body(begin, end) for pieces of [0, count), as many numbers as a thread takes at a time.
template <class Body>
void ForPieces(const Parallel& parallel, int64_t count, const Body& body) {
  constexpr int64_t kPiece = 1 << 14;
  parallel.For(CeilDiv(count, kPiece),
               [&](int64_t piece) { body(piece * kPiece, std::min(count, (piece + 1) * kPiece)); });
}

// True if so many of the elements are in doubt that it is cheaper to know more of all of them.
inline bool AreMany(int64_t doubts, int64_t elements) {
  constexpr int64_t kFewOf = 32, kAlwaysFew = 16;
  return doubts > elements / kFewOf + kAlwaysFew;
}

// Some images, or some rows of the output of one: a float64 problem of its own, and how it is
// computed.
struct WideSlab {
  Problem problem;
  const Planned& planned;
  const Planned* in_float;  // how the same is in float32, where slabs were asked for that
  int64_t first_image;
  Range in, out;  // rows of each image; all, unless the slab is part of one

  // The slab's part of a tensor begins there.
  int64_t OffsetIn(const Problem& whole, Role role) const;
  int64_t OffsetInResult(const Problem& whole) const;
};

// How many numbers of input and output slabs have, about.
struct SlabSize {
  int64_t numbers;
  // Images with more are cut: bands of rows of NHWC, which neighbours in memory make up.
  bool may_cut_images = false;

  // So few for each of the threads that share a slab that they stay in the caches, with the packed
  // copies that conv2d's filter gradients make of them, but no fewer than the filter has, which is
  // packed or added up anew for each slab.
  static SlabSize Cached(const Problem& problem, int num_threads) {
    const bool has_copies = problem.op == Op::kConv2DBackpropFilter;
    const int64_t numbers = (int64_t{1} << (has_copies ? 17 : 18)) * num_threads;
    return {std::max(numbers, problem.NumElements(Role::kFilter)), true};
  }
};

enum class SlabPlans { kBest, kReference, kBestAndInFloat };

class Slabs {
 public:
  // By the best algorithm or "reference"; in float32 too, or not.
  Slabs(const Problem& problem, const SlabSize& size, const KernelTable& kernels, int num_threads,
        SlabPlans plans = SlabPlans::kBest);

  // The number of slabs of a problem that is cut so; nothing is planned.
  static int64_t Count(const Problem& problem, const SlabSize& size) {
    return Slabs(problem, size).count();
  }
  // Threads take slabs of their own, which spares them to wait for each other, where there are
  // enough of them, and folding their sums takes little memory and time.
  static int NumWorkers(const Problem& problem, const SlabSize& size, int num_threads);
  int64_t count() const;
  WideSlab operator[](int64_t index) const;
  // Filter gradients of more than one slab: their results are added up.
  bool AreFolded() const;

  // The most that any slab has.
  const Problem& widest() const { return kinds_[widest_].problem; }
  int64_t MostOf(Role role) const;
  int64_t MostOfResult() const;
  int64_t MostTerms() const;     // of an element
  int64_t MostBytes() const;     // of operands
  int64_t ScratchBytes() const;  // of what is computed, beside widened operands and sums
  std::string Tiles() const;     // "planes in float64, 64 of 128 images at a time"

 private:
  // Slabs that differ only in their place have the same.
  struct Kind {
    Problem problem;
    Planned planned;
    std::optional<Planned> in_float;
  };
  struct Place {
    int64_t first_image, images;
    Range in, out;
  };
  Slabs(const Problem& problem, const SlabSize& size);  // the cut alone
  Place PlaceOf(int64_t index) const;
  Problem ProblemAt(const Place& place) const;
  const Kind* Find(const Problem& wide) const;
  int64_t Bands() const { return CeilDiv(rows_, band_rows_); }
  Place BandAt(int64_t image, int64_t begin, int64_t end) const;
  bool CanCut() const;

  const Problem problem_;
  int64_t images_ = 1;     // of a slab
  int64_t rows_ = 1;       // of the result or, of a filter gradient, of the output
  int64_t band_rows_ = 1;  // less where images are cut
  std::vector<Kind> kinds_;
  size_t widest_ = 0;
};

// Those who take slabs: one Worker, whose loops all threads share, or one for each thread, which
// runs what is planned for it alone.
template <class Worker>
class SlabWorkers {
 public:
  SlabWorkers(const Parallel& parallel, int num_workers)
      : parallel_(parallel), workers_(static_cast<size_t>(num_workers)) {}

  // The threads of one worker's loops.
  const Parallel& OfWorker() const { return workers_.size() > 1 ? one_thread_ : parallel_; }

  // body(worker, slab) for all slabs. Workers are what `make`, which returns a unique_ptr, makes of
  // them when they are first needed.
  template <class Make, class Body>
  void ForSlabs(const Slabs& slabs, const Make& make, const Body& body) {
    const auto run = [&](int64_t index) {
      const bool is_alone = workers_.size() == 1;
      auto& worker = workers_[is_alone ? 0 : static_cast<size_t>(Parallel::ThreadIndex())];
      if (!worker) worker = make();
      body(*worker, slabs[index]);
    };
    if (workers_.size() > 1) return parallel_.For(slabs.count(), run);
    for (int64_t i = 0; i < slabs.count(); ++i) run(i);
  }
  // After slabs were taken.
  Worker& First() const {
    return **std::ranges::find_if(workers_, [](const auto& worker) { return worker != nullptr; });
  }
  template <class Body>
  void ForAll(const Body& body) const {
    for (const auto& worker : workers_) {
      if (worker != nullptr) body(*worker);
    }
  }
  template <class Body>
  void ForOthers(const Body& body) const {
    ForAll([&](Worker& worker) {
      if (&worker != &First()) body(worker);
    });
  }

 private:
  const Parallel& parallel_;
  const Parallel one_thread_{1};
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Sums as pairs of doubles: high, without an error, and low.
struct PairSums {
  AlignedArray<double> high, low;

  explicit PairSums(int64_t size);  // zeros
  int64_t size() const { return high.size(); }
  // To the first `count` sums.
  void Add(const double* terms, int64_t count, const PairKernels& kernels,
           const Parallel& parallel);
  void Add(const PairSums& others, const PairKernels& kernels, const Parallel& parallel);
};

// The sums of a slab's result or, of a filter gradient, of all slabs together.
class SlabSums {
 public:
  SlabSums(const Slabs& slabs, const PairKernels& kernels)
      : kernels_(kernels),
        slab_(slabs.MostOfResult()),
        totals_(slabs.AreFolded() ? slab_.size() : 0) {}
  int64_t size() const { return slab_.size(); }
  // The next slab's result is written there.
  double* slab() { return slab_.data(); }

  // Adds what the slab's sums are to the totals, with compensation.
  void Fold(const Parallel& parallel) { totals_.Add(slab_.data(), size(), kernels_, parallel); }
  // Adds another's totals.
  void Fold(const SlabSums& other, const Parallel& parallel) {
    totals_.Add(other.totals_, kernels_, parallel);
  }
  // After the last: leaves the totals where a slab's sums are.
  void Unfold(const Parallel& parallel);

  static int64_t Bytes(const Slabs& slabs);

 private:
  const PairKernels& kernels_;
  AlignedArray<double> slab_;
  PairSums totals_;
};

}  // namespace convgrad
