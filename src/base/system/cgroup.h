// The limits of this process's control groups, of either version of their interface and of both at
// once. Must not know of any other limit.
#pragma once

#include <cstdint>
#include <string>

namespace convgrad {

// Where the system tells of them.
struct CgroupFiles {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

// CPUs' time that the narrowest quota allows, rounded up; the largest number without one.
int CgroupCpus(const CgroupFiles& files = {});

// Bytes that the narrowest group leaves; the largest number without a limit.
int64_t CgroupMemory(const CgroupFiles& files = {});

}  // namespace convgrad
