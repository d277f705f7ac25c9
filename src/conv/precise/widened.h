// Sums in double of float32 and 16-bit operands: the standard algorithms of float64 on widened
// copies, some images at a time. Products are exact there, and nothing is rounded to the stored
// type before the end. Must not know how a convolution is computed.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

bool TakesWidened(const Problem& problem);  // by its type

// Precision `double`: the sum, rounded to the stored type. Filter gradients add up the sums of
// slabs of images, cut by sizes alone, with compensation.
void RunWidened(const ConvArgs& args);
// The same bits, from the algorithm "reference" of float64.
void RunWidenedReference(const ConvArgs& args);

// Precision `exact`: the same sums, and those of the operands' absolute values, S. Where every
// number that is no further away than double's rounding errors may have taken the sum rounds to one
// and the same, that is the result; else the element is summed up exactly, term by term. The bound
// is (min(K, 256) + 8) * 2^-53 * S: a term passes through the chain of its block, which has at most
// 256 (canonical_order.h); blocks and slabs are added up with compensation, for which the 8 are
// plenty.
void RunCertifiedWidened(const ConvArgs& args);

int64_t WidenedScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads,
                            Precision precision);
// "planes in float64, 64 of 128 images at a time".
std::string DescribeWidened(const Problem& problem, const KernelTable& kernels);

}  // namespace convgrad
