#include "cli/case/golden_recorder.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "cli/text/environment.h"
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

void RefuseInCi(const std::string& what) {
  if (Variable("CI") != "true") return;
  ThrowUsage("record/in-ci", what, "no golden is written in CI, where CI is 'true'",
             "record where the results can be reviewed, and commit the goldens");
}

GoldenRecorder::GoldenRecorder(TensorTarget target, RecordOptions options, NpyReadOptions reading)
    : target_(std::move(target)),
      path_(ToString(target_.path)),
      options_(std::move(options)),
      reading_(reading) {
  if (!options_.hash_only) CheckOutputPath(target_.path.file);
  CheckOutputPath(RecordPathOf(target_.path.file));
}

// A broken file is another golden too: it was meant to be one.
GoldenRecorder::Kept GoldenRecorder::KeptFile() const {
  if (!Exists(target_.path.file)) return Kept::kNothing;
  try {
    const StoredTensor file = ReadTensor(target_.path, reading_);
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
    const std::optional<GoldenRecord> record = ReadRecord(RecordPathOf(target_.path.file));
    if (!record) return Kept::kNothing;
    if (record->sha256 != sha256_) return Kept::kOther;
    if (!options_.reason) reason_ = record->reason;
    kept_record_ = record;
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
  if (!options_.hash_only && !IsOwnFile(target_.path)) {
    throw Error(ExitCode::kWrong, "golden/shared", path_,
                "the file holds other tensors too, which would be lost",
                "keep each golden in a file of its own");
  }
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

bool GoldenRecorder::IsKept(Precision precision, const std::vector<InputRecord>& inputs) const {
  if (!kept_record_ || !kept_record_->IsReproducible(precision)) return false;
  const bool is_whole = kept_record_->has_file ? kept_file_ == Kept::kSame
                                               : options_.hash_only && kept_file_ == Kept::kNothing;
  return is_whole && kept_record_->inputs == RecordedInputsOf(inputs);
}

// The record comes last: a file without one is only held to less.
void GoldenRecorder::Write(const Tensor& result, const Problem& problem, Precision precision,
                           const std::vector<InputRecord>& inputs) const {
  if (IsKept(precision, inputs)) return;
  const std::string text = RenderRecord(sha256_, !options_.hash_only, result.shape(), problem,
                                        precision, RecordedInputsOf(inputs), reason_);
  if (!options_.hash_only && kept_file_ != Kept::kSame) WriteTensor(target_, result);
  const std::string record_path = RecordPathOf(target_.path.file);
  if (ReadRecordText(record_path) != text) WriteTextFile(record_path, text);
}

bool IsOwnFile(const TensorPath& golden) {
  if (FormatOfName(golden.file) == TensorFormat::kNpz) return false;
  if (!Exists(golden.file)) return true;
  try {
    const TensorFile opened = OpenTensorFile(golden.file);
    if (!opened.container) return true;
    const std::vector<std::string>& names = opened.container->names();
    return names.size() == 1 && names.front() == golden.name.value_or(names.front());
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kData) throw;
    return true;  // a broken file
  }
}

std::vector<RecordedInput> RecordedInputsOf(const std::vector<InputRecord>& inputs) {
  std::vector<RecordedInput> recorded;
  for (const InputRecord& input : inputs) {
    if (input.sha256) recorded.push_back({input.role, input.dtype, *input.sha256});
  }
  return recorded;
}

}  // namespace convgrad::cli
