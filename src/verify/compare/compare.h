// The verdict on a result: is it right, why, and where not. Levels, from sharp to loose: bits;
// exact class (every summation order gives the same value); bound (an error that the data
// themselves allow); the user's own tolerance. Must not know files, JSON or terminals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "problem/geometry.h"
#include "tensor/statistics.h"
#include "tensor/tensor.h"
#include "verify/compare/tolerance.h"
#include "verify/diagnosis/diagnosis.h"
#include "verify/truth/bound.h"
#include "verify/where/axis_pattern.h"
#include "verify/where/error_profile.h"
#include "verify/where/heat_map.h"

namespace convgrad {

struct CompareOptions {
  Tolerance tolerance;
  // The golden's maker summed in this; none: float64 for float64, else float32.
  std::optional<Accumulator> golden_accumulator;
  // The maker of the tensor under test rounded its float32 operands to this before it multiplied;
  // for reports: CompareToExact is given operands that are rounded.
  std::optional<FloatFormat> operand_rounding;
  // Below these odds, of the whole tensor under any order of summation, it is FAILED.
  double odds = kDefaultOdds;
  // The quick way of comparing by data (screen.h) is taken if its scratch is no more than this; the
  // other has a few MiB for each thread.
  int64_t most_scratch_bytes = int64_t{1} << 27;
  // This program's own result was computed with it.
  Precision precision = Precision::kStandard;
  // Recorded by this program with the same algo and precision: then `auto` means bits.
  bool golden_is_ours = false;
  bool keep_errors = false;  // for CheckResult::errors
  // For CheckResult::profile, where the result does not pass and has at most kMostProfiledElements;
  // takes 12 bytes an element meanwhile.
  bool profile_failures = false;
};

const char* NameOf(Verdict verdict);  // "PASSED", "SUSPECT", "FAILED"
ExitCode ExitCodeOf(Verdict verdict, bool allow_suspect);

// The numbers that a tensor was held against.
enum class Against { kGolden, kReference, kExactValue, kFile };
const char* NameOf(Against against);  // "golden", "reference", "exact value", "file"

// The element that is worst by one measure.
struct WorstElement {
  Shape index;
  double actual = 0, expected = 0;
  uint64_t actual_bits = 0, expected_bits = 0;  // of the dtype, in the low bits
  double value = 0;  // by bound: error / bound; abs; rel: of |expected|; ulp. May be infinite
};

struct CheckResult {
  // This level judged: "bits", "exact class", "bound", or "ulp:4" and so on.
  std::string policy;
  Against against = Against::kGolden;
  DType actual_type = DType::kFloat32, expected_type = DType::kFloat32;  // of what was compared
  Verdict status = Verdict::kPassed;
  // It is one sentence; exactly "incomparable" for another shape, or a dtype of integers.
  std::string reason;
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

  // The failing, else the suspect elements lie here: "border", "one tap (...)", ...; or "".
  std::string where;
  Box box;                         // the same as data
  std::optional<HeatMap> picture;  // of the same elements; none where it would show nothing
  // If asked for: each element's error as a float32, by the measure of the level: of its bound
  // (bound, exact class), in ULP (bits, ulp), absolute, relative, or of what rtol and atol allow.
  // Infinite where no such number exists.
  std::optional<Tensor> errors;
  // If asked for: where the errors are how large, and the worst elements by the same measure.
  std::optional<ErrorProfile> profile;
  std::vector<WorstElement> worst_elements;
  // The smallest single missing term that this check could have seen; NaN where nothing was
  // compared with the data.
  double power = 0;
  // How many terms of average size the loosest element's bound could hide; over 1, a probe with
  // integer data sees more.
  double hidden_terms = 0;
  // Anyone's tensor that was judged by the data has these: what its sums were taken to be rounded
  // to, and how likely errors like its are, at most, under any order of such sums.
  struct Odds {
    FloatFormat accumulator;
    std::optional<FloatFormat> operands;  // what they were rounded to first
    double at_most, limit;
  };
  std::optional<Odds> odds;
  // A golden that did not pass may have one; Compare...() leave it to their caller.
  std::optional<Diagnosis> diagnosis;
};

// A result against a golden of the same problem. `first` and `second` are the operands. `actual` is
// held to this program's own error promise at the same time. A golden of another float type is held
// to the rounding of the type whose numbers it has, and to sums in float64 if it or the problem is
// of float64, else in float32.
CheckResult CompareToGolden(const Problem& problem, const Tensor& first, const Tensor& second,
                            const Tensor& actual, const Tensor& golden,
                            const CompareOptions& options, const Parallel& parallel);

// A result against the built-in reference: the exact value rounded once is what is expected.
CheckResult CompareToReference(const Problem& problem, const Tensor& first, const Tensor& second,
                               const Tensor& actual, const CompareOptions& options,
                               const Parallel& parallel);

// Someone else's result, `yours`, which is under test, against the exact values, each rounded once:
// judged as a golden is. Its shape is the result's; its type is one of floats.
CheckResult CompareToExact(const Problem& problem, const Tensor& first, const Tensor& second,
                           const Tensor& yours, const CompareOptions& options,
                           const Parallel& parallel);

// The verdict on someone's result that is not of floats or not of the shape `wanted`.
CheckResult Incomparable(const Problem& problem, const Tensor& yours, const Shape& wanted);

// Two tensors of which nothing else is known; integer types too. `auto` means bits. Of floats of
// two types the coarser has the ULP, and bits are equal where numbers are.
CheckResult CompareTensors(const Tensor& actual, const Tensor& expected,
                           const CompareOptions& options, const Parallel& parallel);

}  // namespace convgrad
