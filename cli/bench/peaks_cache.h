// The machine's measured peaks from one run to the next: a small file for each processor, set of
// its CPUs that may be used, instruction set and number of threads. A cache: whatever is wrong with
// it, the peaks are measured.
#pragma once

#include <vector>

#include "cli/console/console.h"
#include "measure/peaks.h"

namespace convgrad::cli {

// Data caches of this machine.
std::vector<CacheSize> DataCaches();

// From $XDG_CACHE_HOME/convgrad or ~/.cache/convgrad; measured, and left there, if they are not
// there yet, or `measures_anew`, or have not been confirmed for some minutes.
Peaks GetPeaks(const KernelTable& kernels, const Parallel& parallel, bool measures_anew,
               const Console& console);

// Those that `contradicted` become when something was faster than they allow: measured again, and
// left in the cache. Settled ones stay what they are.
Peaks RecheckPeaks(const KernelTable& kernels, const Parallel& parallel, const Peaks& contradicted,
                   const Console& console);

}  // namespace convgrad::cli
