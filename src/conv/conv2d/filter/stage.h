// One stage of a filter gradient made ready for the micro-kernel: its operands packed, and what the
// tiles of every tap meet listed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "conv/conv2d/filter/ahead.h"
#include "conv/conv2d/filter/pixel_list.h"
#include "conv/conv2d/filter/plan.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

template <class Stored, class Operands>
class FilterGradientStage {
 public:
  using Pass = FilterGradientPlan::Pass;

  // Packs and lists with the threads of `args`.
  FilterGradientStage(const ConvArgs& args, const FilterGradientPlan& plan)
      : args_(args),
        plan_(plan),
        operands_(args, plan),
        ahead_(args, plan, sizeof(Stored)),
        chunk_lists_(
            static_cast<size_t>(plan.lists_stages ? plan.MostStageBlocks() * plan.tile_taps : 0)) {}

  // What the stage was made ready for last it keeps.
  void Load(const Pass& pass, const PixelStage& stage) {
    if (pass_ == &pass && stage_ == &stage) return;
    const bool listed = pass_ == &pass && plan_.Alike(*stage_, stage);
    pass_ = &pass;
    stage_ = &stage;
    operands_.Pack(pass, stage);
    ahead_.Aim(pass, stage);
    if (plan_.lists_stages && !listed) ListChunks();
  }

  const PixelStage& pixels() const { return *stage_; }
  const Operands& operands() const { return operands_; }
  const FilterGradientAhead& ahead() const { return ahead_; }

  struct BlockRange {
    int64_t begin, end;
  };
  // Those of a run that are in the stage.
  BlockRange BlocksOf(int64_t run) const {
    return {std::max(run * kRunBlocks, stage_->block_begin),
            std::min((run + 1) * kRunBlocks, stage_->block_end)};
  }

  // Of a chunk's blocks, for one tap; in `own` unless it is there already.
  const PixelList& ListOf(int64_t first_block, int64_t last_block, int64_t tap,
                          PixelList& own) const {
    if (plan_.lists_stages) return chunk_lists_[IndexOfChunk(first_block, tap)];
    own.Build(plan_, operands_, first_block, last_block, tap);
    return own;
  }

 private:
  size_t IndexOfChunk(int64_t first_block, int64_t tap) const {
    return static_cast<size_t>((first_block - stage_->block_begin) * plan_.tile_taps + tap);
  }

  void ListChunks() {
    const int64_t first_run = stage_->block_begin / kRunBlocks;
    const int64_t runs = CeilDiv(stage_->block_end, kRunBlocks) - first_run;
    args_.parallel.For(runs * plan_.tile_taps, [&](int64_t i) {
      const int64_t tap = i % plan_.tile_taps;
      const BlockRange blocks = BlocksOf(first_run + i / plan_.tile_taps);
      for (int64_t block = blocks.begin; block < blocks.end; block += plan_.chunk_blocks) {
        const int64_t end = std::min(blocks.end, block + plan_.chunk_blocks);
        chunk_lists_[IndexOfChunk(block, tap)].Build(plan_, operands_, block, end, tap);
      }
    });
  }

  const ConvArgs& args_;
  const FilterGradientPlan& plan_;
  Operands operands_;
  FilterGradientAhead ahead_;
  std::vector<PixelList> chunk_lists_;  // of each chunk, by its first block, and tap
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
};

}  // namespace convgrad
