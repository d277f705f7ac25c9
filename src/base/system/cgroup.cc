#include "base/system/cgroup.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/system/system_files.h"

namespace convgrad {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// How a version calls what limits memory. Page cache of a group can be reclaimed: it is not counted
// as taken.
struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* cache;  // a line of memory.stat, of the group and those inside it
};
constexpr MemoryFiles kMemory1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr MemoryFiles kMemory2 = {"/memory.max", "/memory.current", "inactive_file"};

// The folder of the group `path` under `root` and of those around it. Inside a container the own
// path may not exist; `root` then is the container's.
std::vector<std::string> FoldersAround(const std::string& root, std::string path) {
  std::vector<std::string> folders;
  for (; path.size() > 1; path.resize(path.rfind('/'))) folders.push_back(root + path);
  folders.push_back(root);
  return folders;
}

bool HasWord(const std::string& list, std::string_view wanted) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == wanted) return true;
  }
  return false;
}

// A line of the membership file: "4:cpu,cpuacct:/path", of version 2 "0::/path".
struct Membership {
  std::string controllers, path;
};

std::vector<Membership> ReadMemberships(const std::string& file_name) {
  std::vector<Membership> memberships;
  std::ifstream file(file_name);
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find(':') + 1, end = line.find(":/", begin);
    if (begin == 0 || end == std::string::npos) continue;
    memberships.push_back({line.substr(begin, end - begin), line.substr(end + 1)});
  }
  return memberships;
}

std::vector<std::string> Folders2(const CgroupFiles& files) {
  std::string path = "/";
  for (const Membership& one : ReadMemberships(files.membership)) {
    if (one.controllers.empty()) path = one.path;
  }
  return FoldersAround(files.root, path);
}

// Each controller has a tree of its own, called by its name or by those of all that share it.
std::vector<std::string> Folders1(const CgroupFiles& files, std::string_view controller) {
  std::vector<std::string> folders;
  for (const Membership& one : ReadMemberships(files.membership)) {
    if (!HasWord(one.controllers, controller)) continue;
    for (const std::string& name : {std::string(controller), one.controllers}) {
      const auto around = FoldersAround(files.root + "/" + name, one.path);
      folders.insert(folders.end(), around.begin(), around.end());
    }
  }
  return folders;
}

int QuotaCpus(double quota, double period) {
  if (!(quota > 0 && period > 0)) return std::numeric_limits<int>::max();
  return std::max(1, static_cast<int>(std::min(std::ceil(quota / period), 1e9)));
}

// "max 100000" or "150000 100000".
int QuotaCpus2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  file >> quota >> period;
  return file ? QuotaCpus(quota, period) : std::numeric_limits<int>::max();
}

// A quota of -1 is none.
int QuotaCpus1(const std::string& folder) {
  return QuotaCpus(static_cast<double>(ReadNumber(folder + "/cpu.cfs_quota_us").value_or(-1)),
                   static_cast<double>(ReadNumber(folder + "/cpu.cfs_period_us").value_or(0)));
}

int64_t MemoryLeft(const std::string& folder, const MemoryFiles& names) {
  const std::optional<int64_t> limit = ReadNumber(folder + names.limit);
  const std::optional<int64_t> used = ReadNumber(folder + names.used);
  if (!limit || !used) return kUnlimited;
  const int64_t cache = ReadField(folder + "/memory.stat", names.cache, 1).value_or(0);
  const int64_t taken = std::max<int64_t>(0, *used - cache);
  return std::max<int64_t>(0, *limit - taken);
}

}  // namespace

int CgroupCpus(const CgroupFiles& files) {
  int cpus = std::numeric_limits<int>::max();
  for (const auto& folder : Folders2(files)) cpus = std::min(cpus, QuotaCpus2(folder));
  for (const auto& folder : Folders1(files, "cpu")) cpus = std::min(cpus, QuotaCpus1(folder));
  return cpus;
}

int64_t CgroupMemory(const CgroupFiles& files) {
  int64_t left = kUnlimited;
  for (const auto& folder : Folders2(files)) left = std::min(left, MemoryLeft(folder, kMemory2));
  for (const auto& folder : Folders1(files, "memory")) {
    left = std::min(left, MemoryLeft(folder, kMemory1));
  }
  return left;
}

}  // namespace convgrad
