// A bias in a golden: one number added to every sum, or one to those of each channel. The numbers
// are not known; they are read from the golden.
#pragma once

#include <optional>

#include "verify/diagnosis/diagnosis.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {

enum class BiasKind { kOneNumber, kByChannel };

// `base` with a bias, finished as it is; none where no number added to its sums comes near the
// golden, or none is needed. `base` has no bias; `accumulator` is what its sums are in.
std::optional<Hypothesis> WithBias(const WrongGolden& wrong, const Hypothesis& base, BiasKind kind,
                                   DType accumulator);

}  // namespace convgrad
