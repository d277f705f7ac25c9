// The record of a run of the tool: filled while it works, rendered once at its end. Plain facts;
// must not know how they are shown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/record/pending.h"
#include "cli/shards/deal.h"
#include "conv/compute.h"
#include "measure/comparison.h"
#include "measure/roofline.h"
#include "problem/geometry.h"
#include "tensor/statistics.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

struct ErrorRecord {
  std::string code;
  std::string message;
};

// One tensor that was read or generated.
struct InputRecord {
  std::string role;
  std::string path;  // as given: a file, "-", or fill:SPEC
  std::optional<std::string> sha256;
  std::string dtype;
  bool fortran_order = false;
  // A golden has the hash of the record beside it, if there is one, and says if that is all there
  // is.
  std::optional<std::string> record_sha256 = {};
  bool hash_only = false;
  // `inspect` alone fills these.
  Shape shape = {};
  std::optional<TensorStatistics> statistics = {};
};

struct OutputRecord {
  std::optional<std::string> path;  // none: not written
  std::optional<std::string> sha256;
  SpecialCounts special;
  // Finite operands whose result is infinite; none: operands were infinite already, so it is not
  // known which infinities are theirs.
  std::optional<int64_t> overflow;
};

// A part of a result, as `run --partial` and `reduce --partial` write it.
struct PartRecord {
  std::string path;
  std::string sha256;  // of the file, but for the hash at its end
  int64_t bytes = 0;
  std::vector<std::pair<int64_t, int64_t>> images;  // half-open ranges
  std::optional<int> words;                         // of each exact sum
};

// One of several parts of a batch's case that shards computed each, and the case as it was asked
// for: what `merge` needs to put the parts together and to check the result.
struct SplitRecord {
  int64_t part = 1, parts = 1;         // this one from 1, of so many
  std::pair<int64_t, int64_t> images;  // half-open
  std::string identity;                // of the case
  std::string command, op;
  std::vector<std::pair<std::string, std::string>> flags;  // by their keys
  bool operator==(const SplitRecord&) const = default;
};

// The times that `bench` measured; milliseconds of one iteration.
struct BenchTiming {
  Summary summary;
  int64_t warmup = 0;             // iterations before the first sample
  int64_t sample_iterations = 1;  // of one sample
  int64_t iterations = 0;         // of all samples
  std::string stop_reason;        // "interval" or "time"
  std::string cache;              // "hot" or "cold"
};

struct TimingRecord {
  double load_ms = 0, compute_ms = 0, write_ms = 0, total_ms = 0;  // `bench`: compute_ms, median
  double compute_cpu_ms = 0;                                       // of all threads
  std::optional<BenchTiming> bench;
};

// A measurement against an earlier one, or against another binary's.
struct ComparisonRecord {
  std::string against;  // the report's or the binary's path
  Comparison comparison;
  double tolerance = 0;
  double before_ms = 0;            // median of what is compared with; 0 where there is nothing
  int64_t pairs = 0;               // measured in turn; 0 for an earlier report
  std::vector<std::string> notes;  // what differs, or why nothing is concluded
  // kNew: the run that it is compared with has no such case; kMissing: only that one has.
  enum class Presence { kBoth, kNew, kMissing } presence = Presence::kBoth;
  bool is_comparable = false;  // of the same thing, in the same way, with an interval

  const char* Verdict() const {
    if (presence == Presence::kBoth) return NameOf(comparison.verdict);
    return presence == Presence::kNew ? "NEW" : "MISSING";
  }
};

// kComputed: there was nothing to compare the result with; kKept: the golden to be recorded was the
// one that is kept.
enum class CaseStatus {
  kPassed,
  kSuspect,
  kFailed,
  kComputed,
  kRecorded,
  kKept,
  kSkipped,
  kError,
  kTimeout
};
inline constexpr size_t kNumCaseStatuses = static_cast<size_t>(CaseStatus::kTimeout) + 1;
const char* NameOf(CaseStatus status);

struct CaseRecord {
  std::string name;
  int64_t count = 1;                    // of `bench`: how often its problem comes in a log
  std::optional<int64_t> index;         // from 0 among the cases of a batch's plan
  std::optional<std::string> identity;  // of a batch: hash of all that decides the result
  std::vector<std::string> tags;        // of a manifest's case
  std::optional<Problem> problem;
  FilterFormat filter_format = FilterFormat::kHWIO;  // of filters read and written
  std::optional<bool> use_cudnn_on_gpu;
  std::optional<RunInfo> run;
  std::optional<TimingRecord> timing;
  std::optional<Roofline> roofline;                        // of `bench`
  std::optional<ComparisonRecord> baseline, baseline_bin;  // likewise
  std::vector<InputRecord> inputs;
  std::optional<OutputRecord> output;
  std::optional<PartRecord> part;
  std::optional<SplitRecord> split;
  std::optional<CheckResult> probe, invariance, check;
  std::optional<PendingRecord> pending;    // the result, left for review
  CaseStatus status = CaseStatus::kError;  // until it is known better
  ExitCode exit_code = ExitCode::kInternal;
  std::optional<ErrorRecord> error;
  std::string repro;

  // The best possible time as a part of the measured one; entries with a roofline have it.
  double Share() const {
    return timing->compute_ms > 0 ? 1e3 * roofline->seconds / timing->compute_ms : 0;
  }
};

// Which cases a batch has, and which of them this process runs. Reports with one hash can be
// merged.
struct PlanRecord {
  std::string sha256;
  int64_t num_cases = 0;             // of all shards
  std::optional<std::string> shard;  // "3/8"; none: all cases
  std::vector<ShardLoad> shards;     // as predicted, of the command `plan`
  // Likewise, cases that are cut, and whose images go where.
  std::map<int64_t, std::vector<CaseShare>> shares = {};
};

struct Report {
  std::string executable;
  std::string command_line;
  Execution execution;
  std::optional<PlanRecord> plan;  // of a batch
  std::vector<Peaks> peaks;        // that cases were held against
  std::vector<CaseRecord> cases;
  std::optional<ErrorRecord> error;  // what went wrong before a case was reached
};

// The report as JSON, as data/report.schema.json describes it, with a line feed at the end.
std::string RenderReport(const Report& report);

// Parts of it, for reports that are written while cases finish: the object `context`, and an entry
// of `benchmarks`, each on one line.
std::string RenderContext(const Report& report);
std::string RenderEntry(const CaseRecord& entry);
std::string RenderError(const ErrorRecord& error);

}  // namespace convgrad::cli
