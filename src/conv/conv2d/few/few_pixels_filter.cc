// Filter gradients of 1x1 filters that few pixels meet: what takes time is to write the result, so
// that happens once, row by row, and nothing is packed to make tiles of so few terms.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/range.h"
#include "conv/conv2d/few/algorithms.h"
#include "conv/conv2d/few/few_rows.h"
#include "conv/plan/plan.h"

namespace convgrad {
namespace {

// A task's rows of the result: so many, or more of a result of few columns.
constexpr int64_t kFewestRows = 32, kPartBytes = int64_t{32} << 10;
constexpr int64_t kColumnsBytes = int64_t{16} << 10;  // of out_backprop, in the first cache

template <class Compute>
class FewPixelsFilterPlan final : public Plan {
 public:
  FewPixelsFilterPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t ScratchBytes() const override {
    return planar_ ? pixels_ * geometry_.out_c * int64_t{sizeof(Compute)} : 0;
  }
  Work CountWork() const override;
  std::string Tiles() const override {
    return fmt::format("{} pixels, {} parts of {} input channels, strips of {} output channels",
                       pixels_, NumTasks(), part_rows_, strip_cols_);
  }
  bool Run(const ConvArgs& args) const override;

 private:
  int64_t NumParts() const { return CeilDiv(geometry_.group_in_c, part_rows_); }
  int64_t NumTasks() const { return geometry_.groups * NumParts(); }
  int64_t Plane() const { return geometry_.out_h * geometry_.out_w; }
  void RunPart(const ConvArgs& args, const Compute* out_backprop, int64_t group,
               const Range& rows) const;

  const ConvGeometry geometry_;
  const bool planar_;  // NCHW: out_backprop is transposed, and images are taken one by one
  const FewRowsKernels<Compute>& kernels_;
  const int64_t pixels_, strip_cols_, part_rows_;
  std::vector<FewRow> rows_;  // of a task
};

template <class Compute>
FewPixelsFilterPlan<Compute>::FewPixelsFilterPlan(const Problem& problem, const KernelTable& table,
                                                  int)
    : geometry_(problem.geometry),
      planar_(problem.data_format == DataFormat::kNCHW),
      kernels_(table.FewRows<Compute>()),
      pixels_(geometry_.batch * Plane()),
      strip_cols_(
          std::min(geometry_.group_out_c,
                   RoundUp(kColumnsBytes / int64_t{sizeof(Compute)} / pixels_, kernels_.lanes))),
      part_rows_(
          std::max(kFewestRows, kPartBytes / int64_t{sizeof(Compute)} / geometry_.group_out_c)) {
  for (int64_t i = 0; i < std::min(part_rows_, geometry_.group_in_c); ++i) {
    rows_.push_back({i * (planar_ ? Plane() : 1), i * geometry_.out_c});
  }
}

template <class Compute>
Work FewPixelsFilterPlan<Compute>::CountWork() const {
  const ConvGeometry& g = geometry_;
  const int64_t calls = planar_ ? g.batch : 1;
  Work work;
  AddProducts(work, kernels_, Product(g.groups, calls),
              {g.group_in_c, g.group_out_c, pixels_ / calls});
  work.Add(WorkKind::kCall, Product(NumTasks(), calls, CeilDiv(g.group_out_c, strip_cols_)));
  if (planar_) {
    work.Add(WorkKind::kTransposed, Product(pixels_, g.out_c, int64_t{sizeof(Compute)}) / 4);
  }
  work.Add(WorkKind::kTask, Product(NumTasks()));
  return work;
}

template <class Compute>
void FewPixelsFilterPlan<Compute>::RunPart(const ConvArgs& args, const Compute* out_backprop,
                                           int64_t group, const Range& rows) const {
  const ConvGeometry& g = geometry_;
  const int64_t images = planar_ ? g.batch : 1;
  const auto* input = static_cast<const Compute*>(args.input) +
                      (group * g.group_in_c + rows.begin) * (planar_ ? Plane() : 1);
  FewRowsArgs<Compute> part{};
  part.a_step = planar_ ? 1 : g.in_c;
  part.b_step = g.out_c;
  part.num_terms = pixels_ / images;
  part.rows = rows_.data();
  part.num_rows = rows.end - rows.begin;
  for (int64_t first = 0; first < g.group_out_c; first += strip_cols_) {
    const int64_t column = group * g.group_out_c + first;
    part.num_cols = std::min(strip_cols_, g.group_out_c - first);
    part.sums = static_cast<Compute*>(args.result) + rows.begin * g.out_c + column;
    for (int64_t image = 0; image < images; ++image) {
      part.a = input + image * g.in_c * Plane();
      part.b = out_backprop + image * Plane() * g.out_c + column;
      part.begins = image == 0;
      part.ends = image + 1 == images;
      kernels_.run(part);
    }
  }
}

template <class Compute>
bool FewPixelsFilterPlan<Compute>::Run(const ConvArgs& args) const {
  const ConvGeometry& g = geometry_;
  const auto* out_backprop = static_cast<const Compute*>(args.out_backprop);
  AlignedArray<Compute> turned(planar_ ? pixels_ * g.out_c : 0);
  for (int64_t image = 0; planar_ && image < g.batch; ++image) {
    const int64_t at = image * g.out_c * Plane();
    args.kernels.Pack<Compute>().transpose_widen(out_backprop + at, Plane(), turned.data() + at,
                                                 g.out_c, g.out_c, Plane(), /*ahead=*/0);
  }
  args.parallel.For(NumTasks(), [&](int64_t i) {
    const int64_t first = i % NumParts() * part_rows_;
    RunPart(args, planar_ ? turned.data() : out_backprop, i / NumParts(),
            {first, std::min(first + part_rows_, g.group_in_c)});
  });
  return true;
}

// Pixels stay where they are, and all are one block.
bool CanTakeFilter(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  return HasFewRowsKernel(problem, kernels) &&
         InfoOf(problem.op).direction == Direction::kBackpropFilter && problem.ValidTerms() > 0 &&
         KeepsPixels(g) && Product(g.batch, g.out_h, g.out_w) <= double{kFewPixels};
}

}  // namespace

const Algorithm kConv2DFilterFewPixels = {
    .name = "few-pixels",
    .summary = "filter gradient of 1x1 filters that few pixels meet, written once, row by row",
    .can = CanTakeFilter,
    .plan = PlanComputed<FewPixelsFilterPlan>,
};

}  // namespace convgrad
