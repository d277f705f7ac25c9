// Makes a case's result its golden: the file and the record beside it. Must not replace what was
// kept, unless told so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/record/golden_record.h"
#include "cli/report/report.h"
#include "files/tensor_file.h"
#include "problem/geometry.h"

namespace convgrad::cli {

struct RecordOptions {
  bool hash_only = false;         // no file, only the record
  bool force = false;             // also where another golden is kept
  bool allow_non_finite = false;  // also NaN and infinity
  std::optional<std::string> reason;
};

// Throws usage "record/in-ci" where the environment's CI is true: goldens are kept by people, and a
// machine that replaces them checks nothing. `what` would write them.
void RefuseInCi(const std::string& what);

class GoldenRecorder {
 public:
  // Throws the I/O errors of places that can't be written. `reading`: how a golden that is there is
  // read.
  GoldenRecorder(TensorTarget target, RecordOptions options, NpyReadOptions reading);

  // Throws kWrong "golden/non-finite", "golden/differs" or "golden/shared" for a result that must
  // not become the golden; writes nothing.
  void Accept(const Tensor& result);

  // Says whether the golden is there already, with a record of the same `inputs`: then Write()
  // leaves both as they are, whichever version recorded them and why.
  bool IsKept(Precision precision, const std::vector<InputRecord>& inputs) const;

  // Writes what is not there already. `result` was accepted; `inputs` have hashes.
  void Write(const Tensor& result, const Problem& problem, Precision precision,
             const std::vector<InputRecord>& inputs) const;

 private:
  enum class Kept { kNothing, kSame, kOther };

  Kept KeptFile() const;
  Kept KeptRecord();

  const TensorTarget target_;
  const std::string path_;  // for messages
  const RecordOptions options_;
  const NpyReadOptions reading_;
  std::string sha256_;  // of the result
  std::string reason_;
  Kept kept_file_ = Kept::kNothing;
  std::optional<GoldenRecord> kept_record_;  // of the same result
};

// Says whether the golden at this path, if there is one, is a file of its own, which another may
// take the place of: no member of an archive, nor one tensor of several, nor beside one of another
// name.
bool IsOwnFile(const TensorPath& golden);

// Those that have hashes, as a golden's record lists them.
std::vector<RecordedInput> RecordedInputsOf(const std::vector<InputRecord>& inputs);

}  // namespace convgrad::cli
