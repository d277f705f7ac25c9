#include "cli/batch/whole_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.h"
#include "cli/batch/batch_case.h"
#include "cli/batch/batch_options.h"
#include "cli/batch/part_job.h"
#include "cli/batch/turns.h"
#include "cli/parts/part_list.h"
#include "cli/parts/part_operands.h"
#include "cli/parts/reduction.h"
#include "cli/report/report_scan.h"
#include "cli/shards/launchers.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

constexpr const char* kAgain = "run that shard again, with --resume";

// A report has this of one part.
struct ReportedPart {
  std::string report;  // its path
  std::string_view text;
  ExitCode exit_code;
  Json entry;
  SplitRecord split;
};

ReportedPart Read(const MergedReport::PartEntry& part) try {
  ReportedPart read = {part.report, part.text, part.exit_code, ParseJson(part.text), {}};
  read.split = ReadSplit(read.entry);
  const SplitRecord& split = read.split;
  if (split.part >= 1 && split.part <= split.parts && split.parts <= kMaxShards) return read;
  RefuseReport(part.report, fmt::format("{} is no part of {}", split.part, split.parts));
} catch (const Json::exception& exception) {
  RefuseReport(part.report, WhyOf(exception));
}

std::string NameOf(const ReportedPart& part) {
  return fmt::format("case '{}'", part.entry.value("name", ""));
}

bool AreOfOneCut(const SplitRecord& a, const SplitRecord& b) {
  SplitRecord same = b;
  same.part = a.part;
  same.images = a.images;
  return same == a;
}

// Parts in their order, which together are the case.
void CheckParts(const std::vector<ReportedPart>& parts) {
  const ReportedPart& first = parts.front();
  int64_t next = 1;
  const auto check_missing = [&](int64_t end) {
    if (next >= end) return;
    ThrowData("merge/missing", NameOf(first),
              fmt::format("no report has part {} of {}", next, first.split.parts), kAgain);
  };
  for (const ReportedPart& part : parts) {
    if (!AreOfOneCut(first.split, part.split)) {
      ThrowData("merge/different-parts", NameOf(first),
                fmt::format("{} and {} have parts that were dealt differently", first.report,
                            part.report),
                "operands or flags changed between the shards; run them again");
    }
    if (part.split.part < next) {
      ThrowData("merge/double", NameOf(first),
                fmt::format("{} has part {} of {}, and another report too", part.report,
                            part.split.part, part.split.parts),
                "run all shards again");
    }
    check_missing(part.split.part);
    next = part.split.part + 1;
  }
  check_missing(first.split.parts + 1);
}

// The part lies beside its report, wherever both were moved.
std::string FileOf(const ReportedPart& part) try {
  const std::string written = part.entry.at("part").at("path").get<std::string>();
  std::string path = SplitPath(part.report).first + "/" + SplitPath(written).second;
  if (Exists(path)) return path;
  ThrowData("merge/missing", path,
            fmt::format("missing; it is part {} of {} of {}", part.split.part, part.split.parts,
                        NameOf(part)),
            kAgain);
} catch (const Json::exception& exception) {
  RefuseReport(part.report, WhyOf(exception));
}

// The case's result, of parts that have been found to be there.
class PartSource {
 public:
  PartSource(const std::vector<ReportedPart>& parts, int64_t max_memory_bytes)
      : reported_(parts), max_memory_bytes_(max_memory_bytes), parts_(Files(parts)) {
    parts_.CheckComplete(std::nullopt);
  }

  ComputedElsewhere operator()(const Operands& operands, const Parallel& parallel) const {
    CheckProblem(operands);
    for (int i = 0; i < 2; ++i) {
      const Role role = InfoOf(operands.problem().op).operands[i];
      CheckOperand(parts_, role, operands.Records()[i].path, operands.whole(i));
    }
    ComputedElsewhere computed;
    if (parts_.AreSums()) {
      const SummedParts summed = SumParts(parts_, max_memory_bytes_, parallel);
      CheckHashes(summed.sha256);
      computed.result = RoundSums(parts_.problem(), summed.sums, parallel);
    } else {
      JoinedParts joined = JoinParts(parts_, max_memory_bytes_);
      CheckHashes(joined.sha256);
      computed.result = std::move(joined.result);
    }
    AddTimes(computed);
    return computed;
  }

 private:
  static std::vector<std::string> Files(const std::vector<ReportedPart>& parts) {
    std::vector<std::string> files;
    files.reserve(parts.size());
    for (const ReportedPart& part : parts) files.push_back(FileOf(part));
    return files;
  }

  void CheckProblem(const Operands& operands) const {
    const std::string ours = operands.problem().ToLine(), theirs = parts_.problem().ToLine();
    if (ours == theirs) return;
    ThrowData("part/other-problem", parts_.paths().front(),
              fmt::format("it is of {}, the case of {}", theirs, ours), "run all shards again");
  }

  void CheckHashes(const std::vector<std::string>& hashes) const {
    for (size_t i = 0; i < hashes.size(); ++i) {
      if (reported_[i].entry.at("part").at("sha256") == hashes[i]) continue;
      ThrowData("merge/stale", parts_.paths()[i],
                fmt::format("it is not the part of which {} tells", reported_[i].report), kAgain);
    }
  }

  void AddTimes(ComputedElsewhere& computed) const {
    for (const ReportedPart& part : reported_) {
      const Json& timing = part.entry.at("timing");
      computed.compute_ms += timing.at("compute_ms").get<double>();
      computed.total_ms += timing.at("total_ms").get<double>();
    }
  }

  const std::vector<ReportedPart>& reported_;
  const int64_t max_memory_bytes_;
  const PartList parts_;
};

CaseJob JobOf(const ReportedPart& part, int64_t index) try {
  CaseJob job;
  job.index = index;
  job.identity = part.split.identity;
  job.request = RequestOf(part.split);
  ParseCase(job.request);
  if (part.entry.contains("tags")) {
    job.tags = part.entry["tags"].get<std::vector<std::string>>();
  }
  return job;
} catch (const Json::exception& exception) {
  RefuseReport(part.report, WhyOf(exception));
} catch (const Error& error) {
  RefuseReport(part.report, error.message());
}

// Runs cases as a batch of all shards would.
class WholeCaseRunner {
 public:
  WholeCaseRunner(const WholeCaseOptions& options, const Console& console)
      : batch_(BatchOptionsOf(options)), runner_(options.program, batch_, console) {}

  // Refusals of parts are told apart from what goes wrong with the case.
  WholeCase Run(const std::vector<ReportedPart>& parts, const CaseJob& job) const {
    const PartSource source(parts, batch_.max_memory_bytes);
    ComputeGate gate(batch_.num_threads);
    std::optional<Error> refusal;
    const ResultSource result = [&](const Operands& operands, const Parallel& parallel) {
      try {
        return source(operands, parallel);
      } catch (const Json::exception& exception) {
        refusal.emplace(ExitCode::kData, "report/malformed", parts.front().report,
                        WhyOf(exception));
      } catch (const Error& error) {
        refusal = error;
      }
      throw Error(*refusal);
    };
    CaseEnding ending = runner_.Run(job, gate, result);
    if (refusal) throw Error(*refusal);
    return {std::move(ending.text), ending.exit_code};
  }

  // The end of a case of which a part went wrong.
  WholeCase End(const ReportedPart& part, const CaseJob& job) const {
    return {WithEnding(RenderEntry(runner_.BeginEntry(job)), part.text), part.exit_code};
  }

 private:
  static BatchOptions BatchOptionsOf(const WholeCaseOptions& options) {
    BatchOptions batch;
    batch.num_threads = options.num_threads;
    batch.max_memory_bytes = options.max_memory_bytes;
    batch.has_entries = true;
    return batch;
  }

  const BatchOptions batch_;
  const CaseRunner runner_;
};

}  // namespace

WholeCase PutCaseTogether(const MergedReport::SplitCase& split, const WholeCaseOptions& options,
                          const Console& console) {
  std::vector<ReportedPart> parts;
  for (const MergedReport::PartEntry& part : split.parts) parts.push_back(Read(part));
  std::ranges::stable_sort(parts, {}, [](const ReportedPart& part) { return part.split.part; });
  CheckParts(parts);
  const WholeCaseRunner runner(options, console);
  const CaseJob job = JobOf(parts.front(), split.index);
  for (const ReportedPart& part : parts) {
    if (part.exit_code != ExitCode::kOk) return runner.End(part, job);
  }
  console.Note(fmt::format("{}: putting {} parts together", NameOf(parts.front()), parts.size()));
  return runner.Run(parts, job);
}

}  // namespace convgrad::cli
