// One case of `bench`: verified, timed with each number of threads, compared. Fills the entries of
// the report; must not know where cases come from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/baseline.h"
#include "cli/bench/bench_options.h"
#include "cli/case/case.h"
#include "cli/case/operands.h"
#include "cli/session/session.h"
#include "conv/compute.h"

namespace convgrad::cli {

// The setting that all cases of one command share.
struct BenchSetting {
  BenchOptions options;
  std::optional<Baseline> baseline;
  std::string cpu_model;
};

class BenchCase {
 public:
  // `request` with the flags of `bench` that decide how the case is timed; its number of threads
  // does not count. `which` stands before its name in the progress line. Throws usage errors.
  BenchCase(Session& session, const BenchSetting& setting, CaseRequest request,
            std::string which = "", std::vector<std::string> tags = {});
  BenchCase(const BenchCase&) = delete;
  BenchCase& operator=(const BenchCase&) = delete;

  // Adds an entry and fills it; 0 for all threads. Throws whatever ends the case: kWrong
  // "bench/wrong-result" for a kernel that is not to be timed.
  ExitCode Time(int num_threads);

 private:
  CaseRecord& entry() { return session_.report.cases.back(); }
  void BeginEntry(int num_threads);
  void Prepare();
  void Verify();
  void Measure();
  Sampling SampleRuns(const Computation& computation, Tensor& result);
  void CheckResult(const Tensor& result);
  void RecordTiming(const Sampling& sampling);
  void HoldAgainstRoofline(const Computation& computation);
  ExitCode Conclude();
  // A command that runs this case alone with `program`; `changes` are flags that it has instead of
  // its own.
  std::vector<std::string> CommandWords(const std::string& program,
                                        const std::vector<FlagValues::Entry>& changes) const;
  // One that times the case for `seconds` and writes the report to standard output.
  std::vector<std::string> ReportingCommand(const std::string& binary, double seconds) const;

  Session& session_;
  const BenchSetting& setting_;
  const std::string which_;
  const std::vector<std::string> tags_;
  CaseRequest request_;
  CaseSpec spec_;
  std::optional<Operands> operands_;
  bool is_loaded_ = false;
  double load_ms_ = 0;
};

}  // namespace convgrad::cli
