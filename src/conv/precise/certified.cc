#include "conv/precise/certified.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/precise/product_sizes.h"
#include "conv/precise/single_elements.h"
#include "kernels/precise/precise.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

// Rounds sums, piece by piece, as long as few are in doubt, which are settled one by one.
template <class Stored>
class Rounding {
 public:
  Rounding(const ConvArgs& args, const SingleElements<Stored>& elements)
      : args_(args), kernels_(PreciseKernelsOf<Stored>(args.kernels.isa)), elements_(elements) {
    // Beside what certified.h says four for the roundings of bounds, and of sums with their bounds.
    const int64_t chain = std::min(args.problem.MaxTerms(), kBlockTerms);
    bounds_ = {static_cast<double>(chain + 12) * 0x1p-53, 0};
  }

  // `count` sums that become the result's elements from `first` on, `sizes` what bounds them and
  // its lines. Where the bounds leave many in doubt, it learns what unit all products have; where
  // that does not help, `size_of_all()` computes S for every sum.
  template <class Sizes, class SizeOfAll>
  void Finish(const double* sums, int64_t first, int64_t count, const Sizes& sizes,
              const SizeOfAll& size_of_all) {
    if (knowledge_ == Knowledge::kBounds && !RoundLines(sums, first, count, sizes)) {
      bounds_.exact_below = elements_.Unit().exact_below;
      knowledge_ = Knowledge::kUnit;
    }
    if (knowledge_ == Knowledge::kUnit && !RoundLines(sums, first, count, sizes)) {
      knowledge_ = Knowledge::kSizes;
    }
    if (knowledge_ == Knowledge::kSizes) RoundSized(sums, size_of_all(), first, count);
  }

 private:
  // About all slabs: what one needed the next one will.
  enum class Knowledge { kBounds, kUnit, kSizes };

  // False, and some elements not settled, if many are in doubt.
  template <class Sizes>
  bool RoundLines(const double* sums, int64_t first, int64_t count, const Sizes& sizes) {
    const int64_t lines = sizes.NumLines();
    const int64_t together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, count / lines));
    std::mutex mutex;
    std::vector<int64_t> doubts;
    bool many = false;
    args_.parallel.For(CeilDiv(lines, together), [&](int64_t piece) {
      std::vector<int64_t> some;
      sizes.VisitRuns(piece * together, std::min(lines, (piece + 1) * together),
                      [&](int64_t begin, int64_t size, const double* of_run, double scale) {
                        RoundRun(sums + begin, of_run, scale, first + begin, size, some);
                      });
      if (some.empty()) return;
      const std::lock_guard lock(mutex);
      many |= AreMany(static_cast<int64_t>(doubts.size() + some.size()), count);
      if (!many) doubts.insert(doubts.end(), some.begin(), some.end());
    });
    if (many) return false;
    SettleAll(doubts);
    return true;
  }

  void SettleAll(const std::vector<int64_t>& doubts) const {
    args_.parallel.For(static_cast<int64_t>(doubts.size()), [&](int64_t i) {
      const int64_t element = doubts[static_cast<size_t>(i)];
      static_cast<Stored*>(args_.result)[element] = elements_.Settled(element);
    });
  }

  void RoundSized(const double* sums, const double* sizes, int64_t first, int64_t count) {
    constexpr int64_t kSettledTogether = 1 << 10;
    args_.parallel.For(CeilDiv(count, kSettledTogether), [&](int64_t piece) {
      const int64_t begin = piece * kSettledTogether;
      std::vector<int64_t> doubts;
      RoundRun(sums + begin, sizes + begin, 1, first + begin,
               std::min(count - begin, kSettledTogether), doubts);
      SettleAll(doubts);
    });
  }

  void RoundRun(const double* sums, const double* sizes, double scale, int64_t first, int64_t count,
                std::vector<int64_t>& doubts) {
    const SumBounds bounds = {bounds_.relative * scale, bounds_.exact_below / scale};
    constexpr int64_t kRun = 1 << 10;
    int64_t in_doubt[kRun];
    for (int64_t at = 0; at < count; at += kRun) {
      Stored* result = static_cast<Stored*>(args_.result) + first + at;
      const int64_t num = kernels_.round(sums + at, sizes + at, bounds, result,
                                         std::min(count - at, kRun), in_doubt);
      for (int64_t i = 0; i < num; ++i) {
        doubts.push_back(first + at + in_doubt[i]);
      }
    }
  }

  static constexpr int64_t kPiece = 1 << 14;

  const ConvArgs& args_;
  const PreciseKernels<Stored>& kernels_;
  const SingleElements<Stored>& elements_;
  SumBounds bounds_;
  Knowledge knowledge_ = Knowledge::kBounds;
};

// The numbers of one thread, or those that all threads work on together.
template <class Stored>
struct Worker {
  Worker(const ConvArgs& args, const Slabs& slabs, const SingleElements<Stored>& elements)
      : sums(slabs), bounds(args.problem), rounding(args, elements) {
    for (const Role role : InfoOf(args.problem.op).operands) {
      if (role != Role::kFilter) Of(role) = AlignedArray<double>(slabs.MostOf(role));
    }
  }
  AlignedArray<double>& Of(Role role) { return numbers[role == Role::kInput ? 0 : 1]; }

  AlignedArray<double> numbers[2];
  SlabSums sums;
  AlignedArray<double> sizes, more_sizes;  // where they are needed
  PixelSizes bounds;                       // of filter gradients
  Rounding<Stored> rounding;
};

template <class Stored>
class CertifiedRun {
 public:
  CertifiedRun(const ConvArgs& args, const Slabs& slabs, int num_workers)
      : args_(args),
        slabs_(slabs),
        kernels_(PreciseKernelsOf<Stored>(args.kernels.isa)),
        elements_(args),
        workers_(args.parallel, num_workers) {}

  void RunData(Role source) {
    filter_ = AlignedArray<double>(slabs_.MostOf(Role::kFilter));
    const FilterNorms norms(args_.problem, ElementsOf(Role::kFilter, slabs_[0]), filter_.data(),
                            kernels_, args_.parallel);
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      TapSizes bounds(slab.problem, norms);
      bounds.WidenSource(ElementsOf(source, slab), worker.Of(source).data(), kernels_,
                         args_.parallel);
      Compute(slab, worker, filter_.data(), worker.sums.slab());
      worker.rounding.Finish(worker.sums.slab(), slab.OffsetInResult(args_.problem),
                             CountOf(slab.problem.ResultShape()), bounds,
                             [&] { return SizesOfData(slab, worker, source); });
    });
  }

  void RunFilter() {
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      LoadPixels(slab, worker, &worker.bounds);
      Compute(slab, worker, nullptr, worker.sums.slab());
      if (slabs_.AreFolded()) worker.sums.Fold(args_.parallel);
    });
    Worker<Stored>& first = workers_.First();
    workers_.ForOthers([&](Worker<Stored>& other) {
      first.bounds.Add(other.bounds);
      first.sums.Fold(other.sums, args_.parallel);
    });
    if (slabs_.AreFolded()) first.sums.Unfold(args_.parallel);
    first.rounding.Finish(first.sums.slab(), 0, first.sums.size(), first.bounds,
                          [&] { return SizesOfFilter(first); });
  }

 private:
  template <class Body>
  void ForSlabs(const Body& body) {
    const auto make = [&] { return std::make_unique<Worker<Stored>>(args_, slabs_, elements_); };
    workers_.ForSlabs(slabs_, make, body);
  }

  const Stored* ElementsOf(Role role, const WideSlab& slab) const {
    return static_cast<const Stored*>(args_.OperandOf(role)) + slab.OffsetIn(args_.problem, role);
  }
  void Compute(const WideSlab& slab, Worker<Stored>& worker, const double* filter, double* result) {
    slab.planned.Run({slab.problem, worker.Of(Role::kInput).data(), filter,
                      worker.Of(Role::kOutBackprop).data(), result, args_.kernels, args_.parallel});
  }
  // A filter gradient's operands; their squares go to `bounds`, unless it is null.
  void LoadPixels(const WideSlab& slab, Worker<Stored>& worker, PixelSizes* bounds) {
    BandSquares input(DataSizes::Of(slab.problem, Role::kInput));
    BandSquares out(DataSizes::Of(slab.problem, Role::kOutBackprop));
    input.Widen(ElementsOf(Role::kInput, slab), worker.Of(Role::kInput).data(), kernels_,
                args_.parallel);
    out.Widen(ElementsOf(Role::kOutBackprop, slab), worker.Of(Role::kOutBackprop).data(), kernels_,
              args_.parallel);
    if (bounds != nullptr) bounds->Add(input, out);
  }

  // The sums of absolute values of a slab.
  const double* SizesOfData(const WideSlab& slab, Worker<Stored>& worker, Role source) {
    std::call_once(has_filter_sizes_, [&] {
      filter_sizes_ = AlignedArray<double>(filter_.size());
      std::copy_n(filter_.data(), filter_.size(), filter_sizes_.data());
      TakeAbsoluteValues(filter_sizes_);
    });
    TakeAbsoluteValues(worker.Of(source));
    if (worker.sizes.size() == 0) worker.sizes = AlignedArray<double>(worker.sums.size());
    Compute(slab, worker, filter_sizes_.data(), worker.sizes.data());
    return worker.sizes.data();
  }

  // S of a filter gradient, summed over all slabs.
  const double* SizesOfFilter(Worker<Stored>& first) {
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      LoadPixels(slab, worker, nullptr);
      TakeAbsoluteValues(worker.Of(Role::kInput));
      TakeAbsoluteValues(worker.Of(Role::kOutBackprop));
      const bool is_first = worker.sizes.size() == 0;
      AlignedArray<double>& sizes = is_first ? worker.sizes : worker.more_sizes;
      if (sizes.size() == 0) sizes = AlignedArray<double>(worker.sums.size());
      Compute(slab, worker, nullptr, sizes.data());
      if (!is_first) AddSizes(worker.more_sizes, worker.sizes);
    });
    workers_.ForOthers([&](Worker<Stored>& other) {
      if (first.sizes.size() == 0) {
        std::swap(first.sizes, other.sizes);
      } else if (other.sizes.size() > 0) {
        AddSizes(other.sizes, first.sizes);
      }
    });
    return first.sizes.data();
  }

  void TakeAbsoluteValues(AlignedArray<double>& numbers) {
    ForPieces(args_.parallel, numbers.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) numbers[i] = std::fabs(numbers[i]);
    });
  }
  void AddSizes(const AlignedArray<double>& some, AlignedArray<double>& to) {
    ForPieces(args_.parallel, to.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] += some[i];
    });
  }

  const ConvArgs& args_;
  const Slabs& slabs_;
  const PreciseKernels<Stored>& kernels_;
  const SingleElements<Stored> elements_;
  SlabWorkers<Worker<Stored>> workers_;
  AlignedArray<double> filter_, filter_sizes_;  // but of filter gradients
  std::once_flag has_filter_sizes_;
};

}  // namespace

CertifiedPlan::CertifiedPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
    : problem_(problem),
      num_workers_(Slabs::NumWorkers(problem, SlabSize::Cached(problem, 1), num_threads)),
      threads_together_(num_workers_ > 1 ? 1 : num_threads),
      slabs_(problem, SlabSize::Cached(problem, threads_together_), kernels, threads_together_) {}

int64_t CertifiedPlan::ScratchBytes() const {
  const Problem& slab = slabs_.widest();
  constexpr auto kDouble = static_cast<int64_t>(sizeof(double));
  const int64_t result = slabs_.MostOfResult();
  const int64_t doubts = result / 32 * static_cast<int64_t>(sizeof(int64_t));
  const int64_t sizes = result * (slabs_.AreFolded() ? 2 : 1) * kDouble;
  const int64_t of_worker = slabs_.ScratchBytes() + SlabSums::Bytes(slabs_) + sizes + doubts;
  if (InfoOf(slab.op).direction == Direction::kBackpropFilter) {
    const int64_t squares = BandSquares::Bytes(DataSizes::Of(slab, Role::kInput)) +
                            BandSquares::Bytes(DataSizes::Of(slab, Role::kOutBackprop));
    return num_workers_ * (of_worker + slabs_.MostBytes() + squares);
  }
  const int64_t filter = slabs_.MostOf(Role::kFilter) * kDouble;
  return 2 * filter + FilterNorms::Bytes(problem_) +
         num_workers_ * (of_worker + slabs_.MostBytes() - filter + TapSizes::Bytes(slab));
}

bool CertifiedPlan::Run(const ConvArgs& args) const {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<Stored, double>) {
      CertifiedRun<Stored> run(args, slabs_, num_workers_);
      switch (InfoOf(args.problem.op).direction) {
        case Direction::kForward: return run.RunData(Role::kInput);
        case Direction::kBackpropInput: return run.RunData(Role::kOutBackprop);
        case Direction::kBackpropFilter: return run.RunFilter();
      }
    } else {
      ThrowInternal("float64 can't be widened");
    }
  });
  return true;
}

}  // namespace convgrad
