#include "cli/record/cache_files.h"

#include <fmt/format.h>

#include <cstdint>

#include "cli/text/environment.h"

namespace convgrad::cli {

std::string CacheFolder() {
  const std::string xdg = Variable("XDG_CACHE_HOME");
  if (xdg.starts_with('/')) return xdg + "/convgrad";
  const std::string home = Variable("HOME");
  return home.starts_with('/') ? home + "/.cache/convgrad" : "";
}

std::string MachineKey(const Machine& machine, Isa isa, int num_threads) {
  std::string key = fmt::format("{}; {} CPUs, {} of {} usable; {}; {} threads", machine.cpu_model,
                                machine.num_cpus, machine.usable_cpus, machine.allowed_cpus,
                                NameOf(isa), num_threads);
  for (const Cache& cache : machine.caches) {
    key += fmt::format("; L{} {} {}/{}", cache.level, cache.type, cache.bytes, cache.num_sharing);
  }
  return key;
}

std::string CacheFileName(const std::string& kind, const std::string& key) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, 64 bits
  for (const char letter : key) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return fmt::format("{}-{:016x}.json", kind, hash);
}

}  // namespace convgrad::cli
