// Which bytes of the operands a filter gradient's micro-kernel fetches while it works on a stage:
// those of the next one, so that no stage begins by waiting for memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/plan/plan.h"

namespace convgrad {

class FilterGradientAhead {
 public:
  FilterGradientAhead(const ConvArgs& args, const FilterCut& cut, int64_t stored_bytes)
      : args_(args), cut_(cut), stored_bytes_(stored_bytes) {}

  // While `stage` is worked on. One pass' operands are whole pixels or whole images, which lie
  // together.
  void Aim(const FilterCut::Pass& pass, const PixelStage& stage) {
    stage_ = &stage;
    tiles_ = cut_.TilesOf(pass);
    step_ = 0;
    // The machine's own prefetcher follows pixels in order, and parts of each within the caches.
    if (cut_.FewReadPixelsInPlace() || cut_.ReadsOperandsFromCaches()) return;
    const ConvGeometry& g = cut_.geometry;
    const PixelStage* next = &stage + 1;
    if (next == cut_.stages.data() + cut_.stages.size() || cut_.passes.size() > 1) return;
    Slab out = next->output;
    if (cut_.format == DataFormat::kNCHW && out.num_rows() < g.out_h) return;
    Slab in = cut_.PaddedSlab(*next);
    in.row_begin = std::clamp<int64_t>(in.row_begin - g.pad_top, 0, g.in_h);
    in.row_end = std::clamp<int64_t>(in.row_end - g.pad_top, in.row_begin, g.in_h);
    if (cut_.format == DataFormat::kNCHW) in.row_begin = 0, in.row_end = g.in_h;
    input_ = BytesOf(args_.input, in, g.in_h, g.in_w * g.in_c);
    output_ = BytesOf(args_.out_backprop, out, g.out_h, g.out_w * g.out_c);
    step_ = CeilDiv(input_.count + output_.count, stage.num_pixels(cut_.out_cols) * tiles_);
  }

  // While blocks [block, block_end) are added to a tile, its share is to be fetched from here on,
  // step() bytes a term. Null: none.
  const void* At(int64_t block, int64_t block_end, int64_t tile) const {
    if (step_ == 0) return nullptr;
    const double part = static_cast<double>(tile) / static_cast<double>(tiles_);
    const double done = (static_cast<double>(block - stage_->block_begin) +
                         static_cast<double>(block_end - block) * part) /
                        static_cast<double>(stage_->block_end - stage_->block_begin);
    const int64_t at =
        static_cast<int64_t>(done * static_cast<double>(input_.count + output_.count));
    return at < input_.count ? input_.begin + at : output_.begin + (at - input_.count);
  }
  int64_t step() const { return step_; }

 private:
  struct Bytes {
    const char* begin = nullptr;
    int64_t count = 0;
  };

  // From the slab's first row to its last one, of a tensor with `h` rows of `row` numbers.
  Bytes BytesOf(const void* tensor, const Slab& slab, int64_t h, int64_t row) const {
    const int64_t first = (slab.image_begin * h + slab.row_begin) * row;
    const int64_t last = ((slab.image_end - 1) * h + slab.row_end) * row;
    return {static_cast<const char*>(tensor) + first * stored_bytes_,
            (last - first) * stored_bytes_};
  }

  const ConvArgs& args_;
  const FilterCut& cut_;
  const int64_t stored_bytes_;
  const PixelStage* stage_ = nullptr;
  int64_t tiles_ = 0, step_ = 0;
  Bytes input_, output_;
};

}  // namespace convgrad
