// The flags of `bench` as values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/arguments.h"
#include "measure/sampler.h"

namespace convgrad::cli {

struct BenchOptions {
  std::vector<int> threads;        // each case is timed with each of these; 0: all
  bool threads_are_given = false;  // else a manifest's case may say
  bool cold = false;               // caches are emptied before every sample
  SamplingOptions sampling;
  double tolerance = 0.05;                  // for every verdict
  std::optional<std::string> baseline;      // a report
  std::optional<std::string> baseline_bin;  // a binary
  bool measures_peaks_anew = false;
  bool hashes = true;
};

// Throws usage errors.
BenchOptions ParseBenchOptions(const Arguments& arguments);

}  // namespace convgrad::cli
