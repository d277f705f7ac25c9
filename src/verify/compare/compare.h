// The verdict on a result: is it right, why, and where not. Levels, from sharp to loose: bits;
// exact class (every summation order gives the same value); bound (an error that the data
// themselves allow); the user's own tolerance. Must not know files, JSON or terminals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/parallel.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/compare/tally.h"
#include "verify/compare/tolerance.h"
#include "verify/diagnosis/diagnosis.h"
#include "verify/truth/bound.h"
#include "verify/where/heat_map.h"

namespace convgrad {

struct CompareOptions {
  Tolerance tolerance;
  // What the golden's maker summed in; none: float64 for float64, else float32.
  std::optional<DType> golden_accumulator;
  // What this program's own result was computed with.
  Precision precision = Precision::kStandard;
  // Recorded by this program with the same algo and precision: then `auto` means bits.
  bool golden_is_ours = false;
  bool keep_errors = false;  // for CheckResult::errors
};

const char* NameOf(Verdict verdict);  // "PASSED", "SUSPECT", "FAILED"
ExitCode ExitCodeOf(Verdict verdict, bool strict);

// The element that is worst by one measure.
struct WorstElement {
  Shape index;
  double actual = 0, expected = 0;
  uint64_t actual_bits = 0, expected_bits = 0;  // of the dtype, in the low bits
  double value = 0;  // by bound: error / bound; abs; rel: of |expected|; ulp. May be infinite
};

struct CheckResult {
  std::string
      policy;  // the level that judged: "bits", "exact class", "bound", or "ulp:4" and so on
  Verdict status = Verdict::kPassed;
  std::string reason;  // one sentence; exactly "incomparable" for another shape or dtype
  std::string detail;  // a second one, for people: what is incomparable, what would help; or empty

  struct Counts {
    int64_t elements = 0;
    int64_t differ = 0;  // other values (NaN matches NaN); by bits: other bits
    int64_t suspect = 0;
    int64_t fail = 0;
    int64_t nan = 0, inf = 0;  // on either side
  } counts;
  SpecialCounts actual, expected;  // per side

  // None where nothing differs; `bound` only at the levels that know it.
  struct Worst {
    std::optional<WorstElement> bound, abs, rel, ulp;
  } worst;
  // The tolerance of each kind that would pass; infinite where none would.
  struct Needs {
    double ulp = 0, abs = 0, rel = 0;
  } needs;

  std::string
      where;  // of the failing, else the suspect elements: "border", "one tap (...)", ...; or ""
  std::optional<HeatMap> picture;  // of the same elements; none where it would show nothing
  // If asked for: each element's error as a float32, by the measure of the level: of its bound
  // (bound, exact class), in ULP (bits, ulp), absolute, relative, or of what rtol and atol allow.
  // Infinite where no such number exists.
  std::optional<Tensor> errors;
  // The smallest single missing term that this check could have seen; NaN where nothing was
  // compared with the data.
  double power = 0;
  // How many terms of average size the loosest element's bound could hide; over 1, a probe with
  // integer data sees more.
  double hidden_terms = 0;
  // Of a golden that did not pass; Compare...() leave it to their caller.
  std::optional<Diagnosis> diagnosis;
};

// A result against a golden of the same problem. `first` and `second` are the operands. `actual` is
// held to this program's own error promise at the same time.
CheckResult CompareToGolden(const Problem& problem, const Tensor& first, const Tensor& second,
                            const Tensor& actual, const Tensor& golden,
                            const CompareOptions& options, const Parallel& parallel);

// A result against the built-in reference: the exact value rounded once is what is expected.
CheckResult CompareToReference(const Problem& problem, const Tensor& first, const Tensor& second,
                               const Tensor& actual, const CompareOptions& options,
                               const Parallel& parallel);

// Two tensors of which nothing else is known; integer types too. `auto` means bits.
CheckResult CompareTensors(const Tensor& actual, const Tensor& expected,
                           const CompareOptions& options, const Parallel& parallel);

}  // namespace convgrad
