#include "cli/case/golden_recorder.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "tensor/statistics.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

void CheckFinite(const std::string& path, const Tensor& result) {
  const SpecialCounts counts = CountSpecial(result);
  if (counts.nan + counts.inf == 0) return;
  throw Error(ExitCode::kWrong, "golden/non-finite", path,
              fmt::format("the result has {} NaN and {} infinite elements", counts.nan, counts.inf),
              "give --allow-non-finite if that is right");
}

}  // namespace

GoldenRecorder::GoldenRecorder(std::string path, RecordOptions options, NpyReadOptions reading)
    : path_(std::move(path)), options_(std::move(options)), reading_(reading) {
  if (!options_.hash_only) CheckOutputPath(path_);
  CheckOutputPath(RecordPathOf(path_));
}

// A broken file is another golden too: it was meant to be one.
GoldenRecorder::Kept GoldenRecorder::KeptFile() const {
  if (!Exists(path_)) return Kept::kNothing;
  try {
    const NpyArray file = ReadNpy(path_, reading_);
    const std::string hash = DataHash(file.tensor);
    file.CheckUnchanged();
    return hash == sha256_ ? Kept::kSame : Kept::kOther;
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kData) throw;
    return Kept::kOther;
  }
}

GoldenRecorder::Kept GoldenRecorder::KeptRecord() {
  try {
    const std::optional<GoldenRecord> record = ReadRecord(RecordPathOf(path_));
    if (!record) return Kept::kNothing;
    if (record->sha256 != sha256_) return Kept::kOther;
    if (!options_.reason) reason_ = record->reason;
    return Kept::kSame;
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kData) throw;
    return Kept::kOther;
  }
}

void GoldenRecorder::Accept(const Tensor& result) {
  if (!options_.allow_non_finite) CheckFinite(path_, result);
  sha256_ = DataHash(result);
  reason_ = options_.reason.value_or("");
  kept_file_ = KeptFile();
  const Kept kept_record = KeptRecord();
  if (options_.hash_only && kept_file_ == Kept::kOther) {
    throw Error(ExitCode::kWrong, "golden/differs", path_,
                "this file is another golden, and a hash beside it would contradict it",
                "remove the file, or record without --hash-only");
  }
  if (options_.force || (kept_file_ != Kept::kOther && kept_record != Kept::kOther)) return;
  throw Error(ExitCode::kWrong, "golden/differs", path_,
              "another golden is kept here, and the result is not the same",
              "run without --record to see how they differ; --force-record replaces it");
}

// The record comes last: a file without one is only held to less.
void GoldenRecorder::Write(const Tensor& result, const Problem& problem, Precision precision,
                           const std::vector<InputRecord>& inputs) const {
  const std::string text = RenderRecord(sha256_, !options_.hash_only, result.shape(), problem,
                                        precision, RecordedInputsOf(inputs), reason_);
  if (!options_.hash_only && kept_file_ != Kept::kSame) WriteNpy(path_, result);
  const std::string record_path = RecordPathOf(path_);
  if (ReadRecordText(record_path) != text) WriteTextFile(record_path, text);
}

std::vector<RecordedInput> RecordedInputsOf(const std::vector<InputRecord>& inputs) {
  std::vector<RecordedInput> recorded;
  for (const InputRecord& input : inputs) {
    if (input.sha256) recorded.push_back({input.role, input.dtype, *input.sha256});
  }
  return recorded;
}

}  // namespace convgrad::cli
