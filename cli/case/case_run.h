// The steps from a case's description to its finished entry in the report, the same for `run`,
// `check` and every case of a batch. Everything that can be refused is refused before anything is
// computed; nothing is written before everything is computed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/output_file.h"
#include "base/parallel.h"
#include "base/stopwatch.h"
#include "cli/case/case.h"
#include "cli/case/golden.h"
#include "cli/case/golden_recorder.h"
#include "cli/case/operands.h"
#include "cli/case/pending_golden.h"
#include "cli/session/session.h"
#include "tensor/tensor.h"

namespace convgrad::cli {

// Adds the entry of the one case that the command line describes; what is thrown from now on goes
// into it.
CaseRecord& BeginCase(Session& session);

// Among the inputs of an entry: of a golden, of someone's result under test, and of its parts.
inline constexpr const char* kGoldenRole = "expected";
inline constexpr const char* kActualRole = "actual";
inline constexpr const char* kActualPartRole = "actual_part";

// A result that others computed, and the time that they took.
struct ComputedElsewhere {
  Tensor result;
  double compute_ms = 0, total_ms = 0;
};

using ResultSource = std::function<ComputedElsewhere(const Operands&, const Parallel&)>;

struct CaseOptions {
  bool hash_inputs = false;
  bool hash_result = false;
  bool hash_golden = false;  // or the file under test, which becomes an input in the report
  // Problems of fewer operations run on one thread unless the case says otherwise.
  int64_t one_thread_flops = 0;
  int num_threads = 0;  // of the others, 0 for all
  // A golden file that the case names is written, not compared with. Needs hash_inputs.
  std::optional<RecordOptions> record;
  // A directory: where a golden file that the case names fails or is missing, the result is left
  // there. Needs hash_inputs.
  std::optional<std::string> pending;
  // Those of outputs and recorded goldens, where they are missing.
  bool make_directories = false;
  bool require_golden = false;  // a case that names none fails
  // A result that does not pass is reported with how large its errors are where.
  bool profile_errors = false;
  // The result comes from here, if it is set, instead of being computed. The operands are
  // loaded.
  ResultSource result;
};

// For a command of one case, by its flags.
CaseOptions CaseOptionsOf(const Arguments& arguments);

// Throws kWrong "golden/none" for a case that names no golden.
void RequireGolden(const CaseSpec& spec, const std::string& name);

class CaseRun {
 public:
  // Reads the operands' headers and the golden, plans, and opens the output. `console` and `entry`
  // must outlive this.
  CaseRun(CaseSpec spec, const CaseOptions& options, const Console& console, CaseRecord& entry);

  void LoadAndCompute();
  // Compares with the golden or the reference if the case is a check.
  void Check();
  // Writes the result if an output was asked for, and the golden; hashes and counts meanwhile.
  void WriteResult();
  // The entry's status and exit code.
  void Conclude();

  const CaseSpec& spec() const { return spec_; }
  const Problem& problem() const { return operands_->problem(); }
  const Parallel& parallel() const { return *parallel_; }

 private:
  void OpenGolden();
  NpyReadOptions GoldenReading() const;
  void OpenOutput();
  void DescribePlan() const;
  CheckResult CompareWithReference() const;
  CheckResult Compare();
  void RoundOperands();
  // Why the comparison did not pass.
  void Diagnose();
  // The probe, or the check of invariance.
  bool ProbeFailed() const;
  bool NeedsReview() const;
  void ListYours();
  void ListGolden();

  const Stopwatch since_begin_;
  double elsewhere_ms_ = 0;  // of the whole case
  CaseSpec spec_;
  const CaseOptions options_;
  const Console& console_;
  CaseRecord& entry_;
  std::optional<Operands> operands_;
  std::optional<Parallel> parallel_;
  std::optional<Golden> golden_;
  std::optional<Yours> yours_;         // under test instead of result_
  std::vector<StoredTensor> parts_;    // likewise, as spec_.actual_parts has them
  std::optional<Error> golden_error_;  // thrown when the result has been left for review
  PendingErrors pending_errors_;
  std::optional<GoldenRecorder> recorder_;
  std::optional<TensorTarget> output_target_;
  std::optional<OutputFile> output_;
  Result result_;
  // Operands as the maker of the tensor under test is said to have rounded them.
  struct {
    std::optional<Tensor> first, second;
  } rounded_;
};

// Counts what is special in the result of these operands.
OutputRecord DescribeResult(const Operands& operands, const Tensor& result);
// The whole of a case, all steps in turn.
void RunCase(CaseRun& run);

CaseStatus StatusOf(Verdict verdict);

// "8.3 ms, 12.5 GFLOP/s"
std::string DescribeTiming(const CaseRecord& entry);

// A line of Python that views a bfloat16 file as such; empty where numpy.load suffices.
std::string PythonHint(const std::string& path, DType dtype, BFloat16Form form);

}  // namespace convgrad::cli
