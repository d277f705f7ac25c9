#include "cli/batch/batch_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/resources.h"
#include "cli/case/operands.h"
#include "cli/case/shared_flags.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

constexpr double kLeastTimeout = 1e-3, kMostTimeout = 1e7;

void RefuseWithoutHashes(const Arguments& arguments, const std::string& why) {
  if (arguments.Has(FlagId::kNoHash)) {
    ThrowUsage("flag/no-effect", "--no-hash", why, "leave it out");
  }
}

std::optional<RecordOptions> ParseRecordOptions(const Arguments& arguments) {
  if (!arguments.Has(FlagId::kRecord)) {
    for (const FlagId id :
         {FlagId::kHashOnly, FlagId::kForceRecord, FlagId::kAllowNonFinite, FlagId::kReason}) {
      if (!arguments.Has(id)) continue;
      ThrowUsage("flag/no-effect", Spell(InfoOf(id)), "it says how to record goldens",
                 "give --record too, or leave it out");
    }
    return std::nullopt;
  }
  RefuseWithoutHashes(arguments, "a golden is kept with hashes");
  RefuseInCi("--record");
  RecordOptions options;
  options.hash_only = arguments.Has(FlagId::kHashOnly);
  options.force = arguments.Has(FlagId::kForceRecord);
  options.allow_non_finite = arguments.Has(FlagId::kAllowNonFinite);
  if (const std::string* reason = arguments.Find(FlagId::kReason)) options.reason = *reason;
  return options;
}

std::optional<std::string> ParsePending(const Arguments& arguments) {
  const std::string* directory = arguments.Find(FlagId::kWritePending);
  if (directory == nullptr) return std::nullopt;
  CheckPath(*directory);
  RefuseWithoutHashes(arguments, "what may become a golden is kept with hashes");
  if (arguments.Has(FlagId::kRecord)) {
    ThrowUsage("flag/no-effect", "--write-pending", "--record makes the results goldens at once",
               "give one of them");
  }
  return *directory;
}

void ParseResources(const Arguments& arguments, BatchOptions& options) {
  const int threads = ParseThreads(arguments.flags());
  options.num_threads = ThreadsOrAll(threads);
  options.jobs = 2 * options.num_threads;  // some compute while others are read or written
  if (const std::string* jobs = arguments.Find(FlagId::kJobs)) {
    options.jobs = static_cast<int>(ParseInteger("--jobs", *jobs, 1, kMaxThreads));
  }
  const std::string* memory = arguments.Find(FlagId::kMaxMemory);
  options.max_memory_bytes = memory != nullptr ? ParseMemory("--max-memory", *memory)
                                               : std::max<int64_t>(MaxCopiedBytes(0), 1);
  if (const std::string* time = arguments.Find(FlagId::kTimeout)) {
    options.timeout = ParseSeconds("--timeout", *time, kLeastTimeout, kMostTimeout);
  }
}

// `merge` writes and checks what the parts make, and can't make goldens of it.
void ParseSplit(const Arguments& arguments, BatchOptions& options) {
  if (!arguments.Has(FlagId::kSplitImages)) return;
  if (!arguments.Has(FlagId::kShard)) {
    ThrowUsage("flag/missing", "--shard", "--split-images says how cases are dealt to shards",
               "give it, or leave --split-images out");
  }
  const std::string report = arguments.Get(FlagId::kReport, "-");
  if (report == "-") {
    ThrowUsage("flag/missing", "--report", "--split-images writes parts of cases beside it",
               "name a file");
  }
  for (const FlagId id : {FlagId::kRecord, FlagId::kWritePending}) {
    if (!arguments.Has(id)) continue;
    ThrowUsage("flag/conflict", fmt::format("--split-images and {}", Spell(InfoOf(id))),
               "a golden is made of a whole result, and shards have parts", "give one of them");
  }
  RefuseWithoutHashes(arguments, "parts are known by their hashes");
  options.split_beside = report;
}

void ParseJournal(const Arguments& arguments, BatchOptions& options) {
  if (const std::string* path = arguments.Find(FlagId::kEvents)) options.events = *path;
  if (options.events == "-") {
    ThrowUsage("flag/value", "--events -", "it is appended to, and read again by --resume",
               "name a file");
  }
  options.resume = arguments.Has(FlagId::kResume);
  if (!options.resume) return;
  if (!options.events) {
    ThrowUsage("flag/missing", "--events", "--resume reads what finished from it",
               "give the file that the earlier run wrote");
  }
  RefuseWithoutHashes(arguments, "--resume trusts hashes alone");
}

}  // namespace

BatchOptions ParseBatchOptions(const Arguments& arguments) {
  BatchOptions options;
  ParseResources(arguments, options);
  options.fail_fast = arguments.Has(FlagId::kFailFast);
  // With --allow-outside, a mistyped path would make directories anywhere.
  options.make_directories = !arguments.Has(FlagId::kAllowOutside);
  options.require_golden = arguments.Has(FlagId::kRequireGolden);
  options.isolate = arguments.Has(FlagId::kIsolate);
  options.has_hashes = !arguments.Has(FlagId::kNoHash);
  for (const FlagId id :
       {FlagId::kEvents, FlagId::kReport, FlagId::kJunit, FlagId::kSummary, FlagId::kHtml}) {
    options.has_entries |= arguments.Has(id);
  }
  options.record = ParseRecordOptions(arguments);
  options.pending = ParsePending(arguments);
  ParseSplit(arguments, options);
  ParseJournal(arguments, options);
  return options;
}

}  // namespace convgrad::cli
