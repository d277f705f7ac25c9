// The commands `check` and `diff`: a result or a file against a golden or the reference.
#include <fmt/format.h>

#include <optional>

#include "base/resources.h"
#include "cli/case_run.h"
#include "cli/commands.h"
#include "cli/golden.h"
#include "cli/verdict.h"
#include "tensor/tensor_hash.h"
#include "verify/probe.h"

namespace convgrad::cli {
namespace {

CaseStatus StatusOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return CaseStatus::kPassed;
    case Verdict::kSuspect: return CaseStatus::kSuspect;
    case Verdict::kFailed: return CaseStatus::kFailed;
  }
  ThrowInternal("unknown verdict");
}

// The worst of what was checked decides.
ExitCode Conclude(const Session& session, CaseRecord& entry) {
  Verdict verdict = entry.check->status;
  if (entry.probe) verdict = std::max(verdict, entry.probe->status);
  entry.status = StatusOf(verdict);
  entry.exit_code = ExitCodeOf(verdict, session.arguments.Has(FlagId::kStrict));
  return entry.exit_code;
}

NpyReadOptions GoldenReadOptions(const CaseRun& run) {
  NpyReadOptions options;
  options.view_as = run.problem().dtype;
  options.allow_trailing = run.spec().allow_trailing;
  options.max_copied_bytes = MaxCopiedBytes(run.spec().execution.max_memory_bytes);
  return options;
}

// Against the exact values; by bits, against the reference algorithm, which rounds in the same
// order.
CheckResult CompareWithReference(const CaseRun& run, const CompareOptions& options) {
  const Tensor& first = run.operands().first();
  const Tensor& second = run.operands().second();
  if (options.tolerance.kind != Tolerance::Kind::kBits) {
    return CompareToReference(run.problem(), first, second, run.result(), options, run.parallel());
  }
  Execution execution = run.spec().execution;
  execution.algorithm = "reference";
  const Tensor reference = Compute(run.problem(), first, second, execution);
  return CompareToGolden(run.problem(), first, second, run.result(), reference, options,
                         run.parallel());
}

// Reads a file of `diff` and adds it to the inputs of the entry.
NpyArray ReadOperand(Session& session, const std::string& path, const char* role) {
  const Arguments& arguments = session.arguments;
  NpyReadOptions options;
  options.view_as = ParseDTypeFlag(arguments.flags());
  options.allow_trailing = arguments.Has(FlagId::kAllowTrailing);
  options.max_copied_bytes = MaxCopiedBytes(0);
  NpyArray file = ReadNpy(path, options);
  Describe(session.console, path, file.header);
  InputRecord record = {role, path, std::nullopt, InfoOf(file.header.dtype).name,
                        file.header.fortran_order};
  if (arguments.Has(FlagId::kReport) && !arguments.Has(FlagId::kNoHash)) {
    record.sha256 = DataHash(file.tensor);
  }
  session.report.cases.back().inputs.push_back(record);
  return file;
}

}  // namespace

ExitCode Check(Session& session) {
  CaseRun run(session);
  CaseRecord& entry = run.entry();
  const CompareOptions& options = run.spec().compare;
  const std::string* expect = session.arguments.Find(FlagId::kExpect);
  std::optional<Golden> golden;
  if (expect != nullptr) golden = LoadGolden(*expect, GoldenReadOptions(run));

  run.LoadAndCompute();
  const DType dtype = run.problem().dtype;
  const Tensor& first = run.operands().first();
  const Tensor& second = run.operands().second();
  {
    const Progress progress(session.console, "checking");
    if (session.arguments.Has(FlagId::kProbe)) {
      entry.probe = Probe(run.problem(), run.spec().execution, run.spec().seed);
    }
    entry.check = golden ? CompareWith(*golden, run.problem(), first, second, run.result(), options,
                                       run.parallel())
                         : CompareWithReference(run, options);
  }
  run.WriteResult();
  if (entry.probe) {
    session.console.Result(
        DescribeCheck(session.console, "probe with small integers", *entry.probe, dtype));
  }
  const std::string against = golden ? *expect : "the built-in reference";
  session.console.Result(
      DescribeCheck(session.console, fmt::format("{} against {}", run.problem().ToLine(), against),
                    *entry.check, dtype));
  return Conclude(session, entry);
}

ExitCode Diff(Session& session) {
  CaseRecord& entry = BeginCase(session);
  const Arguments& arguments = session.arguments;
  const CompareOptions options = ParseCompareOptions(arguments.flags());
  session.report.execution.num_threads = ParseThreads(arguments.flags());
  const int threads = session.report.execution.num_threads;
  const Parallel parallel(threads > 0 ? threads : UsableCpus());

  const std::string& actual_path = arguments.operands()[0];
  const std::string& expected_path = arguments.operands()[1];
  if (actual_path == "-" && expected_path == "-") {
    ThrowUsage("operand/stdin", "diff - -", "only one can come from standard input",
               "give the other a file");
  }
  const Progress progress(session.console, "comparing");
  const NpyArray actual = ReadOperand(session, actual_path, "actual");
  const NpyArray expected = ReadOperand(session, expected_path, "expected");
  entry.check = CompareTensors(actual.tensor, expected.tensor, options, parallel);
  actual.CheckUnchanged();
  expected.CheckUnchanged();
  session.console.Result(DescribeCheck(session.console,
                                       fmt::format("{} against {}", actual_path, expected_path),
                                       *entry.check, actual.tensor.dtype()));
  return Conclude(session, entry);
}

}  // namespace convgrad::cli
