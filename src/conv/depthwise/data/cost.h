// What a depthwise forward or input gradient takes plane by plane (algorithm `planes`) and with
// lanes along channels (`direct`): cycles of one thread, counted roughly, to choose between them.
#pragma once

#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

double PlanesCycles(const Problem& problem, const KernelTable& kernels);
double DirectCycles(const Problem& problem, const KernelTable& kernels);

}  // namespace convgrad
