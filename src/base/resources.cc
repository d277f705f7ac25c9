#include "base/resources.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "base/memory.h"
#include "base/system/cgroup.h"
#include "base/system/system_files.h"

namespace convgrad {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

}  // namespace

int UsableCpus() {
  cpu_set_t set;
  int cpus = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  return std::max(1, std::min(cpus, CgroupCpus()));
}

int ThreadsOrAll(int num_threads) {
  return num_threads > 0 ? num_threads : UsableCpus();
}

int64_t AvailableAddressSpace() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const int64_t pages = ReadNumber("/proc/self/statm").value_or(0);
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE));
}

int64_t AvailableMemory() {
  const int64_t available =
      std::min({AvailableAddressSpace(), CgroupMemory(),
                ReadField("/proc/meminfo", "MemAvailable:", 1024).value_or(kUnlimited)});
  // Memory that freed blocks hold is there for the next ones.
  return available > kUnlimited / 2 ? available : available + KeptMemoryBytes();
}

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string FormatExactBytes(int64_t bytes) {
  return bytes < 1024 ? fmt::format("{} bytes", bytes)
                      : fmt::format("{} bytes ({})", bytes, FormatBytes(bytes));
}

}  // namespace convgrad
