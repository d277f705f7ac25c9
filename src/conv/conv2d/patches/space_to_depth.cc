// Convolutions whose windows lie side by side, those of patch embeddings and of filters as large as
// the map, are a product of matrices: each window is moved to one pixel of many channels, and
// whatever is best for a 1x1 filter does the rest. The result of an input gradient is moved back.
#include "conv/conv2d/patches/space_to_depth.h"

#include <string>

#include "base/memory.h"
#include "conv/axes/flattened.h"
#include "conv/conv2d/patches/window_mover.h"
#include "conv/plan/computed_plan.h"

namespace convgrad {
namespace {

template <class T>
class SpaceToDepthPlan final : public Plan {
 public:
  SpaceToDepthPlan(const Problem& problem, const KernelTable& table, int num_threads)
      : num_threads_(num_threads),
        mover_(problem, table),
        product_problem_(WithWindowsAsPixels(problem)),
        product_(Planned::Best(product_problem_, table, num_threads)) {}

  int64_t ScratchBytes() const override {
    const int64_t moved = mover_.NumElements() + mover_.ScratchElements(num_threads_);
    return product_.ScratchBytes() + moved * int64_t{sizeof(T)};
  }
  Work CountWork() const override {
    Work work = product_.CountWork();
    mover_.AddMoves(work);
    return work;
  }
  std::string Tiles() const override {
    return std::string(product_.algorithm().name) + ": " + product_.Tiles();
  }
  bool Run(const ConvArgs& args) const override;

 private:
  const int num_threads_;
  const WindowMover<T> mover_;
  const Problem product_problem_;
  const Planned product_;
};

template <class T>
bool SpaceToDepthPlan<T>::Run(const ConvArgs& args) const {
  AlignedArray<T> depth(mover_.NumElements());
  const bool gives_input = args.input == nullptr;
  if (!gives_input) {
    mover_.ToDepth(args.parallel, static_cast<const T*>(args.input), depth.data());
  }
  product_.Run({product_problem_, gives_input ? nullptr : depth.data(), args.filter,
                args.out_backprop, gives_input ? depth.data() : args.result, args.kernels,
                args.parallel});
  if (gives_input) mover_.ToSpace(args.parallel, depth.data(), static_cast<T*>(args.result));
  return true;
}

bool CanMoveWindows(const Problem& problem, const KernelTable&) {
  if (!IsStoredAsComputed(problem.dtype)) return false;
  if (problem.data_format == DataFormat::kNHWC && problem.geometry.groups != 1) return false;
  return WithWindowsAsPixels(problem).geometry.in_c != problem.geometry.in_c;
}

}  // namespace

const Algorithm kConv2DSpaceToDepth = {
    .name = "space-to-depth",
    .summary = "windows side by side: each moved to one pixel of many channels, for a 1x1 filter",
    .can = CanMoveWindows,
    .plan = PlanComputed<SpaceToDepthPlan>,
};

}  // namespace convgrad
