// How long a case is expected to take, from its numbers alone. The same on every machine, so that
// shards deal alike wherever they run; the proportions matter, not the seconds.
#pragma once

#include "problem/geometry.h"
#include "problem/precision.h"

namespace convgrad::cli {

// The ways to compare a result. By far the dearest is a bound of its own for every element.
enum class Checking { kNone, kBits, kBound };

// Seconds of one thread on the machine that the constants in cost.cc describe.
double PredictSeconds(const Problem& problem, Checking checking,
                      Precision precision = Precision::kStandard);

// How many times as long as the case all parts of it together take, where its images are dealt: an
// exact sum costs more before it is rounded.
double PredictCutFactor(const Problem& problem);

// The cost of a case about which nothing is known: its operands can't be read, so it will soon have
// failed.
double PredictFailureSeconds();

}  // namespace convgrad::cli
