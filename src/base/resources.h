// The part of the machine that this process may use: CPUs and memory, container limits included.
#pragma once

#include <cstdint>
#include <string>

namespace convgrad {

// The CPUs this process may use: affinity and cgroup quota, at least 1.
int UsableCpus();
// `num_threads`, or for 0 one for each of them.
int ThreadsOrAll(int num_threads);

// Bytes that RLIMIT_AS leaves; the largest number without such a limit.
int64_t AvailableAddressSpace();

// Bytes this process may still allocate: the least of what the machine, each enclosing cgroup and
// RLIMIT_AS leave.
int64_t AvailableMemory();

// Amounts of memory for people: "8.0 GiB", "640 B".
std::string FormatBytes(int64_t bytes);
// Two that are compared may look alike so: "8589934593 bytes (8.0 GiB)".
std::string FormatExactBytes(int64_t bytes);

}  // namespace convgrad
