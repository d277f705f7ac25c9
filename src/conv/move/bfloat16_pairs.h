// Operands as pairs of bfloat16 numbers, for processors that multiply and add two at a time: when
// that is exact, and how source and filter of a forward convolution or an input gradient are
// packed. Those of a filter gradient are its operands' business (grid_columns.h).
#pragma once

#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "conv/axes/tap_sum.h"
#include "conv/move/filter_panel.h"
#include "conv/move/staging.h"
#include "conv/plan/plan.h"
#include "kernels/pack/pack_pairs.h"

namespace convgrad {

// True if the canonical order of `problem` takes terms in pairs, there are some, and the processor
// is quicker by them.
bool ServesPairs(const Problem& problem, const KernelTable& kernels);

// The instruction takes subnormal numbers for zero, operands and sums alike. It gives the bits of
// the canonical order when there can't be any: no operand is subnormal, and every product, hence
// every sum of products, is a multiple of the least normal number. (A number of exponent e is a
// multiple of 2^(e-7), a product of 2^(e+f-14).) Nor may a number or a block's sum be infinite:
// what is added up in pairs is never NaN, nor -0, and the kernels don't look for them. (A product
// is below 2^(e+f+2), a block's sum below 2^(e+f+10).)
bool PairsAreExact(const ConvArgs& args);

// LoadSlab for pairs of the group_c channels of each group; `shape` and `to` count pairs.
void LoadSlabPairs(const Parallel& parallel, const PackPairKernels& kernels, const DataShape& shape,
                   int64_t group_c, const Slab& slab, const BFloat16* tensor,
                   const CopiedPixels<BFloat16Pair>& to);

// PackFilter for pairs of source channels; `sum` and `phases` count pairs.
void PackFilterPairs(const PackPairKernels& kernels, const Problem& problem, const TapSum& sum,
                     const std::vector<TapPhase>& phases, const BFloat16* filter,
                     const FilterPanel& panel, const Range& terms, BFloat16Pair* to);

// The one or the other, as the elements are.
template <class Stored, class Element>
void PackPanel(const ConvArgs& args, const TapSum& sum, const std::vector<TapPhase>& phases,
               const FilterPanel& panel, const Range& terms, Element* to) {
  const auto* filter = static_cast<const Stored*>(args.filter);
  if constexpr (std::is_same_v<Element, BFloat16Pair>) {
    PackFilterPairs(args.kernels.pack_bf16_pairs, args.problem, sum, phases, filter, panel, terms,
                    to);
  } else {
    PackFilter(args.kernels.Pack<Stored>(), sum, phases, filter, panel, terms, to);
  }
}

}  // namespace convgrad
