// The table of flags: each is declared once, and parsing, help, the manual page and repro lines
// follow from it. Must not know what a flag does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace convgrad::cli {

enum class CommandId {
  kRun,
  kCheck,
  kDiff,
  kPlan,
  kGen,
  kInspect,
  kBatch,
  kMerge,
  kReduce,
  kReport,
  kAccept,
  kPrune,
  kBench,
  kImport,
  kExport,
  kReplay,
  kTune,
  kInfo,
  kHelp
};

// A set of commands, one bit each.
using CommandSet = uint32_t;
constexpr CommandSet Only(CommandId id) {
  return CommandSet{1} << static_cast<int>(id);
}
constexpr bool Contains(CommandSet set, CommandId id) {
  return (set & Only(id)) != 0;
}

// In the order of the table.
enum class FlagId {
  kInput,
  kFilter,
  kOutBackprop,
  kFilterSizes,
  kInputSizes,
  kStrides,
  kDilations,
  kPadding,
  kExplicitPaddings,
  kDataFormat,
  kFilterFormat,
  kGroups,
  kUseCudnnOnGpu,
  kName,
  kDtype,
  kSeed,
  kFill,
  kShape,
  kRole,
  kAllowTrailing,
  kOutput,
  kNoClobber,
  kBFloat16As,
  kThreads,
  kIsa,
  kAlgorithm,
  kNoTuned,
  kPrecision,
  kMaxMemory,
  kImages,
  kFirstImage,
  kPartial,
  kActual,
  kActualParts,
  kExpect,
  kTolerance,
  kGoldenAccumulator,
  kOperandRounding,
  kOdds,
  kProbe,
  kInvariance,
  kAllowSuspect,
  kShards,
  kShard,
  kSplitImages,
  kDialect,
  kCheckAll,
  kMatch,
  kTag,
  kList,
  kDelete,
  kLint,
  kAllowEmpty,
  kAllowMissing,
  kJobs,
  kRequireGolden,
  kFailFast,
  kTimeout,
  kIsolate,
  kOutputRoot,
  kAllowOutside,
  kEvents,
  kResume,
  kRecord,
  kHashOnly,
  kForceRecord,
  kAllowNonFinite,
  kReason,
  kWritePending,
  kCache,
  kMaxTime,
  kMinSamples,
  kCi,
  kBaseline,
  kBaselineBin,
  kRegress,
  kRemeasure,
  kSeconds,
  kForget,
  kReport,
  kErrorMap,
  kJunit,
  kSummary,
  kHtml,
  kCsv,
  kMarkdown,
  kNoHash,
  kJson,
  kFormat,
  kQuiet,
  kVerbose,
  kColor,
  kHelp,
  kVersion,
};

enum class FlagGroup {
  kOperands,
  kData,
  kOutput,
  kExecution,
  kParts,
  kChecking,
  kManifest,
  kTiming,
  kReporting
};

// The values that a flag takes, on the command line and, as JSON, in a manifest.
enum class FlagKind {
  kSwitch,    // nothing; true or false
  kText,      // a string
  kBoolean,   // true or false
  kInteger,   // a whole number
  kIntegers,  // 1,2,2,1; an array of whole numbers or of pairs of them, or one of them
  kPadding,   // SAME, or as kIntegers; likewise
  kAmount,    // a number with words around it ("all", "8GiB"); a string or a whole number
  kOperand,   // a path, "-" or fill:SPEC; a path or an object that describes the fill
  kSizes,     // a path, or as kIntegers
  kGolden,    // a path or sha256:HASH; a path or {"sha256": HASH}
  kRead,      // a path
  kReads,     // paths with commas between; an array of paths, or one
  kWritten,   // a path, or "-"
};

enum class FlagFile { kNone, kRead, kWritten };

struct Flag {
  FlagId id;
  const char* name;   // without the dashes
  const char* value;  // what help calls its value; null: a switch
  FlagGroup group;
  CommandSet commands;  // those on which it has an effect
  bool in_repro;        // part of the case, not of where its results go
  FlagKind kind;
  const char* help;
  char letter = '\0';    // its short form, if it has one
  bool repeats = false;  // may be given several times
};

std::span<const Flag> AllFlags();
const Flag& InfoOf(FlagId id);
bool Contains(std::span<const FlagId> flags, FlagId id);
const char* TitleOf(FlagGroup group);

// "--out-backprop".
std::string Spell(const Flag& flag);
// "-o"; empty without a letter.
std::string SpellLetter(const Flag& flag);
// "out_backprop".
std::string KeyOf(const Flag& flag);

// Says what a flag's value names.
FlagFile FileOf(const Flag& flag);
// The files that `value` of such a flag names: one, or those of a list.
std::vector<std::string> FilesIn(const Flag& flag, const std::string& value);

// The words among which a flag's value is chosen, as far as they can be listed: {"NHWC", "NCHW"}.
std::vector<std::string> ChoicesOf(const Flag& flag);

// A manifest's case can have it: it says what to compute, on what, or with what to compare.
bool IsCaseKey(const Flag& flag);

}  // namespace convgrad::cli
