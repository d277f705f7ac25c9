#include "conv/precise/slabs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"

namespace convgrad {
namespace {

// As many in each, from the first on; a function of sizes alone.
int64_t ImagesOf(const Problem& problem, int64_t numbers) {
  const int64_t batch = std::max<int64_t>(1, problem.geometry.batch);
  const int64_t elements =
      problem.NumElements(Role::kInput) + problem.NumElements(Role::kOutBackprop);
  return std::clamp<int64_t>(numbers / std::max<int64_t>(1, elements / batch), 1, batch);
}

bool SameSlab(const ConvGeometry& a, const ConvGeometry& b) {
  return a.batch == b.batch && a.in_h == b.in_h && a.out_h == b.out_h && a.pad_top == b.pad_top &&
         a.pad_bottom == b.pad_bottom;
}

}  // namespace

Problem InFloat(Problem problem) {
  problem.dtype = DType::kFloat32;
  return problem;
}

int64_t WideSlab::OffsetIn(const Problem& whole, Role role) const {
  if (role == Role::kFilter || whole.geometry.batch == 0) return 0;
  const bool is_input = role == Role::kInput;
  const int64_t image = whole.NumElements(role) / whole.geometry.batch;
  const int64_t rows = is_input ? whole.geometry.in_h : whole.geometry.out_h;
  return first_image * image + (is_input ? in : out).begin * (image / rows);
}

int64_t WideSlab::OffsetInResult(const Problem& whole) const {
  switch (InfoOf(whole.op).direction) {
    case Direction::kForward: return OffsetIn(whole, Role::kOutBackprop);
    case Direction::kBackpropInput: return OffsetIn(whole, Role::kInput);
    case Direction::kBackpropFilter: return 0;
  }
  ThrowInternal("unknown direction");
}

Slabs::Slabs(const Problem& problem, const SlabSize& size)
    : problem_(problem), images_(ImagesOf(problem, size.numbers)) {
  const ConvGeometry& g = problem.geometry;
  const bool is_input = InfoOf(problem.op).direction == Direction::kBackpropInput;
  band_rows_ = rows_ = is_input ? g.in_h : g.out_h;
  if (size.may_cut_images && images_ == 1 && problem.data_format == DataFormat::kNHWC) {
    const int64_t numbers =
        (problem.NumElements(Role::kInput) + problem.NumElements(Role::kOutBackprop)) /
        std::max<int64_t>(1, g.batch);
    const int64_t bands = std::clamp<int64_t>(CeilDiv(numbers, size.numbers), 1, rows_);
    // Every band of an input gradient begins in the same phase.
    band_rows_ = RoundUp(CeilDiv(rows_, bands), is_input ? g.stride_h : 1);
    if (!CanCut()) band_rows_ = rows_;
  }
}

Slabs::Slabs(const Problem& problem, const SlabSize& size, const KernelTable& kernels,
             int num_threads, SlabPlans plans)
    : Slabs(problem, size) {
  const bool by_reference = plans == SlabPlans::kReference;
  // All kinds there are: those of the first image, and the last slab.
  for (int64_t i = 0; i <= std::min(Bands(), count() - 1); ++i) {
    const Problem wide = ProblemAt(PlaceOf(i == Bands() ? count() - 1 : i));
    if (Find(wide) != nullptr) continue;
    kinds_.push_back(
        {wide,
         by_reference ? Planned::Forced(AlgorithmsOf(wide.op).back(), wide, kernels, num_threads)
                      : Planned::Best(wide, kernels, num_threads),
         std::nullopt});
    if (plans == SlabPlans::kBestAndInFloat) {
      kinds_.back().in_float = Planned::Best(InFloat(wide), kernels, num_threads);
    }
    const auto numbers_of = [](const Kind& kind) {
      return kind.problem.NumElements(Role::kInput) + kind.problem.NumElements(Role::kOutBackprop);
    };
    if (numbers_of(kinds_.back()) > numbers_of(kinds_[widest_])) widest_ = kinds_.size() - 1;
  }
}

// False where a band meets nothing but padding.
bool Slabs::CanCut() const {
  for (int64_t i = 0; i < Bands(); ++i) {
    const Place place = PlaceOf(i);
    if (place.in.begin >= place.in.end || place.out.begin >= place.out.end) return false;
  }
  return true;
}

int Slabs::NumWorkers(const Problem& problem, const SlabSize& size, int num_threads) {
  const bool is_filter = InfoOf(problem.op).direction == Direction::kBackpropFilter;
  if (is_filter && problem.NumElements(Role::kFilter) > size.numbers / 4) return 1;
  return Count(problem, size) >= 4 * num_threads ? num_threads : 1;
}

int64_t Slabs::count() const {
  return CeilDiv(problem_.geometry.batch, images_) * Bands();
}

// The rows [begin, end) of an image's result or, of a filter gradient, output.
Slabs::Place Slabs::BandAt(int64_t image, int64_t begin, int64_t end) const {
  const ConvGeometry& g = problem_.geometry;
  const int64_t reach = (g.kernel_h - 1) * g.dilation_h;
  if (InfoOf(problem_.op).direction != Direction::kBackpropInput) {
    const int64_t first = begin * g.stride_h - g.pad_top;
    const int64_t last = (end - 1) * g.stride_h - g.pad_top + reach;
    return {image, 1, {std::max<int64_t>(0, first), std::min(g.in_h, last + 1)}, {begin, end}};
  }
  // No later than where the first row's own window begins, so that padding is never negative.
  const int64_t own = (begin + g.pad_top) / g.stride_h;
  const int64_t first = -FloorDiv(reach - begin - g.pad_top, g.stride_h);
  const int64_t last = (end - 1 + g.pad_top) / g.stride_h;
  return {image,
          1,
          {begin, end},
          {std::max<int64_t>(0, std::min(own, first)), std::min(g.out_h, last + 1)}};
}

Slabs::Place Slabs::PlaceOf(int64_t index) const {
  const ConvGeometry& g = problem_.geometry;
  const int64_t first = index / Bands() * images_;
  if (Bands() == 1) {
    return {first, std::min(images_, g.batch - first), {0, g.in_h}, {0, g.out_h}};
  }
  const int64_t begin = index % Bands() * band_rows_;
  return BandAt(first, begin, std::min(rows_, begin + band_rows_));
}

Problem Slabs::ProblemAt(const Place& place) const {
  Problem wide = problem_;
  wide.dtype = DType::kFloat64;
  ConvGeometry& g = wide.geometry;
  g.batch = place.images;
  if (Bands() == 1) return wide;
  const int64_t reach = (g.kernel_h - 1) * g.dilation_h;
  wide.padding = Padding::kExplicit;
  g.pad_top += place.in.begin - place.out.begin * g.stride_h;
  g.in_h = place.in.end - place.in.begin;
  g.out_h = place.out.end - place.out.begin;
  g.pad_bottom = std::max<int64_t>(0, (g.out_h - 1) * g.stride_h + reach + 1 - g.in_h - g.pad_top);
  return wide;
}

const Slabs::Kind* Slabs::Find(const Problem& wide) const {
  const auto found = std::ranges::find_if(
      kinds_, [&](const Kind& kind) { return SameSlab(kind.problem.geometry, wide.geometry); });
  return found == kinds_.end() ? nullptr : &*found;
}

WideSlab Slabs::operator[](int64_t index) const {
  const Place place = PlaceOf(index);
  const Kind* kind = Find(ProblemAt(place));
  if (kind == nullptr) ThrowInternal("a slab of no known kind");
  const Planned* in_float = kind->in_float ? &*kind->in_float : nullptr;
  return {kind->problem, kind->planned, in_float, place.first_image, place.in, place.out};
}

bool Slabs::AreFolded() const {
  return InfoOf(problem_.op).direction == Direction::kBackpropFilter && count() > 1;
}

int64_t Slabs::MostOf(Role role) const {
  int64_t most = 0;
  for (const Kind& kind : kinds_) most = std::max(most, kind.problem.NumElements(role));
  return most;
}

int64_t Slabs::MostOfResult() const {
  int64_t most = 0;
  for (const Kind& kind : kinds_) most = std::max(most, kind.problem.NumResults());
  return most;
}

int64_t Slabs::MostTerms() const {
  int64_t most = 1;
  for (const Kind& kind : kinds_) most = std::max(most, kind.problem.MaxTerms());
  return most;
}

int64_t Slabs::MostBytes() const {
  int64_t most = 0;
  for (const Role role : InfoOf(problem_.op).operands) most += MostOf(role);
  return most * static_cast<int64_t>(sizeof(double));
}

int64_t Slabs::ScratchBytes() const {
  int64_t most = 0;
  for (const Kind& kind : kinds_) {
    most = std::max(most, kind.planned.ScratchBytes());
    if (kind.in_float) most = std::max(most, kind.in_float->ScratchBytes());
  }
  return most;
}

std::string Slabs::Tiles() const {
  const std::string name = kinds_.front().planned.algorithm().name;
  if (Bands() > 1)
    return fmt::format("{} in float64, {} of {} rows at a time", name, band_rows_, rows_);
  return fmt::format("{} in float64, {} of {} images at a time", name, images_,
                     problem_.geometry.batch);
}

PairSums::PairSums(int64_t size) : high(size), low(size) {
  for (AlignedArray<double>* numbers : {&high, &low}) std::fill_n(numbers->data(), size, 0.0);
}

void PairSums::Add(const double* terms, int64_t count, const PairKernels& kernels,
                   const Parallel& parallel) {
  ForPieces(parallel, count, [&](int64_t begin, int64_t end) {
    kernels.add(terms + begin, high.data() + begin, low.data() + begin, end - begin);
  });
}

void PairSums::Add(const PairSums& others, const PairKernels& kernels, const Parallel& parallel) {
  Add(others.high.data(), size(), kernels, parallel);
  ForPieces(parallel, size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) low[i] += others.low[i];
  });
}

int64_t SlabSums::Bytes(const Slabs& slabs) {
  return slabs.MostOfResult() * (slabs.AreFolded() ? 3 : 1) * static_cast<int64_t>(sizeof(double));
}

void SlabSums::Unfold(const Parallel& parallel) {
  ForPieces(parallel, totals_.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double total = totals_.high[i];
      slab_[i] = std::isfinite(total) ? total + totals_.low[i] : total;
    }
  });
}

}  // namespace convgrad
