// Why a tensor did not pass its comparison: operands that are not those of its golden, or the
// mistake or the arithmetic that explains every number. Must not know where the tensor came from
// but for the words.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "cli/case/case.h"
#include "cli/case/golden.h"
#include "cli/report/report.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

// A tensor that is not what it should be, and what it should be.
struct Doubted {
  const Problem& problem;
  Tensor first, second;         // as its maker multiplied them
  std::optional<Tensor> right;  // the result of these; computed where it is needed and none is here
  Tensor made;                  // as our own result would be
  bool is_yours = false;        // under test itself, not a golden
  int64_t spare_bytes = 0;      // of memory
};

// Adds the diagnosis to a result that did not pass, and lets it fail where rounding made its
// numbers unlikely and a mistake explains them all.
void AddDiagnosis(const Doubted& doubted, const CaseSpec& spec, const Parallel& parallel,
                  CheckResult& check);

// Names the inputs that are not what they were when the golden was recorded: it says nothing of a
// result of others.
void NameChangedInputs(const GoldenRecord& recorded, const std::vector<InputRecord>& inputs,
                       CheckResult& check);

}  // namespace convgrad::cli
