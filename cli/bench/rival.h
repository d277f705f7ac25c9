// Another binary of this program against this one, the same case run by both in turn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/report/report.h"
#include "measure/sampler.h"

namespace convgrad::cli {

// The words of a command that benchmarks one case with `binary`, the first of them, for at most
// `seconds` and writes the report to standard output.
using BenchCommand =
    std::function<std::vector<std::string>(const std::string& binary, double seconds)>;

// Runs this program and `binary` in turn, A B B A, each time in a process of its own: neither
// profits from what ran before it, and each pair has new luck with where memory lies. At least
// kLeastSamples pairs; more until the interval of the median ratio is as narrow as `tolerance`, or
// time is up. Throws I/O "baseline-bin/failed" for a binary that does not run or
// does not report.
ComparisonRecord CompareWithBinary(const std::string& binary, const BenchCommand& command,
                                   const SamplingOptions& sampling, double tolerance);

}  // namespace convgrad::cli
