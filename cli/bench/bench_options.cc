#include "cli/bench/bench_options.h"

#include <string_view>

#include "base/error.h"
#include "cli/case/shared_flags.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

constexpr double kMaxSeconds = 86400;

double PartOf(const Arguments& arguments, FlagId id, double otherwise, double low, double high) {
  const std::string* text = arguments.Find(id);
  return text == nullptr ? otherwise : ParsePercent(Spell(InfoOf(id)), *text, low, high);
}

bool ParseCold(const Arguments& arguments) {
  constexpr std::string_view kCaches[] = {"hot", "cold"};
  return ParseChoice("--cache", arguments.Get(FlagId::kCache, "hot"), kCaches) == 1;
}

void CheckRegress(const Arguments& arguments) {
  if (!arguments.Has(FlagId::kRegress) || arguments.Has(FlagId::kBaseline) ||
      arguments.Has(FlagId::kBaselineBin)) {
    return;
  }
  ThrowUsage("flag/no-effect", "--regress", "has no effect without something to compare with",
             "give --baseline or --baseline-bin");
}

}  // namespace

BenchOptions ParseBenchOptions(const Arguments& arguments) {
  CheckRegress(arguments);
  BenchOptions options;
  options.threads = ParseThreadCounts(arguments.flags());
  options.threads_are_given = arguments.Has(FlagId::kThreads);
  options.cold = ParseCold(arguments);
  options.sampling.repeat_short = !options.cold;
  options.sampling.target_width = PartOf(arguments, FlagId::kCi, 0.02, 1e-4, 1);
  if (const std::string* text = arguments.Find(FlagId::kMaxTime)) {
    options.sampling.max_seconds = ParseSeconds("--max-time", *text, 1e-3, kMaxSeconds);
  }
  // A short time must leave some of it to samples.
  options.sampling.min_seconds =
      std::min(options.sampling.min_seconds, options.sampling.max_seconds / 4);
  if (const std::string* text = arguments.Find(FlagId::kMinSamples)) {
    options.sampling.min_samples = ParseInteger("--min-samples", *text, 1, 1000000);
  }
  options.tolerance = PartOf(arguments, FlagId::kRegress, 0.05, 0, 10);
  if (const std::string* path = arguments.Find(FlagId::kBaseline)) options.baseline = *path;
  if (const std::string* path = arguments.Find(FlagId::kBaselineBin)) options.baseline_bin = *path;
  options.measures_peaks_anew = arguments.Has(FlagId::kRemeasure);
  options.hashes = arguments.Has(FlagId::kReport) && !arguments.Has(FlagId::kNoHash);
  return options;
}

}  // namespace convgrad::cli
