#include "cli/options/flags.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace convgrad::cli {
namespace {

constexpr CommandSet kRun = Only(CommandId::kRun);
constexpr CommandSet kCheck = Only(CommandId::kCheck);
constexpr CommandSet kDiff = Only(CommandId::kDiff);
constexpr CommandSet kPlan = Only(CommandId::kPlan);
constexpr CommandSet kGen = Only(CommandId::kGen);
constexpr CommandSet kInspect = Only(CommandId::kInspect);
constexpr CommandSet kBench = Only(CommandId::kBench);
constexpr CommandSet kBatch = Only(CommandId::kBatch);
constexpr CommandSet kMerge = Only(CommandId::kMerge);
constexpr CommandSet kReduce = Only(CommandId::kReduce);
constexpr CommandSet kReport = Only(CommandId::kReport);
constexpr CommandSet kAccept = Only(CommandId::kAccept);
constexpr CommandSet kPrune = Only(CommandId::kPrune);
constexpr CommandSet kImport = Only(CommandId::kImport);
constexpr CommandSet kExport = Only(CommandId::kExport);
constexpr CommandSet kReplay = Only(CommandId::kReplay);
constexpr CommandSet kTune = Only(CommandId::kTune);
constexpr CommandSet kInfo = Only(CommandId::kInfo);
constexpr CommandSet kHelp = Only(CommandId::kHelp);
constexpr CommandSet kOneOp = kRun | kCheck | kPlan | kBench | kExport;
constexpr CommandSet kComparing = kCheck | kDiff;
constexpr CommandSet kWriting = kRun | kCheck | kGen | kReduce;
constexpr CommandSet kReported = (kOneOp & ~kExport) | kDiff;
constexpr CommandSet kWorking = kReported | kGen | kInspect;
constexpr CommandSet kForeign = kImport | kExport | kReplay;
constexpr CommandSet kManifests = kBatch | kMerge;
constexpr CommandSet kSpeaking =
    kWorking | kManifests | kReduce | kReport | kAccept | kPrune | kForeign | kTune;
constexpr CommandSet kEvery = kSpeaking | kInfo | kHelp;

using enum FlagGroup;
using enum FlagKind;

constexpr Flag kFlags[] = {
    {FlagId::kInput, "input", "F", kOperands, kOneOp | kReduce, true, kOperand,
     "a file: .npy, .npz:NAME or .safetensors:NAME; '-' for standard input, of which -:NAME is a "
     "tensor; or fill:SPEC"},
    {FlagId::kFilter, "filter", "F", kOperands, kOneOp | kReduce, true, kOperand, "likewise"},
    {FlagId::kOutBackprop, "out-backprop", "F", kOperands, kOneOp | kReduce, true, kOperand,
     "likewise; of reduce, operands are what the parts' hashes are held against"},
    {FlagId::kFilterSizes, "filter-sizes", "S", kOperands, kOneOp, true, kSizes,
     "shape of the filter: 3,3,32,1, or a file of int32 or int64"},
    {FlagId::kInputSizes, "input-sizes", "S", kOperands, kOneOp, true, kSizes,
     "shape of the input, likewise"},
    {FlagId::kStrides, "strides", "N,...", kOperands, kOneOp, true, kIntegers,
     "1, 2 (H,W) or 4 values in the order of the data format; default 1"},
    {FlagId::kDilations, "dilations", "N,...", kOperands, kOneOp, true, kIntegers, "likewise"},
    {FlagId::kPadding, "padding", "SAME|VALID|N,...", kOperands, kOneOp, true, kPadding,
     "what surrounds the input; no default, since frameworks differ in theirs; numbers: 1 for all "
     "sides, 1,2 (H,W), top,bottom,left,right, or 8 values in the order of the data format; "
     "EXPLICIT: as --explicit-paddings says"},
    {FlagId::kExplicitPaddings, "explicit-paddings", "N,...", kOperands, kOneOp, true, kIntegers,
     "for EXPLICIT: top,bottom,left,right, or 8 values in the order of the data format"},
    {FlagId::kDataFormat, "data-format", "NHWC|NCHW", kOperands, kOneOp, true, kText,
     "default NHWC"},
    {FlagId::kFilterFormat, "filter-format", "HWIO|OIHW|OHWI", kOperands, kOneOp | kReduce, true,
     kText,
     "order of filter, filter sizes, filter gradient and its golden; default HWIO; OIHW as in "
     "PyTorch and ONNX, depthwise [C*M,1,kh,kw]"},
    {FlagId::kGroups, "groups", "N", kOperands, kOneOp, true, kInteger,
     "refuse shapes that make another number of groups"},
    {FlagId::kUseCudnnOnGpu, "use-cudnn-on-gpu", "true|false", kOperands, kOneOp, true, kBoolean,
     "recorded in the report; changes no value"},
    {FlagId::kName, "name", "TEXT", kOperands, kOneOp, true, kText,
     "the case's name in the report; changes no value"},
    {FlagId::kDtype, "dtype", "T", kData, kWorking | kExport, true, kText,
     "float16, bfloat16, float32 or float64: what a '<V2', '|V2', '<u2' or '<i2' file holds, and "
     "the type of fills (default: that of the other operand, else float32)"},
    {FlagId::kSeed, "seed", "N", kData, kOneOp | kGen, true, kInteger,
     "of generated tensors and of --probe; default 0"},
    {FlagId::kFill, "fill", "SPEC", kData, kGen, true, kText,
     "integer, normal, uniform:LOW:HIGH, zeros, ones or impulse:INDEX"},
    {FlagId::kShape, "shape", "S", kData, kGen, true, kIntegers, "the tensor's shape: 8,56,56,32"},
    {FlagId::kRole, "role", "R", kData, kGen, true, kText,
     "input (default), filter or out_backprop: each role has its own numbers"},
    {FlagId::kAllowTrailing, "allow-trailing", nullptr, kData, kReported | kInspect | kExport, true,
     kSwitch, "accept bytes after the array in a .npy or .safetensors file"},
    {FlagId::kOutput, "output", "F", kOutput, kWriting | kImport | kExport | kReport, false,
     kWritten,
     "where the result goes, whole or not at all: a .npy file, or .safetensors:NAME (without NAME: "
     "as the result is called), or of report the page; '-' for standard output",
     'o'},
    {FlagId::kNoClobber, "no-clobber", nullptr, kOutput, kWriting | kDiff | kImport | kExport,
     false, kSwitch, "refuse to replace an existing output or error map"},
    {FlagId::kBFloat16As, "bfloat16-as", "V2|u2|f4", kOutput, kWriting, false, kText,
     "how bfloat16 is written; default V2, as NumPy with ml_dtypes does (.safetensors: BF16)"},
    {FlagId::kThreads, "threads", "N|all", kExecution,
     kOneOp | kDiff | kGen | kBatch | kMerge | kReplay | kReduce | kTune | kInfo, true, kAmount,
     "default all: the CPUs this process may use; work too small to share takes one; changes no "
     "bit "
     "of a result. bench takes several, 1,2, and times each case with each"},
    {FlagId::kIsa, "isa", "auto|avx512|avx2|neon|scalar", kExecution,
     kOneOp | kBatch | kReplay | kTune | kInfo, true, kText,
     "instruction set; changes no bit of a result"},
    {FlagId::kAlgorithm, "algorithm", "NAME", kExecution, kOneOp | kBatch | kReplay, true, kText,
     "force one ('convgrad info' lists them); changes no bit of a result"},
    {FlagId::kNoTuned, "no-tuned", nullptr, kExecution, kOneOp | kBatch | kReplay, true, kSwitch,
     "choose as if convgrad tune had never run here; changes no bit of a result"},
    {FlagId::kPrecision, "precision", "standard|double|exact", kExecution,
     kOneOp | kBatch | kReplay, true, kText,
     "standard (default): fast, a small known error; double: sums in float64, of float64 in twice "
     "that; exact: the exact sum, rounded once"},
    {FlagId::kMaxMemory, "max-memory", "SIZE", kExecution,
     kOneOp | kBatch | kMerge | kReplay | kReduce | kTune, true, kAmount,
     "refuse to need more, e.g. 8GiB; default 80 % of what is available"},
    {FlagId::kImages, "images", "A:B|I/N", kParts, kRun | kPlan | kReduce, true, kText,
     "only images A to B of the batch, from 0, without B; or the I-th (from 1) of N parts of it. "
     "Of reduce: those that there must be, no more and no fewer; default: all of the batch"},
    {FlagId::kFirstImage, "first-image", "K", kParts, kRun, true, kInteger,
     "with --partial: the operands are a piece of a larger batch, whose image K is their first"},
    {FlagId::kPartial, "partial", "F", kParts, kRun | kReduce, false, kWritten,
     "write a part of the result, for reduce to put together with others, whole or not at all: the "
     "exact sum of a filter gradient, not rounded (--precision exact), or the images of a result"},
    {FlagId::kActual, "actual", "F", kChecking, kCheck | kExport, true, kRead,
     "your kernel's result, a file: it is under test, held against the exact value"},
    {FlagId::kActualParts, "actual-parts", "F,...", kChecking, kCheck | kExport, true, kReads,
     "your kernel's results for the images of --actual alone or in smaller batches: files in the "
     "order of the images, each of as many as its first size says; must have the same bits as "
     "--actual"},
    {FlagId::kExpect, "expect", "F", kChecking, kCheck | kExport, true, kGolden,
     "the golden file that this program's result is held against, or sha256:HASH; without "
     "either, the built-in reference"},
    {FlagId::kTolerance, "tolerance", "T", kChecking, kComparing | kExport, true, kText,
     "auto (default), bits, ulp:N, abs:X, rel:X or rtol:X,atol:Y"},
    {FlagId::kGoldenAccumulator, "golden-accumulator", "f16|bf16|tf32|f32|f64", kChecking,
     kComparing | kExport, true, kText,
     "what the maker of the golden (or of --actual) summed in; default f64 for float64, else f32"},
    {FlagId::kOperandRounding, "operand-rounding", "none|tf32|bf16|f16", kChecking,
     kCheck | kExport, true, kText,
     "what the kernel under test (--actual) rounds its float32 operands to before it multiplies; "
     "default none"},
    {FlagId::kOdds, "odds", "P", kChecking, kCheck | kExport, true, kText,
     "a result is FAILED if its errors are less likely than this under any order of summation; "
     "default 1e-12"},
    {FlagId::kProbe, "probe", nullptr, kChecking, kCheck | kExport, true, kSwitch,
     "first run the same shape on small integers, where any slip shows"},
    {FlagId::kInvariance, "invariance", nullptr, kChecking, kCheck | kExport, true, kSwitch,
     "also compute every image alone: its bits must be those it has in the batch; not of filter "
     "gradients, which are sums over images"},
    {FlagId::kAllowSuspect, "allow-suspect", nullptr, kChecking,
     kCheck | kBatch | kExport | kReplay, true, kSwitch, "the verdict SUSPECT exits with 0, not 1"},
    {FlagId::kShards, "shards", "N", kManifest, kPlan, false, kInteger,
     "predict how long each of N shards of the manifest takes; of an operation: which images each "
     "has"},
    {FlagId::kShard, "shard", "I/N|auto", kManifest, kBatch, false, kText,
     "run only part I (from 1) of N, dealt by predicted cost; auto: as the launcher's variables "
     "say, auto/N where they don't tell how many"},
    {FlagId::kSplitImages, "split-images", nullptr, kManifest, kBatch | kPlan, false, kSwitch,
     "deal the images of a case that is much more than a shard's share to several shards, each of "
     "which writes its part beside its report; merge puts the parts together"},
    {FlagId::kDialect, "dialect", "NAME", kManifest, kReplay, false, kText,
     "the dialect of the log, one that import knows; default: each line's own"},
    {FlagId::kCheckAll, "check", nullptr, kManifest, kReplay, false, kSwitch,
     "check this program's results of the log's convolutions instead of timing them"},
    {FlagId::kMatch, "match", "GLOB", kManifest,
     kBatch | kBench | kPlan | kExport | kReplay | kTune, false, kText,
     "only cases of the manifest whose name matches: '*3x3*'; '*' stands for '/' too; given "
     "several times: whose name matches one of them",
     '\0', true},
    {FlagId::kTag, "tag", "T,...", kManifest, kBatch | kBench | kPlan | kExport | kReplay | kTune,
     false, kText, "only cases that have all these tags"},
    {FlagId::kList, "list", nullptr, kManifest, kBatch | kBench | kAccept, false, kSwitch,
     "run none: print the cases that would run, batch as command lines that run alone; accept "
     "none: print what waits"},
    {FlagId::kDelete, "delete", nullptr, kManifest, kPrune, false, kSwitch,
     "remove the goldens that no case names, and the records beside them"},
    {FlagId::kLint, "lint", nullptr, kManifest, kBatch, false, kSwitch,
     "run none: report every mistake of the manifest, not the first alone"},
    {FlagId::kAllowEmpty, "allow-empty", nullptr, kManifest,
     kPlan | kBatch | kBench | kReplay | kTune, false, kSwitch,
     "exit 0, not 6, when no case is selected"},
    {FlagId::kAllowMissing, "allow-missing", nullptr, kManifest, kMerge, false, kSwitch,
     "merge what there is, though shards or cases are missing: a partial look, whose report says "
     "so in error; exit 3 at best"},
    {FlagId::kJobs, "jobs", "N", kManifest, kBatch, false, kInteger,
     "cases read, computed or written at the same time; default: twice the threads"},
    {FlagId::kRequireGolden, "require-golden", nullptr, kManifest, kBatch, false, kSwitch,
     "a case that names no golden fails; else its status is COMPUTED, and it exits 0"},
    {FlagId::kFailFast, "fail-fast", nullptr, kManifest, kBatch, false, kSwitch,
     "start no case after the first that is not right"},
    {FlagId::kTimeout, "timeout", "TIME", kManifest, kBatch, false, kAmount,
     "stop a case that takes longer (30s, 500ms) and go on: status TIMEOUT, exit 4; what waits for "
     "a file system that does not answer is stopped only with --isolate"},
    {FlagId::kIsolate, "isolate", nullptr, kManifest, kBatch, false, kSwitch,
     "run each case in another process, so that one that crashes or is killed costs no other"},
    {FlagId::kOutputRoot, "output-root", "D", kManifest, kBatch, false, kText,
     "outputs lie in this directory; default: the manifest's"},
    {FlagId::kAllowOutside, "allow-outside", nullptr, kManifest, kBatch | kAccept, false, kSwitch,
     "outputs may lie anywhere, by absolute paths, '..' or symbolic links"},
    {FlagId::kEvents, "events", "F", kManifest, kBatch, false, kWritten,
     "append a line of JSON for each case when it has finished"},
    {FlagId::kResume, "resume", nullptr, kManifest, kBatch, false, kSwitch,
     "skip cases that finished according to --events, if inputs, flags, version and output are "
     "still the same"},
    {FlagId::kRecord, "record", nullptr, kManifest, kBatch, false, kSwitch,
     "make results the goldens that their cases name in expect, each with F.golden.json beside it; "
     "refused where the variable CI is true"},
    {FlagId::kHashOnly, "hash-only", nullptr, kManifest, kBatch, false, kSwitch,
     "with --record: write F.golden.json alone, which holds the hash"},
    {FlagId::kForceRecord, "force-record", nullptr, kManifest, kBatch, false, kSwitch,
     "with --record: replace goldens that differ"},
    {FlagId::kAllowNonFinite, "allow-non-finite", nullptr, kManifest, kBatch, false, kSwitch,
     "with --record: record results with NaN or infinity too"},
    {FlagId::kReason, "reason", "TEXT", kManifest, kBatch | kAccept, false, kText,
     "with --record or accept: why, kept in F.golden.json"},
    {FlagId::kWritePending, "write-pending", "D", kManifest, kBatch, false, kText,
     "leave results whose golden file fails or is missing in D, as its name in the manifest with "
     ".new, for review; goldens stay as they are"},
    {FlagId::kCache, "cache", "hot|cold", kTiming, kBench | kReplay, true, kText,
     "hot (default): runs follow each other; cold: the caches are emptied before each"},
    {FlagId::kMaxTime, "max-time", "TIME", kTiming, kBench | kReplay, true, kAmount,
     "most time to spend on samples of a case, warm-up included: 2s (default), 500ms, 1min"},
    {FlagId::kMinSamples, "min-samples", "N", kTiming, kBench | kReplay, true, kInteger,
     "take at least so many, unless time is up; default 10"},
    {FlagId::kCi, "ci", "P%", kTiming, kBench | kReplay, true, kText,
     "sample until the 95 % confidence interval of the median is as narrow; default 2%"},
    {FlagId::kBaseline, "baseline", "F", kTiming, kBench | kReplay, false, kRead,
     "compare each case with that of the same name and threads in this report of bench; exit 5 if "
     "one is SLOWER; a report in the manifest's place is compared as it is: nothing runs"},
    {FlagId::kBaselineBin, "baseline-bin", "F", kTiming, kBench | kReplay, false, kRead,
     "compare with this other convgrad: both run each case in turn"},
    {FlagId::kRegress, "regress", "P%", kTiming, kBench | kReplay, false, kText,
     "how much slower or faster still counts as the same; default 5%"},
    {FlagId::kRemeasure, "remeasure", nullptr, kTiming, kBench | kReplay, false, kSwitch,
     "measure the machine's peaks again, though they are known from before"},
    {FlagId::kSeconds, "seconds", "TIME", kTiming, kTune, false, kAmount,
     "end after about so long, with what was measured so far; default 2min"},
    {FlagId::kForget, "forget", nullptr, kTiming, kTune, false, kSwitch,
     "measure nothing; remove what was kept for this instruction set and number of threads"},
    {FlagId::kReport, "report", "F", kReporting,
     kReported | kInspect | kManifests | kReplay | kReduce, false, kWritten,
     "write the JSON report; '-' for standard output"},
    {FlagId::kErrorMap, "error-map", "F", kReporting, kComparing, false, kWritten,
     "write each element's error as float32, .npy or .safetensors: as a share of its bound, or in "
     "the measure of --tolerance (ULP for bits)"},
    {FlagId::kJunit, "junit", "F", kReporting, kManifests, false, kWritten,
     "write JUnit XML, which CI systems show"},
    {FlagId::kSummary, "summary", "F", kReporting, kManifests, false, kWritten,
     "write a short page of Markdown; '-' for standard output, e.g. >>$GITHUB_STEP_SUMMARY"},
    {FlagId::kHtml, "html", "F", kReporting, kComparing | kManifests | kBench, false, kWritten,
     "write the report as one page to look at in a browser; '-' for standard output"},
    {FlagId::kCsv, "csv", "F", kReporting, kBench | kReplay, false, kWritten,
     "write the measurements as comma-separated values; '-' for standard output"},
    {FlagId::kMarkdown, "markdown", "F", kReporting, kBench | kReplay, false, kWritten,
     "write the measurements as a table of Markdown; likewise"},
    {FlagId::kNoHash, "no-hash", nullptr, kReporting, kRun | kComparing | kBatch | kBench | kReplay,
     false, kSwitch, "leave the data hashes out"},
    {FlagId::kJson, "json", nullptr, kReporting, kInfo, false, kSwitch, "print JSON"},
    {FlagId::kFormat, "format", "man|markdown|bash|zsh|fish", kReporting, kHelp, false, kText,
     "print the manual page's source (roff), the pages of docs/reference that follow from the "
     "program's tables, or a shell's completions"},
    {FlagId::kQuiet, "quiet", nullptr, kReporting, kSpeaking, false, kSwitch,
     "print nothing but errors and what is not right, on standard error", 'q'},
    {FlagId::kVerbose, "verbose", nullptr, kReporting, kSpeaking, false, kSwitch,
     "say more, on standard error"},
    {FlagId::kColor, "color", "auto|always|never", kReporting, kEvery, false, kText,
     "default auto: on a terminal, unless NO_COLOR is set or TERM is dumb"},
    {FlagId::kHelp, "help", nullptr, kReporting, kEvery, false, kSwitch, "print this help", 'h'},
    {FlagId::kVersion, "version", nullptr, kReporting, kEvery, false, kSwitch, "print the version",
     'V'},
};

constexpr bool FlagsAreInEnumOrder() {
  for (size_t i = 0; i < std::size(kFlags); ++i) {
    if (static_cast<size_t>(kFlags[i].id) != i) return false;
  }
  return std::size(kFlags) == static_cast<size_t>(FlagId::kVersion) + 1;
}
static_assert(FlagsAreInEnumOrder());

}  // namespace

std::span<const Flag> AllFlags() {
  return kFlags;
}

const Flag& InfoOf(FlagId id) {
  return kFlags[static_cast<size_t>(id)];
}

bool Contains(std::span<const FlagId> flags, FlagId id) {
  return std::find(flags.begin(), flags.end(), id) != flags.end();
}

const char* TitleOf(FlagGroup group) {
  switch (group) {
    case FlagGroup::kOperands: return "Operands and attributes";
    case FlagGroup::kData: return "Data";
    case FlagGroup::kOutput: return "Output";
    case FlagGroup::kExecution: return "Execution";
    case FlagGroup::kParts: return "Parts";
    case FlagGroup::kChecking: return "Checking";
    case FlagGroup::kManifest: return "Manifest";
    case FlagGroup::kTiming: return "Timing";
    case FlagGroup::kReporting: return "Reporting";
  }
  return "";
}

std::string Spell(const Flag& flag) {
  return std::string("--") + flag.name;
}

std::string SpellLetter(const Flag& flag) {
  return flag.letter == '\0' ? "" : std::string("-") + flag.letter;
}

// Takes the words of "SAME|VALID|N,...", not what stands for others.
std::vector<std::string> ChoicesOf(const Flag& flag) {
  std::vector<std::string> choices;
  std::string_view rest = flag.value == nullptr ? "" : flag.value;
  if (rest.find('|') == std::string_view::npos) return choices;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('|'));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const bool is_word = one.size() > 1 && std::all_of(one.begin(), one.end(), [](char letter) {
                           return std::isalnum(static_cast<unsigned char>(letter)) != 0;
                         });
    if (is_word) choices.emplace_back(one);
  }
  return choices;
}

std::string KeyOf(const Flag& flag) {
  std::string key = flag.name;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

FlagFile FileOf(const Flag& flag) {
  switch (flag.kind) {
    case kOperand:
    case kSizes:
    case kRead:
    case kReads:
    case kGolden: return FlagFile::kRead;
    case kWritten: return FlagFile::kWritten;
    default: return FlagFile::kNone;
  }
}

std::vector<std::string> FilesIn(const Flag& flag, const std::string& value) {
  if (flag.kind != kReads) return {value};
  std::vector<std::string> files;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    files.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return files;
}

bool IsCaseKey(const Flag& flag) {
  return (flag.commands & (kRun | kCheck)) != 0 && flag.group != kReporting && flag.group != kParts;
}

}  // namespace convgrad::cli
