// The goldens that `check` holds a result against: a file, the record beside one that this program
// wrote, or a hash; and someone's result that is under test itself, held against the exact values.
#pragma once

#include <optional>
#include <string>

#include "cli/record/golden_record.h"
#include "files/tensor_file.h"
#include "problem/geometry.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

struct Golden {
  std::optional<StoredTensor> file;
  Tensor tensor;  // of the file; as our own result would be, if its shape fits
  std::optional<GoldenRecord> record;
  std::optional<std::string> sha256;  // given instead of a file

  // True if it was a file once, of which only the record is left.
  bool LostItsFile() const { return !file && record && record->has_file; }
};

// The hash that "sha256:HASH" names; none for a path. Throws usage "flag/value" for a HASH that is
// none.
std::optional<std::string> ParseGoldenHash(const std::string& expect);

// `expect`: a path or "sha256:HASH". Throws kWrong "golden/missing" when there is nothing, data
// "golden/malformed" for a broken record, and what ReadTensor throws.
Golden LoadGolden(const std::string& expect, const NpyReadOptions& options);

// The result of a case: as it was computed, and as it is written, which differs for a filter in
// another format.
struct Result {
  Tensor computed, written;
};

// The verdict on `actual`; `first` and `second` are the problem's operands.
CheckResult CompareWith(const Golden& golden, const Problem& problem, const Tensor& first,
                        const Tensor& second, const Result& actual, CompareOptions options,
                        const Parallel& parallel);

// Someone's result, a file that `check --actual` names.
struct Yours {
  StoredTensor file;
  Tensor tensor;  // of the file; as our own result would be, if its shape fits
};

// The verdict on it; `written` is the shape that it should have, of the case's filter format.
CheckResult CompareYours(const Yours& yours, const Problem& problem, const Tensor& first,
                         const Tensor& second, const Shape& written, const CompareOptions& options,
                         const Parallel& parallel);

}  // namespace convgrad::cli
