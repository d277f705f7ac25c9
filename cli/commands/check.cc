// The commands `check` and `diff`: a result or a file against a golden or the reference.
#include <fmt/format.h>

#include <utility>

#include "base/resources.h"
#include "cli/case/case_run.h"
#include "cli/case/error_map.h"
#include "cli/case/shared_flags.h"
#include "cli/case/verdict.h"
#include "cli/options/commands.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

// Reads a file of `diff` and adds it to the inputs of the entry.
StoredTensor ReadOperand(Session& session, const std::string& path, const char* role) {
  const Arguments& arguments = session.arguments;
  NpyReadOptions options;
  options.view_as = ParseDTypeFlag(arguments.flags());
  options.allow_trailing = arguments.Has(FlagId::kAllowTrailing);
  options.max_copied_bytes = MaxCopiedBytes(0);
  StoredTensor file = ReadTensor(path, options);
  Describe(session.console, path, file.header);
  InputRecord record = {role, path, std::nullopt, InfoOf(file.header.dtype).name,
                        file.header.fortran_order};
  if (arguments.Has(FlagId::kReport) && !arguments.Has(FlagId::kNoHash)) {
    record.sha256 = DataHash(file.tensor);
  }
  session.report.cases.back().inputs.push_back(record);
  return file;
}

void Show(Console& console, const CaseRecord& entry, const std::string& text) {
  if (entry.exit_code == ExitCode::kOk) {
    console.Result(text);
  } else {
    console.BadResult(text);
  }
}

}  // namespace

ExitCode Check(Session& session) {
  CaseRecord& entry = BeginCase(session);
  CaseSpec spec = ParseCase(RequestOf(session.arguments));
  session.report.execution = spec.execution;
  ErrorMapFile error_map(session.arguments.flags());
  const int64_t memory_limit = spec.execution.max_memory_bytes;
  CaseRun run(std::move(spec), CaseOptionsOf(session.arguments), session.console, entry);
  error_map.CheckMemory(run.problem().ResultBytes() / InfoOf(run.problem().dtype).bytes,
                        entry.run->memory_bytes, memory_limit);
  RunCase(run);
  Console& console = session.console;
  error_map.Write(*entry.check, console);
  std::string text;
  if (entry.probe) {
    text = DescribeCheck(console, "probe with small integers", *entry.probe);
  }
  const CaseSpec& checked = run.spec();
  if (entry.invariance) {
    const char* alone = checked.actual_parts.empty() ? "every image alone" : "its parts";
    text += DescribeCheck(console, fmt::format("{} against the batch", alone), *entry.invariance);
  }
  const std::string against = checked.actual
                                  ? *checked.actual + " against the exact value"
                                  : "against " + checked.expect.value_or("the built-in reference");
  text +=
      DescribeCheck(console, fmt::format("{} {}", run.problem().ToLine(), against), *entry.check);
  Show(console, entry, text);
  return entry.exit_code;
}

ExitCode Diff(Session& session) {
  CaseRecord& entry = BeginCase(session);
  const Arguments& arguments = session.arguments;
  CompareOptions options = ParseCompareOptions(arguments.flags());
  options.profile_failures = CaseOptionsOf(arguments).profile_errors;
  session.report.execution.num_threads = ParseThreads(arguments.flags());
  const Parallel parallel(ThreadsOrAll(session.report.execution.num_threads));

  const std::string& actual_path = arguments.operands()[0];
  const std::string& expected_path = arguments.operands()[1];
  const bool share_stream = IsStandardStream(actual_path) && IsStandardStream(expected_path);
  if (share_stream && (actual_path == "-" || expected_path == "-")) {
    ThrowUsage("operand/stdin", fmt::format("diff {} {}", actual_path, expected_path),
               "only one can come from standard input",
               "give the other a file, or send a .npz and name its tensors, as in -:a -:b");
  }
  ErrorMapFile error_map(arguments.flags());
  const Progress progress(session.console, "comparing");
  const StoredTensor actual = ReadOperand(session, actual_path, "actual");
  const StoredTensor expected = ReadOperand(session, expected_path, "expected");
  error_map.CheckMemory(actual.tensor.num_elements(), 0, 0);
  entry.check = CompareTensors(actual.tensor, expected.tensor, options, parallel);
  actual.CheckUnchanged();
  expected.CheckUnchanged();
  error_map.Write(*entry.check, session.console);
  entry.status = StatusOf(entry.check->status);
  entry.exit_code = ExitCodeOf(entry.check->status, /*allow_suspect=*/false);
  Show(session.console, entry,
       DescribeCheck(session.console, fmt::format("{} against {}", actual_path, expected_path),
                     *entry.check));
  return entry.exit_code;
}

}  // namespace convgrad::cli
