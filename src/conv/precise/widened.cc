#include "conv/precise/widened.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/memory.h"
#include "conv/precise/certified_rounding.h"
#include "conv/precise/product_sizes.h"
#include "conv/precise/single_elements.h"
#include "kernels/precise/precise.h"

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
bool IsExact(WidenedUse use) {
  return use == WidenedUse::kExact || use == WidenedUse::kShownExact;
}
SlabPlans PlansFor(WidenedUse use) {
  if (use == WidenedUse::kShownExact) return SlabPlans::kBestAndInFloat;
  return use == WidenedUse::kDoubleByReference ? SlabPlans::kReference : SlabPlans::kBest;
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
void WidenNumbers(const PreciseKernels<Stored>& kernels, const Parallel& parallel,
                  const Stored* from, double* to, int64_t count) {
  const auto& widen = kernels.widen;
  ForPieces(parallel, count, [&](int64_t begin, int64_t end) {
    constexpr int64_t kRow = 256;
    double squares[kRow] = {};  // which nothing needs here
    const int64_t rows = (end - begin) / kRow, rest = begin + rows * kRow;
    widen(from + begin, to + begin, squares, rows, kRow);
    widen(from + rest, to + rest, squares, 1, end - rest);
  });
}

// What a slab has of a data operand.
template <class Number>
class SlabData {
 public:
  explicit SlabData(const Slabs& slabs) {
    for (const Role role : InfoOf(slabs.widest().op).operands) {
      if (role != Role::kFilter) Of(role) = AlignedArray<Number>(slabs.MostOf(role));
    }
  }
  AlignedArray<Number>& Of(Role role) { return numbers_[role == Role::kInput ? 0 : 1]; }

 private:
  AlignedArray<Number> numbers_[2];
};

// S of each sum, computed in float32.
struct FloatSizes {
  explicit FloatSizes(const Slabs& slabs)
      : data(slabs),
        of_slab(slabs.MostOfResult()),
        totals(slabs.AreFolded() ? slabs.MostOfResult() : 0) {
    std::fill_n(totals.data(), totals.size(), 0.0);
  }
  void Fold() {
    for (int64_t i = 0; i < totals.size(); ++i) totals[i] += of_slab[i];
  }
  void Fold(const FloatSizes& other) {
    for (int64_t i = 0; i < totals.size(); ++i) totals[i] += other.totals[i];
  }
  void Unfold() {
    for (int64_t i = 0; i < totals.size(); ++i) of_slab[i] = static_cast<float>(totals[i]);
  }
  static int64_t Bytes(const Slabs& slabs) {
    constexpr int64_t kOfSum = sizeof(float) + sizeof(double);
    return slabs.MostBytes() / 2 + slabs.MostOfResult() * kOfSum;
  }

  SlabData<float> data;
  AlignedArray<float> of_slab;
  AlignedArray<double> totals;  // over slabs that are folded
};

// The numbers of one thread, or those that all threads work on together.
template <class Stored>
struct Worker {
  Worker(const ConvArgs& args, const Slabs& slabs, const SingleElements<Stored>& elements)
      : data(slabs), bounds(args.problem), rounding(args, elements) {}
  AlignedArray<double>& Of(Role role) { return data.Of(role); }

  SlabData<double> data;
  std::optional<SlabSums> sums, sizes;  // from its first slab on; sizes, where they are needed
  PixelSizes bounds;                    // of filter gradients
  CertifiedRounding<Stored> rounding;
  std::optional<FloatSizes> float_sizes;  // where they are shown, with what sums round to
  AlignedArray<Stored> rounded;
};

template <class Stored>
class WidenedRun {
 public:
  // With `visit` elements go there, and there is no result.
  WidenedRun(const ConvArgs& args, const Slabs& slabs, int num_workers,
             const VisitSizedSums* visit = nullptr)
      : args_(args),
        slabs_(slabs),
        num_workers_(num_workers),
        visit_(visit),
        kernels_(PreciseKernelsOf<Stored>(args.kernels.isa)),
        elements_(args),
        workers_(args.parallel, num_workers),
        source_(args.input == nullptr ? Role::kOutBackprop : Role::kInput) {}

  // Forward pass and input gradient.
  void DataInDouble() {
    filter_ = AlignedArray<double>(slabs_.MostOf(Role::kFilter));
    WidenNumbers(kernels_, args_.parallel, ElementsOf(Role::kFilter, slabs_[0]), filter_.data(),
                 filter_.size());
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      Widen(source_, worker, slab);
      Compute(slab, worker, filter_, worker.sums);
      worker.rounding.Finish(worker.sums->slab(), TargetOf(slab, worker), NextOfSource(slab));
    });
  }

  void DataExactly() {
    filter_ = AlignedArray<double>(slabs_.MostOf(Role::kFilter));
    const FilterNorms norms(args_.problem, ElementsOf(Role::kFilter, slabs_[0]), filter_.data(),
                            kernels_, args_.parallel);
    if (visit_ != nullptr) {
      float_filter_ = AlignedArray<float>(filter_.size());
      TakeFloatSizes(args_.parallel, ElementsOf(Role::kFilter, slabs_[0]), float_filter_.data(),
                     filter_.size());
    }
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      TapSizes bounds(slab.problem, norms);
      bounds.WidenSource(ElementsOf(source_, slab), worker.Of(source_).data(), kernels_,
                         workers_.OfWorker());
      Compute(slab, worker, filter_, worker.sums);
      const auto target = TargetOf(slab, worker);
      worker.rounding.FinishExact(
          worker.sums->slab(), target, bounds, [&] { return SizesOfData(slab, worker); },
          NextOfSource(slab));
      if (visit_ == nullptr) return;
      ComputeFloatSizes(slab, worker);
      Show(target, worker);
    });
  }

  void FilterInDouble() {
    SlabSums& sums =
        SumSlabs(&Worker<Stored>::sums, [&](Worker<Stored>& worker, const WideSlab& slab) {
          Widen(Role::kInput, worker, slab);
          Widen(Role::kOutBackprop, worker, slab);
        });
    workers_.First().rounding.Finish(sums.slab(),
                                     {static_cast<Stored*>(args_.result), 0, sums.size()});
  }

  void FilterExactly() {
    SlabSums& sums =
        SumSlabs(&Worker<Stored>::sums, [&](Worker<Stored>& worker, const WideSlab& slab) {
          BandSquares input(DataSizes::Of(slab.problem, Role::kInput));
          BandSquares out(DataSizes::Of(slab.problem, Role::kOutBackprop));
          input.Widen(ElementsOf(Role::kInput, slab), worker.Of(Role::kInput).data(), kernels_,
                      workers_.OfWorker());
          out.Widen(ElementsOf(Role::kOutBackprop, slab), worker.Of(Role::kOutBackprop).data(),
                    kernels_, workers_.OfWorker());
          worker.bounds.Add(input, out);
          if (visit_ != nullptr) {
            ComputeFloatSizes(slab, worker);
            worker.float_sizes->Fold();
          }
        });
    Worker<Stored>& first = workers_.First();
    workers_.ForOthers([&](Worker<Stored>& other) {
      first.bounds.Add(other.bounds);
      if (visit_ != nullptr) first.float_sizes->Fold(*other.float_sizes);
    });
    const auto target = TargetAt(0, sums.size(), first);
    first.rounding.FinishExact(sums.slab(), target, first.bounds, [&] { return SizesOfFilter(); });
    if (visit_ == nullptr) return;
    first.float_sizes->Unfold();
    Show(target, first);
  }

 private:
  using Body = std::function<void(Worker<Stored>& worker, const WideSlab& slab)>;
  using Target = typename CertifiedRounding<Stored>::Target;

  Target TargetAt(int64_t first, int64_t count, Worker<Stored>& worker) const {
    if (visit_ == nullptr) return {static_cast<Stored*>(args_.result) + first, first, count};
    if (worker.rounded.size() == 0) worker.rounded = AlignedArray<Stored>(slabs_.MostOfResult());
    return {worker.rounded.data(), first, count};
  }
  Target TargetOf(const WideSlab& slab, Worker<Stored>& worker) const {
    return TargetAt(slab.OffsetInResult(args_.problem), slab.problem.NumResults(), worker);
  }

  void ForSlabs(const Body& body) {
    const auto make = [&] { return std::make_unique<Worker<Stored>>(args_, slabs_, elements_); };
    workers_.ForSlabs(slabs_, make, body);
  }
  // The sums of filter gradients over all slabs, from what `load` leaves of each in the numbers.
  SlabSums& SumSlabs(std::optional<SlabSums> Worker<Stored>::*which, const Body& load) {
    ForSlabs([&](Worker<Stored>& worker, const WideSlab& slab) {
      load(worker, slab);
      Compute(slab, worker, filter_, worker.*which);
      if (slabs_.AreFolded()) (worker.*which)->Fold(workers_.OfWorker());
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
  // The slab after this one of the same worker will have these numbers; another may take it.
  std::span<const Stored> NextOfSource(const WideSlab& slab) const {
    const int64_t count = slab.problem.NumElements(source_);
    const int64_t begin = slab.OffsetIn(args_.problem, source_) + num_workers_ * count;
    const int64_t left = args_.problem.NumElements(source_) - begin;
    if (left <= 0) return {};
    const auto* source = static_cast<const Stored*>(args_.OperandOf(source_));
    return {source + begin, static_cast<size_t>(std::min(count, left))};
  }
  void Widen(Role role, Worker<Stored>& worker, const WideSlab& slab) const {
    WidenNumbers(kernels_, workers_.OfWorker(), ElementsOf(role, slab), worker.Of(role).data(),
                 slab.problem.NumElements(role));
  }
  void Compute(const WideSlab& slab, Worker<Stored>& worker, const AlignedArray<double>& filter,
               std::optional<SlabSums>& sums) const {
    if (!sums) sums.emplace(slabs_, PairKernelsOf(args_.kernels.isa));
    const bool has_filter = filter.size() > 0;
    slab.planned.Run({slab.problem, worker.Of(Role::kInput).data(),
                      has_filter ? filter.data() : nullptr, worker.Of(Role::kOutBackprop).data(),
                      sums->slab(), args_.kernels, workers_.OfWorker()});
  }

  // S of a slab's sums.
  void ComputeFloatSizes(const WideSlab& slab, Worker<Stored>& worker) const {
    if (!worker.float_sizes) worker.float_sizes.emplace(slabs_);
    FloatSizes& sizes = *worker.float_sizes;
    for (const Role role : InfoOf(args_.problem.op).operands) {
      if (role == Role::kFilter) continue;
      TakeFloatSizes(workers_.OfWorker(), ElementsOf(role, slab), sizes.data.Of(role).data(),
                     slab.problem.NumElements(role));
    }
    const bool has_filter = float_filter_.size() > 0;
    slab.in_float->Run({InFloat(slab.problem), sizes.data.Of(Role::kInput).data(),
                        has_filter ? float_filter_.data() : nullptr,
                        sizes.data.Of(Role::kOutBackprop).data(), sizes.of_slab.data(),
                        args_.kernels, workers_.OfWorker()});
  }
  void TakeFloatSizes(const Parallel& parallel, const Stored* from, float* to,
                      int64_t count) const {
    ForPieces(parallel, count, [&](int64_t begin, int64_t end) {
      kernels_.take_sizes(from + begin, to + begin, end - begin);
    });
  }
  // A worker of its own is on one thread of the loop whose index visitors know.
  void Show(const Target& target, Worker<Stored>& worker) const {
    const auto show = [&](int64_t begin, int64_t end) {
      (*visit_)({target.first + begin, end - begin, worker.sums->slab() + begin,
                 worker.float_sizes->of_slab.data() + begin, target.to + begin,
                 worker.rounding.relative()});
    };
    if (num_workers_ > 1) return show(0, target.count);
    ForPieces(args_.parallel, target.count, show);
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
    ForPieces(workers_.OfWorker(), numbers.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) numbers[i] = std::fabs(numbers[i]);
    });
  }

  const ConvArgs& args_;
  const Slabs& slabs_;
  const int num_workers_;
  const VisitSizedSums* const visit_;
  const PreciseKernels<Stored>& kernels_;
  const SingleElements<Stored> elements_;
  SlabWorkers<Worker<Stored>> workers_;
  const Role source_;                           // of a forward pass or an input gradient
  AlignedArray<double> filter_, filter_sizes_;  // likewise
  AlignedArray<float> float_filter_;            // likewise
  std::once_flag has_filter_sizes_;
};

}  // namespace

bool TakesWidened(const Problem& problem) {
  return problem.dtype != DType::kFloat64;
}

WidenedPlan::WidenedPlan(const Problem& problem, const KernelTable& kernels, int num_threads,
                         WidenedUse use)
    : problem_(problem),
      use_(use),
      num_workers_(NumWorkersOf(problem, IsExact(use), num_threads)),
      slabs_(problem, SizeOf(problem, IsExact(use), num_workers_ > 1 ? 1 : num_threads), kernels,
             num_workers_ > 1 ? 1 : num_threads, PlansFor(use)) {}

int64_t WidenedPlan::ScratchBytes() const {
  const Problem& slab = slabs_.widest();
  constexpr auto kDouble = static_cast<int64_t>(sizeof(double));
  int64_t of_worker = slabs_.MostBytes() + slabs_.ScratchBytes() + SlabSums::Bytes(slabs_);
  int64_t filter = slabs_.MostOf(Role::kFilter) * kDouble, shared = 0;
  if (IsFilter(slab)) filter = 0;
  if (IsExact(use_)) {
    const int64_t doubts = slabs_.MostOfResult() / 32 * static_cast<int64_t>(sizeof(int64_t));
    of_worker += SlabSums::Bytes(slabs_) + doubts;  // sums' sizes too
    of_worker += IsFilter(slab) ? BandSquares::Bytes(DataSizes::Of(slab, Role::kInput)) +
                                      BandSquares::Bytes(DataSizes::Of(slab, Role::kOutBackprop))
                                : TapSizes::Bytes(slab);
    shared = IsFilter(slab) ? 0 : filter + FilterNorms::Bytes(problem_);
  }
  if (use_ == WidenedUse::kShownExact) {
    of_worker += FloatSizes::Bytes(slabs_) + slabs_.MostOfResult() * kDouble / 2;
    shared += filter / 2;
  }
  return filter + shared + num_workers_ * (of_worker - filter);
}

bool WidenedPlan::Run(const ConvArgs& args) const {
  RunOrShow(args, nullptr);
  return true;
}

void WidenedPlan::Show(const ConvArgs& args, const VisitSizedSums& visit) const {
  RunOrShow(args, &visit);
}

void WidenedPlan::RunOrShow(const ConvArgs& args, const VisitSizedSums* visit) const {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<Stored, double>) {
      WidenedRun<Stored> run(args, slabs_, num_workers_, visit);
      if (IsFilter(args.problem)) return IsExact(use_) ? run.FilterExactly() : run.FilterInDouble();
      IsExact(use_) ? run.DataExactly() : run.DataInDouble();
    } else {
      ThrowInternal("float64 can't be widened");
    }
  });
}

}  // namespace convgrad
