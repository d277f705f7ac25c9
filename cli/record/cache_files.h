// Where this program keeps what it measured of the machine, and how such files are told apart.
#pragma once

#include <string>

#include "cli/record/machine.h"
#include "kernels/kernel_table.h"

namespace convgrad::cli {

// In $XDG_CACHE_HOME or ~/.cache. Empty where there is no place for it. A relative $XDG_CACHE_HOME
// counts as none, as its specification says.
std::string CacheFolder();

// The processor, its CPUs that may be used, its caches, the instruction set and number of threads.
std::string MachineKey(const Machine& machine, Isa isa, int num_threads);

// A name for a file; the key inside the file decides.
std::string CacheFileName(const std::string& kind, const std::string& key);

}  // namespace convgrad::cli
