// Sums of float64 in twice its precision, by conv/precise/compensated_runner.h.
#pragma once

#include "conv/plan/plan.h"

namespace convgrad {

// Precision `double` of float64: the sum, rounded.
void RunCompensated(const ConvArgs& args);

// Precision `exact` of float64: where every number that the runner's bound allows rounds to one and
// the same, that is the result; else the element is summed up exactly, term by term.
void RunCertifiedCompensated(const ConvArgs& args);

}  // namespace convgrad
