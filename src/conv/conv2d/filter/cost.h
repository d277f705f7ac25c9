// Rough counts of the cycles that the forms of a filter gradient take, by which one is chosen.
// Knows sizes of problem and tiles; plans nothing.
#pragma once

#include "conv/conv2d/filter/cut.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Whether a form is counted to take less than its siblings, for a problem with terms.
bool FormWins(FilterForm form, const Problem& problem, const KernelTable& kernels);

template <FilterForm kForm>
bool FormWins(const Problem& problem, const KernelTable& kernels) {
  return FormWins(kForm, problem, kernels);
}

// Whether these are counted to take less than others, of problems that they can do.
bool BlockLanesWin(const Problem& problem, const KernelTable& kernels);
bool TapRowsWin(const Problem& problem, const KernelTable& kernels);

}  // namespace convgrad
