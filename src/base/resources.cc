#include "base/resources.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"

namespace convgrad {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Folders of this process's cgroup (version 2) and of those around it, innermost first. Inside a
// container the own path may not exist; the root then is the container's.
std::vector<std::string> CgroupFolders() {
  std::vector<std::string> folders;
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/'))) {
      folders.push_back("/sys/fs/cgroup" + path);
    }
  }
  folders.push_back("/sys/fs/cgroup");
  return folders;
}

// The number in a one-number file; nothing for "max" or no such file.
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number;
  if (file >> number) return number;
  return std::nullopt;
}

// The value in bytes of a line "KEY: 123 kB" or "KEY 123" of a /proc or cgroup file.
std::optional<int64_t> ReadField(const std::string& path, const std::string& key, int64_t unit) {
  std::ifstream file(path);
  std::string name;
  int64_t value;
  while (file >> name >> value) {
    if (name == key) return value * unit;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// CPUs of a quota file "max 100000" or "150000 100000", rounded up.
int QuotaCpus(const std::string& folder) {
  std::ifstream quota(folder + "/cpu.max");
  double limit = 0, period = 0;
  if (!(quota >> limit >> period) || period <= 0) return std::numeric_limits<int>::max();
  return std::max(1, static_cast<int>(std::ceil(limit / period)));
}

// Page cache of a group can be reclaimed and is not counted as taken.
int64_t CgroupMemory(const std::string& folder) {
  const std::optional<int64_t> limit = ReadNumber(folder + "/memory.max");
  const std::optional<int64_t> used = ReadNumber(folder + "/memory.current");
  if (!limit || !used) return kUnlimited;
  const int64_t cache = ReadField(folder + "/memory.stat", "inactive_file", 1).value_or(0);
  return std::max<int64_t>(0, *limit - *used + cache);
}

}  // namespace

int UsableCpus() {
  cpu_set_t set;
  int cpus = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  for (const std::string& folder : CgroupFolders()) cpus = std::min(cpus, QuotaCpus(folder));
  return std::max(1, cpus);
}

int64_t AvailableAddressSpace() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const int64_t pages = ReadNumber("/proc/self/statm").value_or(0);
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE));
}

int64_t AvailableMemory() {
  int64_t available =
      std::min(AvailableAddressSpace(),
               ReadField("/proc/meminfo", "MemAvailable:", 1024).value_or(kUnlimited));
  for (const std::string& folder : CgroupFolders()) {
    available = std::min(available, CgroupMemory(folder));
  }
  // What freed blocks hold is there for the next ones.
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
