#include "conv/parts/exact_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "conv/parts/single_terms.h"
#include "conv/parts/slices.h"
#include "conv/precise/slabs.h"

namespace convgrad {
namespace {

// Elements that a thread takes at a time.
constexpr int64_t kPieceElements = 1 << 13;
// Terms of an element that are summed at once, about: few enough to leave slices many bits, enough
// that adding a double to an exact sum costs little beside them.
constexpr int64_t kSlabTerms = 1 << 12;
// Numbers of both operands that are cut at once, about.
constexpr int64_t kSlabNumbers = int64_t{1} << 21;
// The cost of a term by itself, in terms of slices that a kernel sums: about, for it decides how
// much is left to single terms, and no bit.
constexpr double kSingleTermCost = 64;

// Memory of each number of both operands while it is cut, at most.
constexpr int64_t kNumberBytes =
    kMostSlices * static_cast<int64_t>(sizeof(double)) + static_cast<int64_t>(sizeof(Leftover));

int64_t ImagesAtOnceOf(Problem problem, int64_t max_bytes) {
  const int64_t batch = std::max<int64_t>(1, problem.geometry.batch);
  problem.geometry.batch = 1;
  const int64_t numbers = std::max<int64_t>(
      1, problem.NumElements(Role::kInput) + problem.NumElements(Role::kOutBackprop));
  const int64_t by_terms = kSlabTerms / std::max<int64_t>(1, problem.MaxTerms());
  int64_t most_numbers = kSlabNumbers;
  if (max_bytes > 0) most_numbers = std::min(most_numbers, max_bytes / 2 / kNumberBytes);
  return std::clamp<int64_t>(std::min(by_terms, most_numbers / numbers), 1, batch);
}

struct CutPair {
  Cuts input, out;
};

// The cheapest way to cut both so that no sum of `terms` products of slices is rounded: integers of
// b and c bits make products of b + c - 2 bits.
CutPair ChooseCuts(const BitProfile& input, const BitProfile& out, int64_t terms) {
  constexpr int kMostBits = 51;
  const int both = 55 - static_cast<int>(std::bit_width(static_cast<uint64_t>(terms - 1)));
  CutPair best = {{0, 2, input.top()}, {0, 2, out.top()}};
  double least = kSingleTermCost;
  const auto share = [](const BitProfile& profile, const Cuts& cuts) {
    return static_cast<double>(profile.EndBelow(cuts.LastBit())) /
           static_cast<double>(profile.count());
  };
  for (int bits = std::max(2, both - kMostBits); bits <= std::min(both - 2, kMostBits); ++bits) {
    for (int slices = 1; slices <= kMostSlices; ++slices) {
      const Cuts first = {slices, bits, input.top()};
      const double left_of_input = share(input, first);
      for (int others = 1; others <= kMostSlices; ++others) {
        const Cuts second = {others, both - bits, out.top()};
        const double cost =
            slices * others + kSingleTermCost * (left_of_input + share(out, second));
        if (cost >= least) continue;
        least = cost;
        best = {first, second};
      }
    }
  }
  return best;
}

// Adds the result of a product of slices, whose unit is 2^exponent.
void AddIntegers(const double* integers, int exponent, const Parallel& parallel,
                 FixedPointSums& sums) {
  parallel.For(CeilDiv(sums.count(), kPieceElements), [&](int64_t piece) {
    const int64_t end = std::min(sums.count(), (piece + 1) * kPieceElements);
    for (int64_t element = piece * kPieceElements; element < end; ++element) {
      sums.AddInteger(element, static_cast<int64_t>(integers[element]), exponent);
    }
  });
}

}  // namespace

ExactSums::ExactSums(const Problem& problem, const KernelTable& kernels, int num_threads,
                     int64_t max_bytes)
    : problem_(problem),
      kernels_(kernels),
      num_threads_(num_threads),
      images_at_once_(ImagesAtOnceOf(problem, max_bytes)) {
  if (InfoOf(problem.op).direction != Direction::kBackpropFilter) {
    ThrowInternal("exact sums of a computation that is no sum over images");
  }
  if (problem.HasTerms()) whole_ = MakeSlab(images_at_once_);
}

void ExactSums::Begin(int64_t max_bytes) {
  sums_.emplace(problem_.NumResults(), max_bytes);
  num_terms_ = 0;
}

ExactSums::Slab ExactSums::MakeSlab(int64_t images) const {
  Problem wide = problem_;
  wide.dtype = DType::kFloat64;
  wide.geometry.batch = images;
  return {wide, Planned::Best(wide, kernels_, num_threads_)};
}

const ExactSums::Slab& ExactSums::SlabOf(int64_t images) {
  if (images == images_at_once_) return *whole_;
  if (!last_ || last_->problem.geometry.batch != images) last_ = MakeSlab(images);
  return *last_;
}

int64_t ExactSums::ScratchBytes() const {
  if (!whole_) return 0;
  const Problem& wide = whole_->problem;
  const int64_t numbers = wide.NumElements(Role::kInput) + wide.NumElements(Role::kOutBackprop);
  return numbers * kNumberBytes + wide.ResultBytes() + whole_->planned.ScratchBytes();
}

std::string ExactSums::Tiles() const {
  if (!whole_) return "";
  return fmt::format("slices in float64, {} of {} images at a time: {}", images_at_once_,
                     problem_.geometry.batch, whole_->planned.Tiles());
}

void ExactSums::Add(const void* input, const void* out_backprop, int64_t images,
                    const Parallel& parallel) {
  if (!whole_ || images == 0) return;
  const Slab& slab = SlabOf(images);
  VisitFloat(problem_.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    AddStored(static_cast<const Stored*>(input), static_cast<const Stored*>(out_backprop), slab,
              parallel);
  });
}

template <class Stored>
void ExactSums::AddStored(const Stored* input, const Stored* out_backprop, const Slab& slab,
                          const Parallel& parallel) {
  const int64_t num_input = slab.problem.NumElements(Role::kInput);
  const int64_t num_out = slab.problem.NumElements(Role::kOutBackprop);
  const int64_t terms = slab.problem.MaxTerms();
  num_terms_ += terms;
  if (terms == 0) return;
  const BitProfile of_input(input, num_input, parallel), of_out(out_backprop, num_out, parallel);
  if (of_input.HasSpecial() || of_out.HasSpecial()) sums_->KeepStates();
  const bool has_numbers = of_input.HasNumbers() && of_out.HasNumbers();
  CutPair cuts;
  if (has_numbers) {
    // One bit more for numbers that slices round up, and one to spare.
    const int growth = static_cast<int>(std::bit_width(static_cast<uint64_t>(num_terms_))) + 2;
    sums_->Widen(
        WordWindow::Of(of_input.unit() + of_out.unit(), of_input.top() + of_out.top() + growth),
        parallel);
    cuts = ChooseCuts(of_input, of_out, terms);
  } else if (!sums_->HasStates()) {
    return;  // products of zeros
  }
  const Slices input_slices(input, num_input, cuts.input, parallel);
  const Slices out_slices(out_backprop, num_out, cuts.out, parallel);
  AlignedArray<double> integers(cuts.input.slices > 0 ? sums_->count() : 0);
  for (int k = 0; k < cuts.input.slices; ++k) {
    for (int l = 0; l < cuts.out.slices; ++l) {
      slab.planned.Run({slab.problem, input_slices.Slice(k), nullptr, out_slices.Slice(l),
                        integers.data(), kernels_, parallel});
      AddIntegers(integers.data(), cuts.input.BitOf(k) + cuts.out.BitOf(l), parallel, *sums_);
    }
  }
  AddSingleTerms<Stored>(problem_, {input, out_backprop, input_slices, out_slices}, parallel,
                         *sums_);
}

}  // namespace convgrad
