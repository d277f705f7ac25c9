#include "cli/case/golden.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

constexpr std::string_view kHashPrefix = "sha256:";

CheckResult VerdictByBits(const Tensor& actual, bool passed, std::string reason) {
  CheckResult result;
  result.policy = "bits";
  result.status = passed ? Verdict::kPassed : Verdict::kFailed;
  result.reason = std::move(reason);
  result.counts.elements = actual.num_elements();
  result.power = std::numeric_limits<double>::quiet_NaN();
  return result;
}

CheckResult CompareHash(const std::string& expected, const Tensor& actual) {
  const std::string hash = DataHash(actual);
  if (hash == expected) return VerdictByBits(actual, true, "the data hash is the golden's");
  CheckResult result = VerdictByBits(actual, false, "the data hash is not the golden's");
  result.detail =
      fmt::format("{} where {} is expected; a golden file would show where", hash, expected);
  return result;
}

CheckResult CompareRecord(const GoldenRecord& record, const Tensor& actual, Precision precision) {
  if (record.dtype != InfoOf(actual.dtype()).name || record.shape != actual.shape()) {
    CheckResult result = VerdictByBits(actual, false, "incomparable");
    result.detail =
        fmt::format("the result is {} {}, the golden {} {}", InfoOf(actual.dtype()).name,
                    ToString(actual.shape()), record.dtype, ToString(record.shape));
    return result;
  }
  if (!record.IsReproducible(precision)) {
    CheckResult result =
        VerdictByBits(actual, false,
                      fmt::format("a hash of algo {}, precision {} says nothing about other bits",
                                  record.algo, record.precision));
    if (record.precision != NameOf(precision)) {
      result.detail = fmt::format(
          "the result was computed with --precision {}; run with that of "
          "the golden, or keep the golden's file too",
          NameOf(precision));
    }
    return result;
  }
  return CompareHash(record.sha256, actual);
}

// A golden that is no longer what was recorded proves nothing, whatever the result.
void CheckRecorded(const Golden& golden, CheckResult& result) {
  if (DataHash(golden.file->tensor) == golden.record->sha256) return;
  if (result.status != Verdict::kFailed) {
    result.reason = "the golden is not the one that was recorded";
  }
  result.status = Verdict::kFailed;
  result.detail = fmt::format(
      "the golden was changed after it was recorded: its data hash is not the one beside it, {}; "
      "restore it or record it again",
      golden.record->sha256);
}

}  // namespace

std::optional<std::string> ParseGoldenHash(const std::string& expect) {
  if (!expect.starts_with(kHashPrefix)) return std::nullopt;
  const std::string hash = expect.substr(kHashPrefix.size());
  if (IsDataHash(hash)) return hash;
  ThrowUsage("flag/value", fmt::format("golden '{}'", expect), "is no hash",
             "give 64 lower-case hexadecimal digits");
}

Golden LoadGolden(const std::string& expect, const NpyReadOptions& options) {
  Golden golden;
  golden.sha256 = ParseGoldenHash(expect);
  if (golden.sha256) return golden;
  golden.record = ReadRecord(RecordPathOf(expect));
  if (IsStandardStream(expect) || Exists(TensorFileOf(expect))) {
    golden.file = ReadTensor(expect, options);
  }
  if (!golden.file && !golden.record) {
    throw Error(ExitCode::kWrong, "golden/missing", expect, "there is no such golden",
                "check the path, or record it first");
  }
  return golden;
}

CheckResult CompareWith(const Golden& golden, const Problem& problem, const Tensor& first,
                        const Tensor& second, const Result& actual, CompareOptions options,
                        const Parallel& parallel) {
  if (golden.sha256) return CompareHash(*golden.sha256, actual.written);
  if (!golden.file) {
    CheckResult result = CompareRecord(*golden.record, actual.written, options.precision);
    if (golden.LostItsFile()) {
      const std::string rest = result.detail.empty() ? "" : "; " + result.detail;
      result.detail = "the golden's file is missing, so the hash beside it was compared" + rest;
    }
    return result;
  }
  options.golden_is_ours = golden.record && golden.record->IsReproducible(options.precision);
  // Told apart by the shapes that people know, another shape is incomparable.
  const bool fits = golden.file->tensor.shape() == actual.written.shape();
  CheckResult result =
      CompareToGolden(problem, first, second, fits ? actual.computed : actual.written,
                      golden.tensor, options, parallel);
  golden.file->CheckUnchanged();
  if (golden.record) CheckRecorded(golden, result);
  return result;
}

CheckResult CompareYours(const Yours& yours, const Problem& problem, const Tensor& first,
                         const Tensor& second, const Shape& written, const CompareOptions& options,
                         const Parallel& parallel) {
  // Told apart by the shapes that people know: a filter in our order is not one in theirs.
  const Tensor& given = yours.file.tensor;
  if (!InfoOf(given.dtype()).is_float || given.shape() != written) {
    return Incomparable(problem, given, written);
  }
  CheckResult result = CompareToExact(problem, first, second, yours.tensor, options, parallel);
  yours.file.CheckUnchanged();
  return result;
}

}  // namespace convgrad::cli
