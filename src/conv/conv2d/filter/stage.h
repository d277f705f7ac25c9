// One stage of a filter gradient made ready for the micro-kernel: its operands packed, and what the
// tiles of every tap meet listed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "conv/conv2d/filter/ahead.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/conv2d/filter/places.h"
#include "conv/plan/plan.h"

namespace convgrad {

template <class Stored, class Operands>
class FilterGradientStage {
 public:
  using Pass = FilterCut::Pass;

  // Packs and lists with the threads of `args`. `front`: the lists of the first pass and stage,
  // null where stages are not listed.
  FilterGradientStage(const ConvArgs& args, const FilterCut& cut, const StageLists* front)
      : args_(args),
        cut_(cut),
        front_(front),
        operands_(args, cut),
        ahead_(args, cut, sizeof(Stored)) {}

  // The stage keeps what it was made ready for last.
  void Load(const Pass& pass, const PixelStage& stage) {
    if (pass_ == &pass && stage_ == &stage) return;
    const PixelStage* last = pass_ == &pass ? stage_ : nullptr;
    pass_ = &pass;
    stage_ = &stage;
    places_.emplace(cut_, pass, stage);
    operands_.Pack(pass, stage, *places_);
    places_->SetRowOffsets(row_offsets_);
    ahead_.Aim(pass, stage);
    if (front_ != nullptr) FindLists(last);
  }

  const PixelStage& pixels() const { return *stage_; }
  const StagePlaces& places() const { return *places_; }
  const Operands& operands() const { return operands_; }
  // The places of the rows of a row block and those behind it, from their group's pixel.
  const int64_t* RowOffsets(int64_t row_block) const {
    return row_offsets_.data() + row_block * cut_.sizes.tile_rows;
  }
  const FilterGradientAhead& ahead() const { return ahead_; }

  // The list of a chunk's blocks, for one tap; in `own` unless it is there already.
  const PixelList& ListOf(int64_t first_block, int64_t last_block, int64_t tap,
                          PixelList& own) const {
    if (front_ != nullptr) return lists_->Of(first_block - stage_->block_begin, tap);
    own.Build(cut_, *places_, first_block, last_block, tap);
    return own;
  }

 private:
  // `last`: the stage of this pass whose lists these are so far, if there is one.
  void FindLists(const PixelStage* last) {
    if (last != nullptr && cut_.Alike(*last, *stage_)) return;
    if (pass_->IsAsLargeAs(cut_.passes.front()) && cut_.Alike(cut_.stages.front(), *stage_)) {
      lists_ = front_;
      return;
    }
    own_lists_.Build(args_.parallel, cut_, *places_, *stage_);
    lists_ = &own_lists_;
  }

  const ConvArgs& args_;
  const FilterCut& cut_;
  const StageLists* front_;
  Operands operands_;
  FilterGradientAhead ahead_;
  std::optional<StagePlaces> places_;
  std::vector<int64_t> row_offsets_;
  StageLists own_lists_;
  const StageLists* lists_ = nullptr;
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
};

}  // namespace convgrad
