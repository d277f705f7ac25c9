// Makes a case's result its golden: the file and the record beside it. Must not replace what was
// kept, unless told so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/record/golden_record.h"
#include "cli/report/report.h"
#include "problem/geometry.h"
#include "tensor/npy.h"

namespace convgrad::cli {

struct RecordOptions {
  bool hash_only = false;         // no file, only the record
  bool force = false;             // also where another golden is kept
  bool allow_non_finite = false;  // also NaN and infinity
  std::optional<std::string> reason;
};

class GoldenRecorder {
 public:
  // Throws the I/O errors of places that can't be written. `reading`: how a golden that is there is
  // read.
  GoldenRecorder(std::string path, RecordOptions options, NpyReadOptions reading);

  // Throws kWrong "golden/non-finite" or "golden/differs" for a result that must not become the
  // golden; writes nothing.
  void Accept(const Tensor& result);

  // Writes what is not there already. `result` was accepted; `inputs` have hashes.
  void Write(const Tensor& result, const Problem& problem, Precision precision,
             const std::vector<InputRecord>& inputs) const;

 private:
  enum class Kept { kNothing, kSame, kOther };

  Kept KeptFile() const;
  Kept KeptRecord();

  const std::string path_;
  const RecordOptions options_;
  const NpyReadOptions reading_;
  std::string sha256_;  // of the result
  std::string reason_;
  Kept kept_file_ = Kept::kNothing;
};

// Those that have hashes, as a golden's record lists them.
std::vector<RecordedInput> RecordedInputsOf(const std::vector<InputRecord>& inputs);

}  // namespace convgrad::cli
