#include "conv/precise/widened.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/precise/product_sizes.h"
#include "conv/precise/single_elements.h"
#include "kernels/precise/precise.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

bool IsFilter(const Problem& problem) {
  return InfoOf(problem.op).direction == Direction::kBackpropFilter;
}

// The bits that `double` has of a filter gradient depend on the cut and on the order in which slabs
// are added up: slabs of 64 MiB as doubles, one after the other. Nothing else depends on either.
bool IsCutBySizes(const Problem& problem, bool is_exact) {
  return IsFilter(problem) && !is_exact;
}
SlabSize SizeOf(const Problem& problem, bool is_exact, int threads_together) {
  constexpr int64_t kNumbers = int64_t{1} << 23;
  return IsCutBySizes(problem, is_exact) ? SlabSize{kNumbers}
                                         : SlabSize::Cached(problem, threads_together);
}
int NumWorkersOf(const Problem& problem, bool is_exact, int num_threads) {
  if (IsCutBySizes(problem, is_exact)) return 1;
  return Slabs::NumWorkers(problem, SlabSize::Cached(problem, 1), num_threads);
}

template <class Stored>
void WidenNumbers(const ConvArgs& args, const Stored* from, double* to, int64_t count) {
  const auto& widen = PreciseKernelsOf<Stored>(args.kernels.isa).widen;
  ForPieces(args.parallel, count, [&](int64_t begin, int64_t end) {
    constexpr int64_t kRow = 256;
    double squares[kRow] = {};  // which nothing needs here
    const int64_t rows = (end - begin) / kRow, rest = begin + rows * kRow;
    widen(from + begin, to + begin, squares, rows, kRow);
    widen(from + rest, to + rest, squares, 1, end - rest);
  });
}

// Rounds sums, piece by piece, as long as few are in doubt, which are settled one by one.
template <class Stored>
class Rounding {
 public:
  Rounding(const ConvArgs& args, const SingleElements<Stored>& elements)
      : args_(args), kernels_(PreciseKernelsOf<Stored>(args.kernels.isa)), elements_(elements) {
    // Beside what widened.h says four for the roundings of bounds, and of sums with their bounds.
    const int64_t chain = std::min(args.problem.MaxTerms(), kBlockTerms);
    relative_ = static_cast<double>(chain + 12) * 0x1p-53;
  }

  // `count` sums, which become the result's elements from `first` on, as they are.
  void Finish(const double* sums, int64_t first, int64_t count) {
    ForPieces(args_.parallel, count, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> doubts;  // none: no bound is added
      RoundRun(sums + begin, sums + begin, {0, 0}, first + begin, end - begin, doubts);
    });
  }

  // `sizes`: what bounds them and its lines. Where the bounds leave many in doubt, it learns what
  // unit all products have; where that does not help, `size_of_all()` computes S for every sum.
  template <class Sizes, class SizeOfAll>
  void FinishExact(const double* sums, int64_t first, int64_t count, const Sizes& sizes,
                   const SizeOfAll& size_of_all) {
    if (knowledge_ == Knowledge::kBounds && !RoundLines(sums, first, count, sizes)) {
      exact_below_ = elements_.Unit().exact_below;
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

  SumBounds BoundsAt(double scale) const { return {relative_ * scale, exact_below_ / scale}; }

  // False, and some elements not settled, if many are in doubt.
  template <class Sizes>
  bool RoundLines(const double* sums, int64_t first, int64_t count, const Sizes& sizes) {
    constexpr int64_t kPiece = 1 << 14;
    const int64_t lines = sizes.NumLines();
    const int64_t together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, count / lines));
    std::mutex mutex;
    std::vector<int64_t> doubts;
    bool many = false;
    args_.parallel.For(CeilDiv(lines, together), [&](int64_t piece) {
      std::vector<int64_t> some;
      sizes.VisitRuns(piece * together, std::min(lines, (piece + 1) * together),
                      [&](int64_t begin, int64_t size, const double* of_run, double scale) {
                        RoundRun(sums + begin, of_run, BoundsAt(scale), first + begin, size, some);
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

  void RoundSized(const double* sums, const double* sizes, int64_t first, int64_t count) {
    constexpr int64_t kSettledTogether = 1 << 10;
    args_.parallel.For(CeilDiv(count, kSettledTogether), [&](int64_t piece) {
      const int64_t begin = piece * kSettledTogether;
      std::vector<int64_t> doubts;
      RoundRun(sums + begin, sizes + begin, BoundsAt(1), first + begin,
               std::min(count - begin, kSettledTogether), doubts);
      SettleAll(doubts);
    });
  }

  void SettleAll(const std::vector<int64_t>& doubts) const {
    args_.parallel.For(static_cast<int64_t>(doubts.size()), [&](int64_t i) {
      const int64_t element = doubts[static_cast<size_t>(i)];
      static_cast<Stored*>(args_.result)[element] = elements_.Settled(element);
    });
  }

  void RoundRun(const double* sums, const double* sizes, const SumBounds& bounds, int64_t first,
                int64_t count, std::vector<int64_t>& doubts) const {
    constexpr int64_t kRun = 1 << 10;
    int64_t in_doubt[kRun];
    for (int64_t at = 0; at < count; at += kRun) {
      Stored* result = static_cast<Stored*>(args_.result) + first + at;
      const int64_t num = kernels_.round(sums + at, sizes + at, bounds, result,
                                         std::min(count - at, kRun), in_doubt);
      for (int64_t i = 0; i < num; ++i) doubts.push_back(first + at + in_doubt[i]);
    }
  }

  const ConvArgs& args_;
  const PreciseKernels<Stored>& kernels_;
  const SingleElements<Stored>& elements_;
  double relative_, exact_below_ = 0;
  Knowledge knowledge_ = Knowledge::kBounds;
};

// The numbers of one thread, or those that all threads work on together.
template <class Stored>
struct Worker {
  Worker(const ConvArgs& args, const Slabs& slabs, const SingleElements<Stored>& elements)
      : bounds(args.problem), rounding(args, elements) {
    for (const Role role : InfoOf(args.problem.op).operands) {
      if (role != Role::kFilter) Of(role) = AlignedArray<double>(slabs.MostOf(role));
    }
  }
  AlignedArray<double>& Of(Role role) { return numbers[role == Role::kInput ? 0 : 1]; }

  AlignedArray<double> numbers[2];
  std::optional<SlabSums> sums, sizes;  // from its first slab on; sizes, where they are needed
  PixelSizes bounds;                    // of filter gradients
  Rounding<Stored> rounding;
};

template <class Stored>
class WidenedRun {
 public:
  WidenedRun(const ConvArgs& args, const Slabs& slabs, int num_workers)
      : args_(args),
        slabs_(slabs),
        kernels_(PreciseKernelsOf<Stored>(args.kernels.isa)),
        elements_(args),
        workers_(args.parallel, num_workers),
        source_(args.input == nullptr ? Role::kOutBackprop : Role::kInput) {}

  // Forward pass and input gradient.
  void DataInDouble() {
    filter_ = AlignedArray<double>(slabs_.MostOf(Role::kFilter));
    WidenNumbers(args_, ElementsOf(Role::kFilter, slabs_[0]), filter_.data(), filter_.size());
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      Widen(source_, worker, slab);
      Compute(slab, worker, filter_, worker.sums);
      worker.rounding.Finish(worker.sums->slab(), slab.OffsetInResult(args_.problem),
                             CountOf(slab.problem.ResultShape()));
    });
  }

  void DataExactly() {
    filter_ = AlignedArray<double>(slabs_.MostOf(Role::kFilter));
    const FilterNorms norms(args_.problem, ElementsOf(Role::kFilter, slabs_[0]), filter_.data(),
                            kernels_, args_.parallel);
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      TapSizes bounds(slab.problem, norms);
      bounds.WidenSource(ElementsOf(source_, slab), worker.Of(source_).data(), kernels_,
                         args_.parallel);
      Compute(slab, worker, filter_, worker.sums);
      worker.rounding.FinishExact(worker.sums->slab(), slab.OffsetInResult(args_.problem),
                                  CountOf(slab.problem.ResultShape()), bounds,
                                  [&] { return SizesOfData(slab, worker); });
    });
  }

  void FilterInDouble() {
    SlabSums& sums =
        SumSlabs(&Worker<Stored>::sums, [&](Worker<Stored>& worker, const WideSlab& slab) {
          Widen(Role::kInput, worker, slab);
          Widen(Role::kOutBackprop, worker, slab);
        });
    workers_.First().rounding.Finish(sums.slab(), 0, sums.size());
  }

  void FilterExactly() {
    SlabSums& sums =
        SumSlabs(&Worker<Stored>::sums, [&](Worker<Stored>& worker, const WideSlab& slab) {
          BandSquares input(DataSizes::Of(slab.problem, Role::kInput));
          BandSquares out(DataSizes::Of(slab.problem, Role::kOutBackprop));
          input.Widen(ElementsOf(Role::kInput, slab), worker.Of(Role::kInput).data(), kernels_,
                      args_.parallel);
          out.Widen(ElementsOf(Role::kOutBackprop, slab), worker.Of(Role::kOutBackprop).data(),
                    kernels_, args_.parallel);
          worker.bounds.Add(input, out);
        });
    Worker<Stored>& first = workers_.First();
    workers_.ForOthers([&](Worker<Stored>& other) { first.bounds.Add(other.bounds); });
    first.rounding.FinishExact(sums.slab(), 0, sums.size(), first.bounds,
                               [&] { return SizesOfFilter(); });
  }

 private:
  using Body = std::function<void(Worker<Stored>& worker, const WideSlab& slab)>;

  void ForSlabs(const Body& body) {
    const auto make = [&] { return std::make_unique<Worker<Stored>>(args_, slabs_, elements_); };
    workers_.ForSlabs(slabs_, make, body);
  }
  // The sums of filter gradients over all slabs, from what `load` leaves of each in the numbers.
  SlabSums& SumSlabs(std::optional<SlabSums> Worker<Stored>::*which, const Body& load) {
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      load(worker, slab);
      Compute(slab, worker, filter_, worker.*which);
      if (slabs_.AreFolded()) (worker.*which)->Fold(args_.parallel);
    });
    SlabSums* total = nullptr;
    workers_.ForAll([&](Worker<Stored>& worker) {
      std::optional<SlabSums>& sums = worker.*which;
      if (total != nullptr && sums) total->Fold(*sums, args_.parallel);
      if (total == nullptr && sums) total = &*sums;
    });
    if (slabs_.AreFolded()) total->Unfold(args_.parallel);
    return *total;
  }

  const Stored* ElementsOf(Role role, const WideSlab& slab) const {
    return static_cast<const Stored*>(args_.OperandOf(role)) + slab.OffsetIn(args_.problem, role);
  }
  void Widen(Role role, Worker<Stored>& worker, const WideSlab& slab) const {
    WidenNumbers(args_, ElementsOf(role, slab), worker.Of(role).data(),
                 CountOf(slab.problem.ShapeOf(role)));
  }
  void Compute(const WideSlab& slab, Worker<Stored>& worker, const AlignedArray<double>& filter,
               std::optional<SlabSums>& sums) const {
    if (!sums) sums.emplace(slabs_);
    const bool has_filter = filter.size() > 0;
    slab.planned.Run({slab.problem, worker.Of(Role::kInput).data(),
                      has_filter ? filter.data() : nullptr, worker.Of(Role::kOutBackprop).data(),
                      sums->slab(), args_.kernels, args_.parallel});
  }

  // The sums of absolute values of a slab.
  const double* SizesOfData(const WideSlab& slab, Worker<Stored>& worker) {
    std::call_once(has_filter_sizes_, [&] {
      filter_sizes_ = AlignedArray<double>(filter_.size());
      std::copy_n(filter_.data(), filter_.size(), filter_sizes_.data());
      TakeAbsoluteValues(filter_sizes_);
    });
    TakeAbsoluteValues(worker.Of(source_));
    Compute(slab, worker, filter_sizes_, worker.sizes);
    return worker.sizes->slab();
  }
  // S of a filter gradient, summed over all slabs.
  const double* SizesOfFilter() {
    const Body load = [&](Worker<Stored>& worker, const WideSlab& slab) {
      for (const Role role : {Role::kInput, Role::kOutBackprop}) {
        Widen(role, worker, slab);
        TakeAbsoluteValues(worker.Of(role));
      }
    };
    return SumSlabs(&Worker<Stored>::sizes, load).slab();
  }
  void TakeAbsoluteValues(AlignedArray<double>& numbers) const {
    ForPieces(args_.parallel, numbers.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) numbers[i] = std::fabs(numbers[i]);
    });
  }

  const ConvArgs& args_;
  const Slabs& slabs_;
  const PreciseKernels<Stored>& kernels_;
  const SingleElements<Stored> elements_;
  SlabWorkers<Worker<Stored>> workers_;
  const Role source_;                           // of a forward pass or an input gradient
  AlignedArray<double> filter_, filter_sizes_;  // likewise
  std::once_flag has_filter_sizes_;
};

}  // namespace

bool TakesWidened(const Problem& problem) {
  return problem.dtype != DType::kFloat64;
}

WidenedPlan::WidenedPlan(const Problem& problem, Precision precision, const KernelTable& kernels,
                         int num_threads, bool by_reference)
    : problem_(problem),
      is_exact_(precision == Precision::kExact),
      num_workers_(NumWorkersOf(problem, is_exact_, num_threads)),
      slabs_(problem, SizeOf(problem, is_exact_, num_workers_ > 1 ? 1 : num_threads), kernels,
             num_workers_ > 1 ? 1 : num_threads, by_reference) {}

int64_t WidenedPlan::ScratchBytes() const {
  const Problem& slab = slabs_.widest();
  constexpr auto kDouble = static_cast<int64_t>(sizeof(double));
  int64_t of_worker = slabs_.MostBytes() + slabs_.ScratchBytes() + SlabSums::Bytes(slabs_);
  int64_t filter = slabs_.MostOf(Role::kFilter) * kDouble, shared = 0;
  if (IsFilter(slab)) filter = 0;
  if (is_exact_) {
    const int64_t doubts = slabs_.MostOfResult() / 32 * static_cast<int64_t>(sizeof(int64_t));
    of_worker += SlabSums::Bytes(slabs_) + doubts;  // sums' sizes too
    of_worker += IsFilter(slab) ? BandSquares::Bytes(DataSizes::Of(slab, Role::kInput)) +
                                      BandSquares::Bytes(DataSizes::Of(slab, Role::kOutBackprop))
                                : TapSizes::Bytes(slab);
    shared = IsFilter(slab) ? 0 : filter + FilterNorms::Bytes(problem_);
  }
  return filter + shared + num_workers_ * (of_worker - filter);
}

bool WidenedPlan::Run(const ConvArgs& args) const {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<Stored, double>) {
      WidenedRun<Stored> run(args, slabs_, num_workers_);
      if (IsFilter(args.problem)) return is_exact_ ? run.FilterExactly() : run.FilterInDouble();
      is_exact_ ? run.DataExactly() : run.DataInDouble();
    } else {
      ThrowInternal("float64 can't be widened");
    }
  });
  return true;
}

}  // namespace convgrad
