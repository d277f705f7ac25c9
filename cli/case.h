// One case as the user described it: operation, attributes, where operands come from, and how to
// run it. Checked word by word; whether the parts fit together is MakeProblem's business.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/arguments.h"
#include "conv/compute.h"
#include "conv/geometry.h"

namespace convgrad::cli {

// The largest --threads: beyond it only the cost of threads grows.
inline constexpr int64_t kMaxThreads = 4096;

struct CaseSpec {
  ConvSpec conv;  // op and attributes; types and shapes follow from the operands
  std::optional<DType> dtype;
  // A path, "-" or fill:SPEC for each of InfoOf(op).operands.
  std::array<std::string, 2> operands;
  std::string sizes;  // inline or a path; empty for an op without
  uint64_t seed = 0;
  bool allow_trailing = false;
  std::optional<bool> use_cudnn_on_gpu;
  std::string name;  // empty: the problem's own line
  Execution execution;
};

// Throws usage errors that name the flag.
CaseSpec ParseCase(const Arguments& arguments);

// Values of flags that several commands take.
std::optional<DType> ParseDTypeFlag(const Arguments& arguments);
uint64_t ParseSeed(const Arguments& arguments);
// 0 for all.
int ParseThreads(const Arguments& arguments);

// "--out-backprop".
std::string FlagOf(Role role);

}  // namespace convgrad::cli
