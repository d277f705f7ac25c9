// The steps from a case's description to its finished entry in the report. Everything that can be
// refused is refused before anything is computed; nothing is written before everything is computed.
#pragma once

#include <chrono>
#include <optional>

#include "base/output_file.h"
#include "base/parallel.h"
#include "cli/case.h"
#include "cli/operands.h"
#include "cli/session.h"
#include "tensor/tensor.h"

namespace convgrad::cli {

// Adds the entry of the one case that the command line describes; what is thrown from now on goes
// into it.
CaseRecord& BeginCase(Session& session);

class CaseRun {
 public:
  // Reads the command line and the operands' headers, plans, and opens the output.
  explicit CaseRun(Session& session);

  void LoadAndCompute();
  // Writes the result if an output was asked for; hashes and counts meanwhile.
  void WriteResult();

  const CaseSpec& spec() const { return spec_; }
  const Problem& problem() const { return operands_->problem(); }
  const Operands& operands() const { return *operands_; }
  const Tensor& result() const { return result_; }
  const Parallel& parallel() const { return *parallel_; }
  CaseRecord& entry() { return entry_; }

 private:
  void OpenOutput();
  void DescribePlan() const;

  Session& session_;
  CaseRecord& entry_;
  const std::chrono::steady_clock::time_point begin_;
  CaseSpec spec_;
  std::optional<Operands> operands_;
  std::optional<Parallel> parallel_;
  std::optional<OutputFile> output_;
  Tensor result_;
};

// Counts what is special in the result of these operands.
OutputRecord DescribeResult(const Operands& operands, const Tensor& result);

// "8.3 ms, 12.5 GFLOP/s"
std::string DescribeTiming(const CaseRecord& entry);

// A line of Python that views a bfloat16 file as such; empty where numpy.load suffices.
std::string PythonHint(const std::string& path, DType dtype, BFloat16Form form);

}  // namespace convgrad::cli
