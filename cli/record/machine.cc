#include "cli/record/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/resources.h"

namespace convgrad::cli {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of the first line "key : value"; Arm's kernels name the model by parts we don't decode.
std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// "32K", "1024K", "2M".
int64_t CacheBytes(const std::string& text) {
  const int64_t number = std::atoll(text.c_str());
  switch (text.empty() ? ' ' : text.back()) {
    case 'K': return number << 10;
    case 'M': return number << 20;
    default: return number;
  }
}

// CPUs of a list like "0-3,8-11".
int CountCpus(const std::string& list) {
  int count = 0;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string range = list.substr(begin, end - begin);
    const size_t dash = range.find('-');
    const int first = std::atoi(range.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(range.c_str() + dash + 1);
    count += last - first + 1;
    begin = end + 1;
  }
  return count;
}

// "0-3,8-11"; empty where the system does not say.
std::string AllowedCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return "";
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const int first = cpu;
    while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, &set)) ++cpu;
    list += (list.empty() ? "" : ",") + std::to_string(first);
    if (cpu > first) list += "-" + std::to_string(cpu);
  }
  return list;
}

std::vector<Cache> Caches() {
  std::vector<Cache> caches;
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int i = 0;; ++i) {
    const std::string index = folder + std::to_string(i);
    const std::string type = FirstLine(index + "/type");
    if (type.empty()) return caches;
    caches.push_back({type, std::atoi(FirstLine(index + "/level").c_str()),
                      CacheBytes(FirstLine(index + "/size")),
                      CountCpus(FirstLine(index + "/shared_cpu_list"))});
  }
}

}  // namespace

Machine DescribeMachine() {
  Machine machine;
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) == 0) machine.host = host.data();
  machine.cpu_model = CpuModel();
  machine.num_cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.usable_cpus = UsableCpus();
  machine.allowed_cpus = AllowedCpus();
  struct sysinfo info = {};
  if (sysinfo(&info) == 0)
    machine.memory_bytes = static_cast<int64_t>(info.totalram) * info.mem_unit;
  machine.available_memory_bytes = AvailableMemory();
  machine.caches = Caches();
  std::array<double, 3> load = {};
  const int loads = getloadavg(load.data(), static_cast<int>(load.size()));
  if (loads > 0) machine.load.assign(load.begin(), load.begin() + loads);
  return machine;
}

std::string CurrentDate() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  std::array<char, 40> text = {};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &local);
  std::string date = text.data();
  return date.size() > 2 ? date.insert(date.size() - 2, ":") : date;
}

std::string CurrentFolder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  return error ? "" : folder.string();
}

int64_t PeakResidentBytes() {
  rusage usage = {};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace convgrad::cli
