#include "conv/precise/widened.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/precise/exact_elements.h"
#include "order/canonical_order.h"
#include "order/rounding.h"

namespace convgrad {
namespace {

// Elements that a thread takes at a time.
constexpr int64_t kPiece = 1 << 14;
// Input and output of the images that are widened together, about: 64 MiB as doubles. Few slabs,
// because each starts and ends all threads; small enough not to matter beside the operands.
constexpr int64_t kSlabElements = int64_t{1} << 23;

int64_t CountOf(const Shape& shape) {
  return *CheckedProduct(shape);
}

// Images of a slab: as many in each, from the first on; a function of sizes alone.
int64_t SlabImages(const Problem& problem) {
  const int64_t batch = std::max<int64_t>(1, problem.geometry.batch);
  const int64_t elements = CountOf(problem.InputShape()) + CountOf(problem.OutputShape());
  return std::clamp<int64_t>(kSlabElements / std::max<int64_t>(1, elements / batch), 1, batch);
}

WidenedPlan::Slab MakeSlab(const Problem& problem, int64_t num_images, const KernelTable& kernels,
                           int num_threads, WidenedSums sums) {
  Problem wide = problem;
  wide.dtype = DType::kFloat64;
  wide.geometry.batch = num_images;
  if (sums == WidenedSums::kReference) {
    return {wide, Planned::Forced(AlgorithmsOf(wide.op).back(), wide, kernels, num_threads)};
  }
  return {wide, Planned::Best(wide, kernels, num_threads)};
}

std::optional<WidenedPlan::Slab> MakeLastSlab(const Problem& problem, const KernelTable& kernels,
                                              int num_threads, WidenedSums sums) {
  const int64_t rest = problem.geometry.batch % SlabImages(problem);
  if (rest == 0) return std::nullopt;
  return MakeSlab(problem, rest, kernels, num_threads, sums);
}

void AbsoluteValues(const Parallel& parallel, double* numbers, int64_t count) {
  parallel.For(CeilDiv(count, kPiece), [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPiece);
    for (int64_t i = piece * kPiece; i < end; ++i) numbers[i] = std::fabs(numbers[i]);
  });
}

template <class Stored>
void WidenInto(const ConvArgs& args, const Stored* from, double* to, int64_t count) {
  args.parallel.For(CeilDiv(count, kPiece), [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPiece);
    constexpr int64_t kRun = 256;
    for (int64_t begin = piece * kPiece; begin < end; begin += kRun) {
      float run[kRun];
      const int64_t size = std::min(kRun, end - begin);
      args.kernels.Pack<Stored>().widen(from + begin, run, size);
      for (int64_t i = 0; i < size; ++i) to[begin + i] = run[i];
    }
  });
}

// The sums that a computation in slabs keeps for every element of a slab's result, or of the only
// one of a filter gradient.
class SlabSums {
 public:
  SlabSums(int64_t count, bool is_folded)
      : slab_(count), total_(is_folded ? count : 0), error_(is_folded ? count : 0) {
    std::fill_n(total_.data(), total_.size(), 0.0);
    std::fill_n(error_.data(), error_.size(), 0.0);
  }
  double* slab() { return slab_.data(); }

  // Adds what the slab's sums are to the totals (Knuth's TwoSum).
  void Fold(const Parallel& parallel) {
    const int64_t count = total_.size();
    parallel.For(CeilDiv(count, kPiece), [&](int64_t piece) {
      const int64_t end = std::min(count, (piece + 1) * kPiece);
      for (int64_t i = piece * kPiece; i < end; ++i) {
        const double sum = total_[i] + slab_[i];
        const double back = sum - total_[i];
        error_[i] += (total_[i] - (sum - back)) + (slab_[i] - back);
        total_[i] = sum;
      }
    });
  }
  double At(int64_t element) const {
    if (total_.size() == 0) return slab_[element];
    const double total = total_[element];
    return std::isfinite(total) ? total + error_[element] : total;
  }

  static int64_t Bytes(int64_t count, bool is_folded) {
    return count * (is_folded ? 3 : 1) * static_cast<int64_t>(sizeof(double));
  }

 private:
  AlignedArray<double> slab_, total_, error_;
};

// The operands of a slab as doubles.
template <class Stored>
class WideOperands {
 public:
  WideOperands(const ConvArgs& args, const WidenedPlan& plan) : args_(args), plan_(plan) {
    const Problem& widest = plan.SlabAt(0).problem;
    for (int i = 0; i < 2; ++i) {
      numbers_[i] = AlignedArray<double>(CountOf(widest.ShapeOf(RoleOf(i))));
    }
  }
  void Load(int64_t slab) {
    const Problem& wide = plan_.SlabAt(slab).problem;
    for (int i = 0; i < 2; ++i) {
      const int64_t count = CountOf(wide.ShapeOf(RoleOf(i)));
      const int64_t image = RoleOf(i) == Role::kFilter ? 0 : plan_.FirstImageOf(slab);
      const int64_t offset = image * (count / wide.geometry.batch);
      WidenInto(args_, static_cast<const Stored*>(args_.OperandOf(RoleOf(i))) + offset,
                numbers_[i].data(), count);
    }
  }
  void TakeAbsoluteValues() {
    for (auto& numbers : numbers_) AbsoluteValues(args_.parallel, numbers.data(), numbers.size());
  }
  const double* Of(Role role) const {
    for (int i = 0; i < 2; ++i) {
      if (RoleOf(i) == role) return numbers_[i].data();
    }
    return nullptr;
  }

 private:
  Role RoleOf(int i) const { return InfoOf(args_.problem.op).operands[i]; }

  const ConvArgs& args_;
  const WidenedPlan& plan_;
  AlignedArray<double> numbers_[2];
};

template <class Stored>
class WidenedRun {
 public:
  WidenedRun(const ConvArgs& args, const WidenedPlan& plan)
      : args_(args),
        plan_(plan),
        operands_(args, plan),
        sums_(CountOf(plan.SlabAt(0).problem.ResultShape()), plan.IsFolded()) {
    if (plan.IsCertified()) {
      sizes_.emplace(CountOf(plan.SlabAt(0).problem.ResultShape()), plan.IsFolded());
      exact_.emplace(args);
    }
    const int64_t chain = std::min(args.problem.MaxTerms(), kBlockTerms);
    relative_bound_ = static_cast<double>(chain + 8) * 0x1p-53;
  }

  void Run() {
    int64_t finished = 0;
    for (int64_t i = 0; i < plan_.num_slabs(); ++i) {
      const WidenedPlan::Slab& slab = plan_.SlabAt(i);
      operands_.Load(i);
      Compute(slab, sums_);
      if (sizes_) {
        operands_.TakeAbsoluteValues();
        Compute(slab, *sizes_);
      }
      if (plan_.IsFolded()) continue;
      const int64_t count = CountOf(slab.problem.ResultShape());
      Finish(finished, count);
      finished += count;
    }
    if (plan_.IsFolded()) Finish(0, CountOf(args_.problem.ResultShape()));
  }

 private:
  void Compute(const WidenedPlan::Slab& slab, SlabSums& sums) {
    slab.planned.Run({slab.problem, operands_.Of(Role::kInput), operands_.Of(Role::kFilter),
                      operands_.Of(Role::kOutBackprop), sums.slab(), args_.kernels,
                      args_.parallel});
    if (plan_.IsFolded()) sums.Fold(args_.parallel);
  }

  // The result's elements from `first` on.
  void Finish(int64_t first, int64_t count) {
    Stored* result = static_cast<Stored*>(args_.result) + first;
    args_.parallel.For(CeilDiv(count, kPiece), [&](int64_t piece) {
      const int64_t end = std::min(count, (piece + 1) * kPiece);
      for (int64_t i = piece * kPiece; i < end; ++i) {
        result[i] =
            sizes_ ? Certified(i, first + i) : Narrow<Stored>(WithCanonicalNaN(sums_.At(i)));
      }
    });
  }

  // Doubles hold every product and partial sum of the narrower types, so that a sum is infinite or
  // NaN only if a product is.
  Stored Certified(int64_t at, int64_t element) const {
    const double sum = sums_.At(at), size = sizes_->At(at);
    if (!std::isfinite(sum)) return Narrow<Stored>(WithCanonicalNaN(sum));
    const double bound = exact_->IsExactInDouble(size) ? 0 : relative_bound_ * size;
    const std::optional<Stored> rounded = RoundCertified<Stored>(sum, bound);
    return rounded ? *rounded : exact_->Sum(element);
  }

  const ConvArgs& args_;
  const WidenedPlan& plan_;
  WideOperands<Stored> operands_;
  SlabSums sums_;
  std::optional<SlabSums> sizes_;  // sums of absolute values
  std::optional<ExactElements<Stored>> exact_;
  double relative_bound_;  // of the sums, as a multiple of S
};

}  // namespace

bool TakesWidened(const Problem& problem) {
  return problem.dtype != DType::kFloat64;
}

WidenedPlan::WidenedPlan(const Problem& problem, const KernelTable& kernels, int num_threads,
                         WidenedSums sums)
    : problem_(problem),
      sums_(sums),
      whole_(MakeSlab(problem, SlabImages(problem), kernels, num_threads, sums)),
      last_(MakeLastSlab(problem, kernels, num_threads, sums)) {}

int64_t WidenedPlan::num_slabs() const {
  return CeilDiv(problem_.geometry.batch, whole_.problem.geometry.batch);
}

bool WidenedPlan::IsFolded() const {
  return InfoOf(problem_.op).direction == Direction::kBackpropFilter && num_slabs() > 1;
}

int64_t WidenedPlan::ScratchBytes() const {
  const int64_t sums = SlabSums::Bytes(CountOf(whole_.problem.ResultShape()), IsFolded());
  const int64_t scratch =
      std::max(whole_.planned.ScratchBytes(), last_ ? last_->planned.ScratchBytes() : 0);
  return whole_.problem.OperandBytes() + sums * (IsCertified() ? 2 : 1) + scratch;
}

std::string WidenedPlan::Tiles() const {
  return fmt::format("{} in float64, {} of {} images at a time", whole_.planned.algorithm().name,
                     whole_.problem.geometry.batch, problem_.geometry.batch);
}

bool WidenedPlan::Run(const ConvArgs& args) const {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<Stored, double>) {
      WidenedRun<Stored>(args, *this).Run();
    } else {
      ThrowInternal("float64 can't be widened");
    }
  });
  return true;
}

}  // namespace convgrad
