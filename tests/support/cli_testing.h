// The end-to-end tests share this: the real binary run by a shell in a directory of its own, and
// its reports, each validated against the schema in data.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "support/file_testing.h"
#include "support/from_environment.h"
#include "tensor/npy.h"
#include "tensor/tensor.h"

namespace convgrad::testing {

struct ShellResult {
  int exit_code = 0;  // 128 + n if signal n ended the shell
  std::string out, err;
};

// The tool under test: CONVGRAD_TEST_BINARY of the environment, a path to a file named `convgrad`,
// or else the one of this build.
std::string Binary();

// Where `bench` keeps the machine's peaks, which take most of a second: beside the binary, for all
// tests, each of which may be a process of its own.
std::string PeaksFolder();

// For Interrupt: --verbose says what memory a case takes when all is ready to compute it.
inline constexpr const char* kIsComputing = "grep -q memory: err";

class CliTest : public ::testing::Test {
 protected:
  // Runs `command` with /bin/sh in the scratch directory; `convgrad` is Binary().
  ShellResult Sh(const std::string& command) const;
  // Runs it in `folder` instead.
  ShellResult ShIn(const std::string& folder, const std::string& command) const;
  // Runs `command`, which is convgrad, and sends it `signal` ("TERM") once `condition` holds, which
  // sees its process id as $child and its messages in the file `err`; after a minute in any case.
  ShellResult Interrupt(const std::string& command, const std::string& signal,
                        const std::string& condition = kIsComputing) const;

  // Words before a command that let it use but one of the CPUs that this process may use; none
  // where there is no taskset.
  std::string OnOneCpu() const;

  // Starts the tool itself in the scratch directory, without a shell that signals would go to, and
  // without its messages.
  pid_t Start(std::vector<std::string> arguments) const;
  // Waits for its end. Returns its exit code, 128 + n if signal n ended it.
  static int ExitCodeOf(pid_t child);

  // Writes a tensor of float32 values, or of whole numbers as sizes vectors are.
  void WriteFloats(const std::string& name, const Shape& shape,
                   const std::vector<float>& values) const;
  void WriteIntegers(const std::string& name, const std::vector<int64_t>& values) const;
  std::vector<float> ReadFloats(const std::string& name) const;
  std::string Path(const std::string& name) const { return scratch_ / name; }
  bool Exists(const std::string& name) const;
  // Names of the files in the scratch directory.
  std::vector<std::string> Files() const { return scratch_.Entries(); }

  // The report in a file of the scratch directory, or in a text; a violation of the schema fails
  // the test.
  nlohmann::json Report(const std::string& name = "r.json") const;
  nlohmann::json ReportIn(const std::string& text) const;

 private:
  ScratchDirectory scratch_;
};

// A report without times, the machine's state and the command line.
nlohmann::json WithoutTimes(nlohmann::json report);

// When to kill a process, counted from its start. How long it would live changes with what else the
// machine does, so the span from which a moment is drawn is learnt: halved when one came too late,
// a quarter longer when not. Three of four kills then meet a process, few rounds after the start.
class KillMoments {
 public:
  using Span = std::chrono::duration<double, std::micro>;
  KillMoments(uint64_t seed, Span first_span) : random_(seed), span_(first_span) {}

  std::chrono::microseconds Next() {
    const double share = std::uniform_real_distribution<double>(0, 1)(random_);
    return std::chrono::duration_cast<std::chrono::microseconds>(share * span_);
  }
  // True if the process still lived.
  void Learn(bool lived) {
    span_ *= lived ? 1.25 : 0.5;
    met_ += lived ? 1 : 0;
  }
  int met() const { return met_; }

 private:
  std::mt19937_64 random_;
  Span span_;
  int met_ = 0;
};

// Exactly one line, of the form "convgrad: error: WHAT: WHY...".
MATCHER(IsOneErrorLine, "") {
  return arg.starts_with("convgrad: error: ") && arg.find('\n') == arg.size() - 1 &&
         arg.find(": ", 17) != std::string::npos;
}

}  // namespace convgrad::testing
