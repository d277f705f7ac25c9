#include "conv/precise/widened.h"

#include <algorithm>

#include "base/checked.h"
#include "base/memory.h"
#include "kernels/precise/precise.h"

namespace convgrad {
namespace {

// The bits of a filter gradient depend on the cut, which once was this: 64 MiB as doubles.
SlabSize SizeOf(const Problem& problem, int num_threads) {
  constexpr int64_t kNumbers = int64_t{1} << 23;
  const bool is_filter = InfoOf(problem.op).direction == Direction::kBackpropFilter;
  return is_filter ? SlabSize{kNumbers} : SlabSize::Cached(problem, num_threads);
}

template <class Stored>
void WidenInto(const ConvArgs& args, const Stored* from, double* to, int64_t count) {
  const auto& widen = PreciseKernelsOf<Stored>(args.kernels.isa).widen;
  ForPieces(args.parallel, count, [&](int64_t begin, int64_t end) {
    constexpr int64_t kRow = 256;
    double squares[kRow] = {};  // which nothing needs here
    const int64_t rows = (end - begin) / kRow, rest = begin + rows * kRow;
    widen(from + begin, to + begin, squares, rows, kRow);
    widen(from + rest, to + rest, squares, 1, end - rest);
  });
}

template <class Stored>
class WidenedRun {
 public:
  WidenedRun(const ConvArgs& args, const Slabs& slabs) : args_(args), slabs_(slabs), sums_(slabs) {
    for (int i = 0; i < 2; ++i) {
      numbers_[i] = AlignedArray<double>(slabs.MostOf(RoleOf(i)));
    }
  }

  void Run() {
    for (int64_t i = 0; i < slabs_.count(); ++i) {
      const WideSlab slab = slabs_[i];
      Load(slab);
      slab.planned.Run({slab.problem, Of(Role::kInput), Of(Role::kFilter), Of(Role::kOutBackprop),
                        sums_.slab(), args_.kernels, args_.parallel});
      if (slabs_.AreFolded()) {
        sums_.Fold(args_.parallel);
      } else {
        Finish(slab.OffsetInResult(args_.problem), CountOf(slab.problem.ResultShape()));
      }
    }
    if (!slabs_.AreFolded()) return;
    sums_.Unfold(args_.parallel);
    Finish(0, CountOf(args_.problem.ResultShape()));
  }

 private:
  Role RoleOf(int i) const { return InfoOf(args_.problem.op).operands[i]; }
  const double* Of(Role role) const {
    for (int i = 0; i < 2; ++i) {
      if (RoleOf(i) == role) return numbers_[i].data();
    }
    return nullptr;
  }

  void Load(const WideSlab& slab) {
    for (int i = 0; i < 2; ++i) {
      const int64_t offset = slab.OffsetIn(args_.problem, RoleOf(i));
      WidenInto(args_, static_cast<const Stored*>(args_.OperandOf(RoleOf(i))) + offset,
                numbers_[i].data(), CountOf(slab.problem.ShapeOf(RoleOf(i))));
    }
  }

  // The result's elements from `first` on.
  void Finish(int64_t first, int64_t count) {
    Stored* result = static_cast<Stored*>(args_.result) + first;
    ForPieces(args_.parallel, count, [&](int64_t begin, int64_t end) {
      constexpr int64_t kRun = 1 << 10;
      int64_t in_doubt[kRun];  // none: sums are what they are
      const double* sums = sums_.slab();
      for (int64_t at = begin; at < end; at += kRun) {
        PreciseKernelsOf<Stored>(args_.kernels.isa)
            .round(sums + at, sums + at, {0, 0}, result + at, std::min(kRun, end - at), in_doubt);
      }
    });
  }

  const ConvArgs& args_;
  const Slabs& slabs_;
  SlabSums sums_;
  AlignedArray<double> numbers_[2];
};

}  // namespace

bool TakesWidened(const Problem& problem) {
  return problem.dtype != DType::kFloat64;
}

WidenedPlan::WidenedPlan(const Problem& problem, const KernelTable& kernels, int num_threads,
                         bool by_reference)
    : slabs_(problem, SizeOf(problem, num_threads), kernels, num_threads, by_reference) {}

int64_t WidenedPlan::ScratchBytes() const {
  return slabs_.MostBytes() + SlabSums::Bytes(slabs_) + slabs_.ScratchBytes();
}

bool WidenedPlan::Run(const ConvArgs& args) const {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<Stored, double>) {
      WidenedRun<Stored>(args, slabs_).Run();
    } else {
      ThrowInternal("float64 can't be widened");
    }
  });
  return true;
}

}  // namespace convgrad
