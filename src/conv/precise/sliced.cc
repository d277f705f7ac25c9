#include "conv/precise/sliced.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "conv/precise/compensated.h"
#include "conv/precise/compensated_runner.h"
#include "conv/precise/single_elements.h"
#include "kernels/precise/precise.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

constexpr int kMostLevels = 2;

// As SlabSize::Cached has it; a number has several slices, which lie in the caches together.
SlabSize SlicedSize(const Problem& problem) {
  constexpr int64_t kOfFewTerms = int64_t{1} << 16, kNumbers = int64_t{1} << 18;
  const bool has_few = problem.geometry.group_in_c == 1;
  return {std::max(has_few ? kOfFewTerms : kNumbers, problem.NumElements(Role::kFilter)),
          /*may_cut_images=*/true};
}

// How numbers are cut where sums have so many terms at most.
struct Slicing {
  int levels;  // L
  int bits;    // b

  static Slicing Of(int64_t terms) {
    // A single slice leaves too many elements of longer sums in doubt.
    constexpr int64_t kTermsOfOne = 32;
    const int of_terms = static_cast<int>(std::bit_width(static_cast<uint64_t>(terms - 1)));
    return {terms <= kTermsOfOne ? 1 : 2, 1 + (53 - of_terms) / 2};
  }
  // Bounds the error of a sum of `terms` terms of numbers up to 2^top in all.
  double Bound(int64_t terms, int top) const {
    const auto chain = static_cast<double>(std::min(terms, kBlockTerms) + 16);
    return std::ldexp(chain * (levels + 1) * static_cast<double>(terms), top - levels * bits - 53);
  }
};

// One operand, or its part in a slab, cut.
class CutNumbers {
 public:
  CutNumbers() = default;
  // `has_tails`: with what any number of slices leaves; else only with what all leave.
  CutNumbers(int64_t most, const Slicing& slicing, bool has_tails)
      : slicing_(slicing), has_tails_(has_tails) {
    for (int k = 0; k < slicing.levels; ++k) slices_[k] = AlignedArray<double>(most);
    for (int k = has_tails ? 0 : slicing.levels - 1; k < slicing.levels; ++k) {
      tails_[k] = AlignedArray<double>(most);
    }
  }

  // False where numbers are too large or too small for products to be exact.
  bool Cut(const double* from, int64_t count, const PairKernels& kernels,
           const Parallel& parallel) {
    whole_ = from;
    const double largest = LargestOf(from, count, kernels, parallel);
    is_zero_ = largest == 0;
    top_ = is_zero_ ? 0 : std::ilogb(largest) + 1;
    constexpr int kMostTop = 200;
    if (std::abs(top_) > kMostTop) return false;
    ForPieces(parallel, count, [&](int64_t begin, int64_t end) {
      const double* rest = from + begin;
      for (int k = 0; k < slicing_.levels; ++k) {
        double* tail = tails_[has_tails_ ? k : slicing_.levels - 1].data() + begin;
        const int unit = top_ + 1 - (k + 1) * slicing_.bits;
        kernels.cut(rest, std::ldexp(1.5, 52 + unit), slices_[k].data() + begin, tail, end - begin);
        rest = tail;
      }
    });
    return true;
  }

  int top() const { return top_; }
  bool is_zero() const { return is_zero_; }
  const double* Slice(int k) const { return slices_[k].data(); }
  // Bounds what k slices leave of a number.
  const double* Tail(int k) const { return k == 0 ? whole_ : tails_[k - 1].data(); }

  static int64_t Arrays(int levels, bool has_tails) { return levels + (has_tails ? levels : 1); }

 private:
  static double LargestOf(const double* from, int64_t count, const PairKernels& kernels,
                          const Parallel& parallel) {
    double largest = 0;
    std::mutex mutex;
    ForPieces(parallel, count, [&](int64_t begin, int64_t end) {
      const double of_piece = kernels.largest(from + begin, end - begin);
      const std::lock_guard lock(mutex);
      largest = std::max(largest, of_piece);
    });
    return largest;
  }

  Slicing slicing_ = {};
  bool has_tails_ = false;
  AlignedArray<double> slices_[kMostLevels], tails_[kMostLevels];
  const double* whole_ = nullptr;
  int top_ = 0;
  bool is_zero_ = true;
};

// The numbers of one thread, or those that all threads work on together.
struct SlicedWorker {
  SlicedWorker(const Slabs& slabs, const Slicing& slicing, Role first, Role second)
      : x(slabs.MostOf(first), slicing, /*has_tails=*/false),
        sums(slabs.MostOfResult()),
        more(slabs.MostOfResult()) {
    if (second != Role::kFilter) y = CutNumbers(slabs.MostOf(second), slicing, true);
    if (slabs.AreFolded()) totals.emplace(slabs.MostOfResult());
  }

  CutNumbers x, y;  // y: unless it is the filter
  PairSums sums;
  AlignedArray<double> more;
  std::optional<PairSums> totals;  // of all slabs
  double bound = 0, size = 0;      // of what totals are off by; of them
};

class SlicedRun {
 public:
  SlicedRun(const ConvArgs& args, const Slabs& slabs, int num_workers)
      : args_(args),
        slabs_(slabs),
        kernels_(PairKernelsOf(args.kernels.isa)),
        terms_(slabs.MostTerms()),
        slicing_(Slicing::Of(terms_)),
        elements_(args),
        workers_(args.parallel, num_workers) {
    const auto& operands = InfoOf(args.problem.op).operands;
    first_ = operands[operands[0] == Role::kFilter ? 1 : 0];
    second_ = operands[operands[0] == Role::kFilter ? 0 : 1];
  }

  // False where the data leave many elements in doubt.
  bool Run() {
    if (second_ == Role::kFilter) {
      const int64_t count = slabs_.MostOf(Role::kFilter);
      filter_ = CutNumbers(count, slicing_, true);
      if (!filter_.Cut(ElementsOf(second_, slabs_[0]), count, kernels_, args_.parallel)) {
        return false;
      }
    }
    const auto make = [&] {
      return std::make_unique<SlicedWorker>(slabs_, slicing_, first_, second_);
    };
    workers_.ForSlabs(slabs_, make, [&](SlicedWorker& worker, const WideSlab& slab) {
      if (!has_failed_ && !AddSlab(worker, slab)) has_failed_ = true;
    });
    if (has_failed_) return false;
    if (second_ == Role::kFilter) return true;
    return FinishFolded();
  }

 private:
  const double* ElementsOf(Role role, const WideSlab& slab) const {
    return static_cast<const double*>(args_.OperandOf(role)) + slab.OffsetIn(args_.problem, role);
  }

  bool AddSlab(SlicedWorker& worker, const WideSlab& slab) {
    const bool is_data = second_ == Role::kFilter;
    CutNumbers& y = is_data ? filter_ : worker.y;
    const auto cut = [&](Role role, CutNumbers& numbers) {
      return numbers.Cut(ElementsOf(role, slab), slab.problem.NumElements(role), kernels_,
                         workers_.OfWorker());
    };
    if (!cut(first_, worker.x) || (!is_data && !cut(second_, y))) return false;
    AddProducts(worker, slab, y);
    const int top = worker.x.top() + y.top();
    const bool is_zero = worker.x.is_zero() || y.is_zero();
    // For the roundings of low when sums are added to sums.
    const double size = is_zero ? 0 : std::ldexp(static_cast<double>(terms_), top);
    const double bound = is_zero ? 0 : slicing_.Bound(terms_, top) + size * 0x1p-98;
    const int64_t count = slab.problem.NumResults();
    if (is_data) {
      return Finish(worker.sums, bound, slab.OffsetInResult(args_.problem), count);
    }
    worker.bound += bound;
    worker.size += size;
    if (worker.totals) worker.totals->Add(worker.sums, kernels_, workers_.OfWorker());
    return true;
  }

  // The slab's sums, from products of the formula in sliced.h: first those in double, then the
  // exact ones.
  void AddProducts(SlicedWorker& worker, const WideSlab& slab, const CutNumbers& y) {
    const int levels = slicing_.levels;
    PairSums& sums = worker.sums;
    const int64_t count = slab.problem.NumResults();
    Multiply(slab, worker.x.Tail(levels), y.Tail(0), sums.low.data());
    for (int k = 0; k < levels; ++k) {
      Multiply(slab, worker.x.Slice(k), y.Tail(levels - k), worker.more.data());
      ForPieces(workers_.OfWorker(), count, [&](int64_t begin, int64_t end) {
        double* low = sums.low.data();
        const double* more = worker.more.data();
        for (int64_t i = begin; i < end; ++i) low[i] += more[i];
      });
    }
    Multiply(slab, worker.x.Slice(0), y.Slice(0), sums.high.data());
    for (int k = 0; k < levels; ++k) {
      for (int l = k == 0 ? 1 : 0; k + l < levels; ++l) {
        Multiply(slab, worker.x.Slice(k), y.Slice(l), worker.more.data());
        sums.Add(worker.more.data(), count, kernels_, workers_.OfWorker());
      }
    }
  }

  void Multiply(const WideSlab& slab, const double* x, const double* y, double* result) {
    const auto of = [&](Role role) { return role == first_ ? x : role == second_ ? y : nullptr; };
    slab.planned.Run({slab.problem, of(Role::kInput), of(Role::kFilter), of(Role::kOutBackprop),
                      result, args_.kernels, workers_.OfWorker()});
  }
  // A filter gradient is what all workers have together.
  bool FinishFolded() {
    SlicedWorker& first = workers_.First();
    if (!first.totals) return Finish(first.sums, first.bound, 0, first.sums.size());
    workers_.ForOthers([&](SlicedWorker& other) {
      first.totals->Add(*other.totals, kernels_, args_.parallel);
      first.bound += other.bound;
      first.size += other.size;
    });
    // Each sum of low, which is no larger than what so many additions to high lost.
    const auto additions = static_cast<double>(slabs_.count() + 8);
    first.bound += additions * additions * 0x1p-105 * first.size;
    return Finish(*first.totals, first.bound, 0, first.totals->size());
  }

  // Rounds sums to the result's elements from `first` on.
  bool Finish(const PairSums& sums, double bound, int64_t first, int64_t count) {
    auto* result = static_cast<double*>(args_.result);
    std::mutex mutex;
    std::vector<int64_t> doubts;
    ForPieces(args_.parallel, count, [&](int64_t begin, int64_t end) {
      constexpr int64_t kRun = 1 << 10;
      int64_t in_doubt[kRun];
      for (int64_t at = begin; at < end; at += kRun) {
        const int64_t num = kernels_.round(sums.high.data() + at, sums.low.data() + at, bound,
                                           result + first + at, std::min(kRun, end - at), in_doubt);
        if (num == 0) continue;
        const std::lock_guard lock(mutex);
        for (int64_t i = 0; i < num; ++i) doubts.push_back(first + at + in_doubt[i]);
      }
    });
    const auto num_doubts = static_cast<int64_t>(doubts.size());
    if (AreMany(num_doubts, count)) return false;
    args_.parallel.For(num_doubts, [&](int64_t i) {
      const int64_t element = doubts[static_cast<size_t>(i)];
      result[element] = elements_.Settled(element);
    });
    return true;
  }

  const ConvArgs& args_;
  const Slabs& slabs_;
  const PairKernels& kernels_;
  const int64_t terms_;
  const Slicing slicing_;
  const SingleElements<double> elements_;
  SlabWorkers<SlicedWorker> workers_;
  Role first_, second_;  // of the two operands the filter is the second
  CutNumbers filter_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace

SlicedPlan::SlicedPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
    : problem_(problem),
      num_threads_(num_threads),
      num_workers_(Slabs::NumWorkers(problem, SlicedSize(problem), num_threads)),
      slabs_(problem, SlicedSize(problem), kernels, num_workers_ > 1 ? 1 : num_threads) {}

std::string SlicedPlan::Tiles() const {
  const Slicing slicing = Slicing::Of(slabs_.MostTerms());
  return fmt::format("{} slices of {} bits, {}", slicing.levels, slicing.bits, slabs_.Tiles());
}

int64_t SlicedPlan::ScratchBytes() const {
  const int levels = Slicing::Of(slabs_.MostTerms()).levels;
  const auto& operands = InfoOf(problem_.op).operands;
  int64_t shared = 0, of_worker = slabs_.MostOfResult() * (slabs_.AreFolded() ? 5 : 3);
  bool has_tails = false;
  for (const Role role : {operands[0], operands[1]}) {
    if (role == Role::kFilter) {
      shared += slabs_.MostOf(role) * CutNumbers::Arrays(levels, true);
    } else {
      of_worker += slabs_.MostOf(role) * CutNumbers::Arrays(levels, has_tails);
      has_tails = true;
    }
  }
  const int64_t doubts = slabs_.MostOfResult();
  const int64_t numbers = shared + num_workers_ * (of_worker + doubts);
  const int64_t sliced =
      numbers * static_cast<int64_t>(sizeof(double)) + num_workers_ * slabs_.ScratchBytes();
  return std::max(sliced, CompensatedRunner::ScratchBytes(num_threads_));
}

bool SlicedPlan::Run(const ConvArgs& args) const {
  if (!SlicedRun(args, slabs_, num_workers_).Run()) RunCertifiedCompensated(args);
  return true;
}

}  // namespace convgrad
