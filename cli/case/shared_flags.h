// Values of flags that several commands take, of a case or not. Throws usage errors that name the
// flag, and its place in a manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/flag_values.h"
#include "cli/text/values.h"
#include "conv/compute.h"
#include "problem/filter_format.h"
#include "tensor/npy.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

// The largest --threads: beyond it only the cost of threads grows.
inline constexpr int64_t kMaxThreads = 4096;

std::optional<DType> ParseDTypeFlag(const FlagValues& flags);
uint64_t ParseSeed(const FlagValues& flags);
// --threads, --isa, --algorithm, --precision, --no-tuned and --max-memory.
Execution ParseExecution(const FlagValues& flags);
// 0 for all.
int ParseThreads(const FlagValues& flags);
// The flag of a command that takes several; each once.
std::vector<int> ParseThreadCounts(const FlagValues& flags);
// Default HWIO.
FilterFormat ParseFilterFormat(const FlagValues& flags);
// --bfloat16-as and --no-clobber.
NpyWriteOptions ParseWriteOptions(const FlagValues& flags);
// --tolerance, --golden-accumulator, --operand-rounding, --odds and --error-map.
CompareOptions ParseCompareOptions(const FlagValues& flags);
// Throws usage "accumulator/unfit" for sums or roundings that data of this type can't have.
void CheckSumsFit(const CompareOptions& options, DType dtype);

// The row of `choices` that the flag names, or `otherwise` without the flag.
template <class Value, size_t count>
Value ChoiceOf(const FlagValues& flags, FlagId id, const Value (&values)[count], Value otherwise) {
  const std::string* text = flags.Find(id);
  if (text == nullptr) return otherwise;
  std::vector<std::string_view> names;
  for (const Value& value : values) names.push_back(NameOf(value));
  return values[flags.Parse(
      id, [&](const std::string& name) { return ParseChoice(name, *text, names); })];
}

}  // namespace convgrad::cli
