#include "cli/bench/peaks_cache.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/output_file.h"
#include "cli/record/machine.h"
#include "cli/report/peaks_json.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr const char* kSchema = "convgrad-peaks/1";
constexpr std::uintmax_t kMaxFileBytes = 1 << 16;

std::string Environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Empty where there is no place for it. A relative $XDG_CACHE_HOME counts as none, as its
// specification says.
std::string CacheFolder() {
  const std::string xdg = Environment("XDG_CACHE_HOME");
  if (xdg.starts_with('/')) return xdg + "/convgrad";
  const std::string home = Environment("HOME");
  return home.starts_with('/') ? home + "/.cache/convgrad" : "";
}

// Everything that the peaks depend on.
std::string KeyOf(const Machine& machine, Isa isa, int num_threads) {
  std::string key =
      fmt::format("{}; {} CPUs; {}; {} threads; version {} {}", machine.cpu_model, machine.num_cpus,
                  NameOf(isa), num_threads, kBuild.version, kBuild.compiler);
  for (const Cache& cache : machine.caches) {
    key += fmt::format("; L{} {} {}/{}", cache.level, cache.type, cache.bytes, cache.num_sharing);
  }
  return key;
}

// FNV-1a, 64 bits: a name for a file; the key inside the file decides.
std::string FileNameOf(const std::string& key) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : key) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return fmt::format("peaks-{:016x}.json", hash);
}

std::optional<Peaks> ReadPeaks(const std::string& path, const std::string& key) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // none for anything but a file
  if (error || size > kMaxFileBytes) return std::nullopt;
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Json json = TryParseJson(text);
  try {
    if (json.at("schema") != kSchema || json.at("key") != key) return std::nullopt;
    return PeaksFromJson(json.at("peaks"));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void WritePeaks(const std::string& folder, const std::string& path, const std::string& key,
                const Peaks& peaks) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // the writing will say what is wrong
  const Json json = {{"schema", kSchema}, {"key", key}, {"peaks", PeaksToJson(peaks)}};
  WriteTextFile(path, DumpJson(json, 1));
}

std::vector<CacheSize> DataCachesOf(const Machine& machine) {
  std::vector<CacheSize> sizes;
  for (const Cache& cache : machine.caches) {
    if (cache.type != "Instruction") {
      sizes.push_back({cache.level, cache.bytes, cache.num_sharing});
    }
  }
  return sizes;
}

}  // namespace

std::vector<CacheSize> DataCaches() {
  return DataCachesOf(DescribeMachine());
}

Peaks GetPeaks(const KernelTable& kernels, const Parallel& parallel, bool measures_anew,
               const Console& console) {
  const Machine machine = DescribeMachine();
  const std::string key = KeyOf(machine, kernels.isa, parallel.num_threads());
  const std::string folder = CacheFolder();
  const std::string path = folder + "/" + FileNameOf(key);
  if (!folder.empty() && !measures_anew) {
    if (const auto peaks = ReadPeaks(path, key)) {
      console.Detail("peaks: from " + path);
      return *peaks;
    }
  }
  const Progress progress(console, "measuring the machine's peaks");
  const Peaks peaks = MeasurePeaks(kernels, parallel, DataCachesOf(machine));
  if (folder.empty()) return peaks;
  try {
    WritePeaks(folder, path, key, peaks);
    console.Detail("peaks: measured, kept in " + path);
  } catch (const Error& error) {
    console.Detail("peaks: measured, not kept: " + error.message());
  }
  return peaks;
}

}  // namespace convgrad::cli
