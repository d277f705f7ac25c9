#include "verify/arithmetic/candidates.h"

#include <algorithm>

#include "base/checked.h"

namespace convgrad {
namespace {

bool IsWide(Format format) {
  return format == Format::kFloat32 || format == Format::kFloat64;
}

// A way to divide a sum.
struct Division {
  Split split = Split::kNone;
  int64_t parts = 1, run = 1;
};

class Candidates {
 public:
  Candidates(const Sequence& sequence, const SumFacts& facts) : facts_(facts) {
    base_.sequence = sequence;
    wide_ = facts.dtype == DType::kFloat64 ? Format::kFloat64 : Format::kFloat32;
    base_.accumulator = base_.partial = base_.total = wide_;
  }

  std::vector<Model> Of(Family family) {
    switch (family) {
      case Family::kPlain: AddPlain(); break;
      case Family::kOpen: AddOpen(); break;
      case Family::kMatrix: AddMatrix(); break;
      case Family::kSplit: AddSplit(); break;
    }
    return std::move(models_);
  }

 private:
  std::vector<Format> Accumulators() const {
    if (facts_.dtype == DType::kFloat64) return {Format::kFloat64, Format::kFloat32};
    return {Format::kFloat32, Format::kBFloat16, Format::kFloat16, Format::kTf32};
  }
  std::vector<Format> Narrow() const {
    if (facts_.dtype == DType::kFloat64) return {Format::kFloat32};
    return {Format::kBFloat16, Format::kFloat16};
  }

  // --- one sum ---

  // Fused or not; and where numbers are tiny, flushed or not.
  void AddKinds(Model model) {
    for (const bool fused : {false, true}) {
      model.fused = fused;
      model.flushes = false;
      models_.push_back(model);
      if (!facts_.is_tiny) continue;
      model.flushes = true;
      models_.push_back(model);
    }
  }
  // Chains that take the terms of one sum in `accumulator`.
  void AddChains(Model model, bool all) {
    model.chain = Chain::kInOrder;
    AddKinds(model);
    if (facts_.dtype == DType::kBFloat16) {
      model.chain = Chain::kPairs;
      AddKinds(model);
    }
    if (!facts_.is_usual_nest) return;
    model.chain = Chain::kLanes;
    for (const int lanes : {2, 4, 8, 16, 32, 64}) {
      if (lanes >= facts_.terms) break;
      model.width = lanes;
      for (const Join join : {Join::kHalves, Join::kNeighbours, Join::kInOrder}) {
        if (!all && join != Join::kHalves) break;
        if (lanes == 2 && join != Join::kInOrder && all) continue;  // all the same
        model.lanes_join = join;
        AddKinds(model);
      }
    }
    model.lanes_join = Join::kInOrder;
    model.chain = Chain::kPairwise;
    for (const int base : {1, 8, 16, 32, 64, 128, 256}) {
      if (base >= facts_.terms || (!all && base > 1)) break;
      model.width = base;
      AddKinds(model);
    }
  }

  void AddPlain() {
    for (const Format accumulator : Accumulators()) {
      Model model = base_;
      model.accumulator = model.partial = model.total = accumulator;
      AddChains(model, /*all=*/true);
    }
  }

  // --- divisions ---

  void AddLoops(std::vector<Division>& divisions) const {
    if (facts_.outer > 1) divisions.push_back({Split::kOuter});
    if (facts_.outer_two > facts_.outer) divisions.push_back({Split::kOuterTwo});
  }
  // Only where there are as many pieces as said.
  void AddPieces(int64_t parts, std::vector<Division>& divisions) const {
    const int64_t n = facts_.terms;
    if (2 * parts > n) return;
    if (CeilDiv(n, CeilDiv(n, parts)) == parts) divisions.push_back({Split::kPieces, parts});
    if (n % parts != 0) divisions.push_back({Split::kBalanced, parts});
  }
  void AddTiles(int64_t length, std::vector<Division>& divisions) const {
    if (length < facts_.terms) divisions.push_back({Split::kTiles, length});
  }

  std::vector<Division> ManyDivisions() const {
    constexpr int64_t kMostParts = 1024;
    std::vector<Division> divisions;
    AddLoops(divisions);
    for (int64_t parts = 2; parts <= kMostParts; ++parts) AddPieces(parts, divisions);
    for (int64_t length = 4; length <= 4096; length += length < 64 ? 4 : length < 512 ? 8 : 64) {
      AddTiles(length, divisions);
    }
    for (const int64_t run : {1, 2, 4, 8, 16, 32, 64, 128}) {
      for (int64_t parts = 2; parts <= kMostParts;
           parts += parts < 32 ? 1 : std::max<int64_t>(16, parts / 2)) {
        if (2 * parts * run > facts_.terms) break;
        divisions.push_back({Split::kInterleaved, parts, run});
      }
    }
    return divisions;
  }
  std::vector<Division> UsualDivisions() const {
    std::vector<Division> divisions;
    AddLoops(divisions);
    for (int64_t parts = 2; parts <= 1024; parts += parts < 16 ? 1 : parts / 2) {
      AddPieces(parts, divisions);
    }
    for (int64_t length = 4; length <= 4096; length *= 2) {
      AddTiles(length, divisions);
      AddTiles(length + length / 2, divisions);
    }
    for (int64_t parts = 2; parts <= 32; parts *= 2) {
      for (const int64_t run : {8, 16, 32}) {
        if (2 * parts * run <= facts_.terms) divisions.push_back({Split::kInterleaved, parts, run});
      }
    }
    return divisions;
  }

  static Model Divided(Model model, const Division& division) {
    model.split = division.split;
    model.parts = division.parts;
    model.run = division.run;
    return model;
  }
  void AddJoins(Model model, Format partial, Format total, bool trees) {
    model.partial = partial;
    model.total = total;
    for (const Join join : {Join::kInOrder, Join::kReversed, Join::kNeighbours, Join::kHalves}) {
      if (!trees && (join == Join::kNeighbours || join == Join::kHalves)) break;
      model.join = join;
      models_.push_back(model);
    }
  }

  void AddOpen() {
    for (const Division& division : facts_.is_usual_nest ? ManyDivisions() : UsualDivisions()) {
      Model model = Divided(base_, division);
      model.chain = Chain::kAnyOrder;
      for (const Format narrow : Narrow()) {
        AddJoins(model, narrow, narrow, true);
        AddJoins(model, narrow, wide_, true);
        AddJoins(model, wide_, narrow, false);
      }
    }
  }

  void AddSplit() {
    for (const Division& division : UsualDivisions()) {
      for (const Format accumulator : Accumulators()) {
        const size_t begin = models_.size();
        Model chains = Divided(base_, division);
        chains.accumulator = accumulator;
        AddChains(chains, /*all=*/false);
        const std::vector<Model> found(models_.begin() + static_cast<int64_t>(begin),
                                       models_.end());
        models_.resize(begin);
        for (const Model& model : found) {
          if (!IsWide(accumulator) && model.chain != Chain::kInOrder) continue;
          AddJoins(model, accumulator, accumulator, true);
          if (accumulator != wide_) AddJoins(model, accumulator, wide_, true);
          if (accumulator == Format::kFloat32) {
            AddJoins(model, accumulator, Format::kFloat64, false);
          }
        }
      }
    }
  }

  void AddMatrix() {
    std::vector<Division> divisions = {Division{}};
    AddLoops(divisions);
    for (int64_t length = 32; length <= 1024; length *= 2) AddTiles(length, divisions);
    for (int64_t parts = 2; parts <= 64; parts *= 2) AddPieces(parts, divisions);
    for (const Division& division : divisions) {
      Model model = Divided(base_, division);
      model.chain = Chain::kMatrixUnit;
      for (const int width : {8, 16, 4, 32}) {
        for (const int extra_bits : {0, 1, 2, 3}) {
          model.width = width;
          model.extra_bits = extra_bits;
          models_.push_back(model);
        }
      }
    }
  }

  const SumFacts facts_;
  Format wide_;
  Model base_;
  std::vector<Model> models_;
};

}  // namespace

std::vector<Model> ModelsOf(Family family, const Sequence& sequence, const SumFacts& facts) {
  return Candidates(sequence, facts).Of(family);
}

int64_t CostOf(const Model& model, int64_t terms) {
  if (model.chain == Chain::kAnyOrder) {
    // Twenty models share what the terms take where they are dealt anew.
    return 8 * model.parts + (model.split == Split::kInterleaved ? terms / 2 : 0);
  }
  if (model.chain == Chain::kMatrixUnit) return 8 * terms;
  return (IsWide(model.accumulator) ? 3 : 8) * terms;
}

}  // namespace convgrad
