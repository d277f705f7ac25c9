#include "cli/case/shared_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "cli/record/tuned.h"
#include "verify/odds/odds.h"

namespace convgrad::cli {
namespace {

std::optional<Isa> ParseIsaFlag(const FlagValues& flags) {
  const std::string text = flags.Get(FlagId::kIsa, "auto");
  std::vector<std::string_view> names = {"auto"};
  for (const Isa isa : kAllIsas) names.push_back(NameOf(isa));
  const size_t choice = flags.Parse(
      FlagId::kIsa, [&](const std::string& name) { return ParseChoice(name, text, names); });
  return choice == 0 ? std::nullopt : std::optional(kAllIsas[choice - 1]);
}

int ParseThreadCount(const FlagValues& flags, const std::string& text) {
  if (text == "all") return 0;
  return static_cast<int>(flags.Parse(FlagId::kThreads, [&](const std::string& name) {
    return ParseInteger(name, text, 1, kMaxThreads);
  }));
}

double ParseOdds(const std::string& name, std::string_view text) {
  double odds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, odds);
  if (error == std::errc() && stop == end && odds >= kLeastOdds && odds < 1) return odds;
  ThrowUsage("flag/value", fmt::format("{} {}", name, text), "is no odds",
             fmt::format("give a number from {:.0e} to below 1, such as 1e-12", kLeastOdds));
}

std::optional<FloatFormat> ParseOperandRounding(const std::string& name, const std::string& text) {
  constexpr std::string_view kNames[] = {"none", "tf32", "bf16", "f16"};
  if (ParseChoice(name, text, kNames) == 0) return std::nullopt;
  return ParseAccumulator(text).format();
}

}  // namespace

std::optional<DType> ParseDTypeFlag(const FlagValues& flags) {
  const std::string* text = flags.Find(FlagId::kDtype);
  if (text == nullptr) return std::nullopt;
  return flags.Parse(FlagId::kDtype,
                     [&](const std::string& name) { return ParseFloatType(name, *text); });
}

uint64_t ParseSeed(const FlagValues& flags) {
  const std::string* text = flags.Find(FlagId::kSeed);
  if (text == nullptr) return 0;
  return static_cast<uint64_t>(flags.Parse(FlagId::kSeed, [&](const std::string& name) {
    return ParseInteger(name, *text, 0, std::numeric_limits<int64_t>::max());
  }));
}

int ParseThreads(const FlagValues& flags) {
  return ParseThreadCount(flags, flags.Get(FlagId::kThreads, "all"));
}

std::vector<int> ParseThreadCounts(const FlagValues& flags) {
  const std::string text = flags.Get(FlagId::kThreads, "all");
  std::vector<int> counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const int count = ParseThreadCount(flags, text.substr(begin, end - begin));
    if (std::find(counts.begin(), counts.end(), count) != counts.end()) {
      ThrowUsage("flag/value", "--threads " + text, "names a number twice", "name each once");
    }
    counts.push_back(count);
    begin = end + 1;
  }
  return counts;
}

Execution ParseExecution(const FlagValues& flags) {
  Execution execution;
  execution.precision = ChoiceOf(flags, FlagId::kPrecision, kAllPrecisions, execution.precision);
  execution.num_threads = ParseThreads(flags);
  execution.isa = ParseIsaFlag(flags);
  if (const std::string* name = flags.Find(FlagId::kAlgorithm)) execution.algorithm = *name;
  if (!flags.Has(FlagId::kNoTuned)) execution.tuned = KeptChoices();
  if (const std::string* size = flags.Find(FlagId::kMaxMemory)) {
    execution.max_memory_bytes = flags.Parse(
        FlagId::kMaxMemory, [&](const std::string& name) { return ParseMemory(name, *size); });
  }
  return execution;
}

FilterFormat ParseFilterFormat(const FlagValues& flags) {
  return ChoiceOf(flags, FlagId::kFilterFormat, kAllFilterFormats, FilterFormat::kHWIO);
}

NpyWriteOptions ParseWriteOptions(const FlagValues& flags) {
  constexpr std::string_view kNames[] = {"V2", "u2", "f4"};
  constexpr BFloat16Form kForms[] = {BFloat16Form::kV2, BFloat16Form::kU2, BFloat16Form::kF4};
  NpyWriteOptions options;
  options.bfloat16_as = kForms[flags.Parse(FlagId::kBFloat16As, [&](const std::string& name) {
    return ParseChoice(name, flags.Get(FlagId::kBFloat16As, "V2"), kNames);
  })];
  options.no_clobber = flags.Has(FlagId::kNoClobber);
  return options;
}

CompareOptions ParseCompareOptions(const FlagValues& flags) {
  CompareOptions options;
  options.tolerance = flags.Parse(FlagId::kTolerance, [&](const std::string&) {
    return ParseTolerance(flags.Get(FlagId::kTolerance, "auto"));
  });
  if (const std::string* text = flags.Find(FlagId::kGoldenAccumulator)) {
    options.golden_accumulator = flags.Parse(
        FlagId::kGoldenAccumulator, [&](const std::string&) { return ParseAccumulator(*text); });
  }
  if (const std::string* text = flags.Find(FlagId::kOperandRounding)) {
    options.operand_rounding = flags.Parse(FlagId::kOperandRounding, [&](const std::string& name) {
      return ParseOperandRounding(name, *text);
    });
  }
  if (const std::string* text = flags.Find(FlagId::kOdds)) {
    options.odds =
        flags.Parse(FlagId::kOdds, [&](const std::string& name) { return ParseOdds(name, *text); });
  }
  options.keep_errors = flags.Has(FlagId::kErrorMap);
  return options;
}

void CheckSumsFit(const CompareOptions& options, DType dtype) {
  const char* const type = InfoOf(dtype).name;
  if (options.operand_rounding && dtype != DType::kFloat32) {
    ThrowUsage("accumulator/unfit",
               fmt::format("operands rounded to {}", options.operand_rounding->name),
               fmt::format("they are {}, not float32", type), "leave --operand-rounding out");
  }
  if (!options.golden_accumulator) return;
  const Accumulator accumulator = *options.golden_accumulator;
  const bool is_other_half = InfoOf(accumulator.dtype).bytes == 2 && InfoOf(dtype).bytes == 2 &&
                             accumulator.dtype != dtype;
  const bool is_fit = !is_other_half && (!accumulator.is_tf32 || dtype == DType::kFloat32);
  if (is_fit) return;
  ThrowUsage("accumulator/unfit", fmt::format("sums in {}", accumulator.format().name),
             fmt::format("no kernel sums products of {} in it", type),
             "give what it does sum in, or leave --golden-accumulator out");
}

}  // namespace convgrad::cli
