// The arithmetics that kernels are known to have, as lists of models, the simple ones first.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"
#include "verify/arithmetic/model.h"

namespace convgrad {

// The facts that decide which models make sense.
struct SumFacts {
  DType dtype;                // of the problem
  int64_t terms;              // places of the longest sum
  int64_t outer, outer_two;   // turns of the outermost loop, and of the two outermost
  bool is_tiny = false;       // some products are subnormal
  bool is_usual_nest = true;  // of loops, one that kernels with lanes have
};

// Families of models that differ in what they take to try.
enum class Family : uint8_t {
  kPlain,   // one sum, no partial ones
  kOpen,    // partial sums rounded to a narrow format, in whatever order their terms are added
  kMatrix,  // matrix units
  kSplit,   // partial sums in a wide format, or of narrow sums: each step counts
};
constexpr Family kFamilies[] = {Family::kPlain, Family::kOpen, Family::kMatrix, Family::kSplit};

// All of one family, for terms in `sequence`.
std::vector<Model> ModelsOf(Family family, const Sequence& sequence, const SumFacts& facts);

// The time that one of them takes for one element, in steps of about a nanosecond.
int64_t CostOf(const Model& model, int64_t terms);

}  // namespace convgrad
