#include "cli/bench/peaks_cache.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/output_file.h"
#include "cli/record/cache_files.h"
#include "cli/record/machine.h"
#include "cli/report/peaks_json.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr const char* kSchema = "convgrad-peaks/2";
constexpr std::uintmax_t kMaxFileBytes = 1 << 16;
// Other work that disturbed a measurement is likely to last: it is not taken again at once.
constexpr std::chrono::minutes kPatience{10};

// Everything that the peaks depend on.
std::string KeyOf(const Machine& machine, Isa isa, int num_threads) {
  return fmt::format("{}; version {} {}", MachineKey(machine, isa, num_threads), kBuild.version,
                     kBuild.compiler);
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
    Peaks peaks = PeaksFromJson(json.at("peaks"));
    peaks.settled = json.at("settled").get<bool>();
    return peaks;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void WritePeaks(const std::string& folder, const std::string& path, const std::string& key,
                const Peaks& peaks) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // the writing will say what is wrong
  const Json json = {
      {"schema", kSchema}, {"key", key}, {"settled", peaks.settled}, {"peaks", PeaksToJson(peaks)}};
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

// The file of one machine, instruction set and number of threads.
class PeaksFile {
 public:
  PeaksFile(const KernelTable& kernels, const Parallel& parallel, const Console& console)
      : kernels_(kernels),
        parallel_(parallel),
        console_(console),
        machine_(DescribeMachine()),
        key_(KeyOf(machine_, kernels.isa, parallel.num_threads())),
        folder_(CacheFolder()),
        path_(folder_ + "/" + CacheFileName("peaks", key_)) {}

  const std::string& path() const { return path_; }
  std::optional<Peaks> Read() const {
    return folder_.empty() ? std::nullopt : ReadPeaks(path_, key_);
  }

  // Says whether it is too soon to take a disturbed measurement again.
  bool IsRecent() const {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(path_, error);
    return !error && std::filesystem::file_time_type::clock::now() - written < kPatience;
  }

  // The best of now and of `earlier`.
  Peaks Measure(const Peaks* earlier) const {
    const Progress progress(console_, "measuring the machine's peaks");
    return MeasurePeaks(kernels_, parallel_, DataCachesOf(machine_), earlier);
  }

  void Keep(const Peaks& peaks) const {
    if (folder_.empty()) return;
    const char* but = peaks.confirmed ? "" : ", but disturbed";
    try {
      WritePeaks(folder_, path_, key_, peaks);
      console_.Detail(fmt::format("peaks: measured{}, kept in {}", but, path_));
    } catch (const Error& error) {
      console_.Detail(fmt::format("peaks: measured{}, not kept: {}", but, error.message()));
    }
  }

 private:
  const KernelTable& kernels_;
  const Parallel& parallel_;
  const Console& console_;
  const Machine machine_;
  const std::string key_, folder_, path_;
};

}  // namespace

std::vector<CacheSize> DataCaches() {
  return DataCachesOf(DescribeMachine());
}

Peaks GetPeaks(const KernelTable& kernels, const Parallel& parallel, bool measures_anew,
               const Console& console) {
  const PeaksFile file(kernels, parallel, console);
  const std::optional<Peaks> earlier = measures_anew ? std::nullopt : file.Read();
  if (earlier && (earlier->confirmed || file.IsRecent())) {
    console.Detail("peaks: from " + file.path());
    return *earlier;
  }
  Peaks peaks = file.Measure(earlier ? &*earlier : nullptr);
  file.Keep(peaks);
  return peaks;
}

Peaks RecheckPeaks(const KernelTable& kernels, const Parallel& parallel, const Peaks& contradicted,
                   const Console& console) {
  if (contradicted.settled) return contradicted;
  const PeaksFile file(kernels, parallel, console);
  Peaks peaks = file.Measure(&contradicted);
  peaks.settled = peaks.confirmed && AreNear(peaks, contradicted);
  file.Keep(peaks);
  peaks.settled = true;  // once is enough for this process
  return peaks;
}

}  // namespace convgrad::cli
