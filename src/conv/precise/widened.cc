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

// Whole images, as many in each slab, from the first on; a function of sizes alone.
class Slabs {
 public:
  explicit Slabs(const Problem& problem) : problem_(problem) {
    const int64_t batch = problem.geometry.batch;
    const int64_t elements = CountOf(problem.InputShape()) + CountOf(problem.OutputShape());
    const int64_t of_an_image = std::max<int64_t>(1, elements / std::max<int64_t>(1, batch));
    images_ = std::clamp<int64_t>(kSlabElements / of_an_image, 1, std::max<int64_t>(1, batch));
  }
  int64_t images() const { return images_; }
  int64_t count() const { return CeilDiv(problem_.geometry.batch, images_); }
  int64_t first_image(int64_t slab) const { return slab * images_; }

  // The slab's own float64 problem.
  Problem ProblemOf(int64_t slab) const {
    Problem wide = problem_;
    wide.dtype = DType::kFloat64;
    wide.geometry.batch = std::min(images_, problem_.geometry.batch - first_image(slab));
    return wide;
  }

 private:
  const Problem& problem_;
  int64_t images_;
};

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

// What a computation in slabs keeps for every element of a slab's result, or of the only result of
// a filter gradient.
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
  WideOperands(const ConvArgs& args, const Slabs& slabs) : args_(args), slabs_(slabs) {
    const Problem widest = slabs.ProblemOf(0);
    for (int i = 0; i < 2; ++i) {
      numbers_[i] = AlignedArray<double>(CountOf(widest.ShapeOf(RoleOf(i))));
    }
  }
  void Load(int64_t slab) {
    const Problem wide = slabs_.ProblemOf(slab);
    for (int i = 0; i < 2; ++i) {
      const int64_t count = CountOf(wide.ShapeOf(RoleOf(i)));
      const int64_t image = RoleOf(i) == Role::kFilter ? 0 : slabs_.first_image(slab);
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
  const Slabs& slabs_;
  AlignedArray<double> numbers_[2];
};

template <class Stored>
class WidenedRun {
 public:
  WidenedRun(const ConvArgs& args, bool is_reference, bool is_exact)
      : args_(args),
        is_reference_(is_reference),
        slabs_(args.problem),
        is_folded_(IsFolded(args.problem, slabs_)),
        operands_(args, slabs_),
        sums_(CountOf(slabs_.ProblemOf(0).ResultShape()), is_folded_) {
    if (is_exact) sizes_.emplace(CountOf(slabs_.ProblemOf(0).ResultShape()), is_folded_);
    if (is_exact) exact_.emplace(args);
    const int64_t chain = std::min(args.problem.MaxTerms(), kBlockTerms);
    relative_bound_ = static_cast<double>(chain + 8) * 0x1p-53;
  }

  static bool IsFolded(const Problem& problem, const Slabs& slabs) {
    return InfoOf(problem.op).direction == Direction::kBackpropFilter && slabs.count() > 1;
  }

  void Run() {
    int64_t finished = 0;
    for (int64_t slab = 0; slab < slabs_.count(); ++slab) {
      const Problem wide = slabs_.ProblemOf(slab);
      operands_.Load(slab);
      Compute(wide, sums_);
      if (sizes_) {
        operands_.TakeAbsoluteValues();
        Compute(wide, *sizes_);
      }
      if (is_folded_) continue;
      const int64_t count = CountOf(wide.ResultShape());
      Finish(finished, count);
      finished += count;
    }
    if (is_folded_) Finish(0, CountOf(args_.problem.ResultShape()));
  }

 private:
  void Compute(const Problem& wide, SlabSums& sums) {
    const Algorithm& algorithm =
        is_reference_ ? AlgorithmsOf(wide.op).back() : BestAlgorithm(wide, args_.kernels);
    algorithm.run({wide, operands_.Of(Role::kInput), operands_.Of(Role::kFilter),
                   operands_.Of(Role::kOutBackprop), sums.slab(), args_.kernels, args_.parallel});
    if (is_folded_) sums.Fold(args_.parallel);
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
  bool is_reference_;
  Slabs slabs_;
  bool is_folded_;  // slab by slab into totals
  WideOperands<Stored> operands_;
  SlabSums sums_;
  std::optional<SlabSums> sizes_;  // sums of absolute values
  std::optional<ExactElements<Stored>> exact_;
  double relative_bound_;  // of the sums, as a multiple of S
};

void RunOnWidened(const ConvArgs& args, bool is_reference, bool is_exact) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<Stored, double>) {
      WidenedRun<Stored>(args, is_reference, is_exact).Run();
    } else {
      ThrowInternal("float64 can't be widened");
    }
  });
}

}  // namespace

bool TakesWidened(const Problem& problem) {
  return problem.dtype != DType::kFloat64;
}

void RunWidened(const ConvArgs& args) {
  RunOnWidened(args, /*is_reference=*/false, /*is_exact=*/false);
}

void RunWidenedReference(const ConvArgs& args) {
  RunOnWidened(args, /*is_reference=*/true, /*is_exact=*/false);
}

void RunCertifiedWidened(const ConvArgs& args) {
  RunOnWidened(args, /*is_reference=*/false, /*is_exact=*/true);
}

int64_t WidenedScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads,
                            Precision precision) {
  const Slabs slabs(problem);
  const Problem widest = slabs.ProblemOf(0);
  const bool is_folded = WidenedRun<float>::IsFolded(problem, slabs);
  const int64_t sums = SlabSums::Bytes(CountOf(widest.ResultShape()), is_folded);
  int64_t scratch = 0;
  for (const int64_t slab : {int64_t{0}, slabs.count() - 1}) {
    const Problem wide = slabs.ProblemOf(slab);
    scratch =
        std::max(scratch, BestAlgorithm(wide, kernels).scratch_bytes(wide, kernels, num_threads));
  }
  return widest.OperandBytes() + sums * (precision == Precision::kExact ? 2 : 1) + scratch;
}

std::string DescribeWidened(const Problem& problem, const KernelTable& kernels) {
  const Slabs slabs(problem);
  return fmt::format("{} in float64, {} of {} images at a time",
                     BestAlgorithm(slabs.ProblemOf(0), kernels).name, slabs.images(),
                     problem.geometry.batch);
}

}  // namespace convgrad
