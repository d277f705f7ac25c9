#include "cli/case/pending_golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "cli/case/golden_recorder.h"
#include "cli/case/operands.h"
#include "cli/record/pending.h"
#include "cli/text/json.h"
#include "cli/text/unicode.h"
#include "tensor/tensor_hash.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {
namespace {

constexpr const char* kPendingKey = "pending";
constexpr const char* kGoldenKey = "golden";
constexpr const char* kStateKey = "was";
constexpr const char* kBeforeKey = "error_before";
constexpr const char* kNowKey = "error_now";
constexpr const char* kElementsKey = "elements";
constexpr const char* kBoundUsedKey = "bound_used";

NpyReadOptions ReadingAs(const std::string& dtype) {
  NpyReadOptions options;
  options.view_as = ParseDType(dtype);
  options.allow_trailing = true;
  options.max_copied_bytes = MaxCopiedBytes(0);
  return options;
}

// None where it is malformed.
std::optional<StoredTensor> TryReadTensor(const std::string& path, const std::string& dtype) try {
  return ReadTensor(path, ReadingAs(dtype));
} catch (const Error& error) {
  if (error.exit_code() != ExitCode::kData) throw;
  return std::nullopt;
}

std::optional<GoldenRecord> TryReadRecord(const std::string& golden) try {
  return ReadRecord(RecordPathOf(golden));
} catch (const Error& error) {
  if (error.exit_code() != ExitCode::kData) throw;
  return std::nullopt;
}

// Describes a golden as far as a comparison can tell.
std::string StateOf(const std::string& golden, const std::string& dtype) {
  if (Exists(TensorFileOf(golden))) {
    const std::optional<StoredTensor> file = TryReadTensor(golden, dtype);
    return file ? DataHash(file->tensor) : "malformed";
  }
  const std::optional<GoldenRecord> record = TryReadRecord(golden);
  return record ? record->sha256 : "missing";
}

// Returns the name of the tensor that a pending file holds; "" in a .npy.
std::string NameIn(const std::string& path) {
  const TensorFile opened = OpenTensorFile(path);
  return opened.container ? opened.container->names().front() : "";
}

Json ReadRecordJson(const std::string& golden) {
  const std::string path = RecordPathOf(golden);
  const std::optional<std::string> text = ReadRecordText(path);
  if (!text) {
    throw Error(ExitCode::kIo, "io/not-found", path, "there is no such file",
                "give what batch --write-pending left");
  }
  try {
    return ParseJson(*text);
  } catch (const Json::exception& exception) {
    ThrowData("golden/malformed", path, WhyOf(exception));
  }
}

std::string DifferenceInWords(const CheckResult& check) {
  std::string text =
      fmt::format("{} of {} elements differ", check.counts.differ, check.counts.elements);
  if (check.worst.abs) {
    const WorstElement& worst = *check.worst.abs;
    text += fmt::format(", most at {}: {} now, {} before (by {:.3g})", ToString(worst.index),
                        worst.actual, worst.expected, worst.value);
  }
  return check.where.empty() ? text : text + "; where: " + check.where;
}

Json ErrorJsonOf(const ExactError& error) {
  Json json = {{kElementsKey, error.elements}, {kBoundUsedKey, nullptr}};
  if (std::isfinite(error.bound_used)) json[kBoundUsedKey] = error.bound_used;
  return json;
}

std::optional<ExactError> ReadError(const Json& pending, const char* key) {
  const auto error = pending.find(key);
  if (error == pending.end()) return std::nullopt;
  const Json& used = error->at(kBoundUsedKey);
  return ExactError{error->at(kElementsKey).get<int64_t>(),
                    used.is_null() ? std::numeric_limits<double>::infinity() : used.get<double>()};
}

// "" where nothing was measured.
std::string InWords(const PendingErrors& errors) {
  const auto& [before, now] = errors;
  if (!now) return "";
  if (!before) {
    return fmt::format("worst error over its bound: {:.2g}; not the exact value, rounded: {}",
                       now->bound_used, now->elements);
  }
  return fmt::format(
      "worst error over its bound: {:.2g} before, {:.2g} now; not the exact value, rounded: {} "
      "before, {} now",
      before->bound_used, now->bound_used, before->elements, now->elements);
}

}  // namespace

void MarkPending(const std::string& path, const std::string& golden, const PendingErrors& errors) {
  Json json = ReadRecordJson(path);
  const std::string state = StateOf(golden, json.at("dtype").get<std::string>());
  Json pending = {{kGoldenKey, ToValidUtf8(golden)}, {kStateKey, state}};
  if (errors.before) pending[kBeforeKey] = ErrorJsonOf(*errors.before);
  if (errors.now) pending[kNowKey] = ErrorJsonOf(*errors.now);
  json[kPendingKey] = std::move(pending);
  WriteTextFile(RecordPathOf(path), DumpJson(json, 2));
}

std::vector<std::string> FindPending(const std::vector<std::string>& operands) {
  std::vector<std::string> found;
  for (const std::string& operand : operands) {
    std::error_code error;
    if (!std::filesystem::is_directory(operand, error)) {
      if (!IsPendingName(operand)) {
        ThrowUsage("pending/name", operand, "is no result that was left for review",
                   "give a file F.new or the directory of batch --write-pending");
      }
      found.push_back(operand);
      continue;
    }
    std::vector<std::string> inside;
    std::filesystem::recursive_directory_iterator entries(operand, error), end;
    for (; !error && entries != end; entries.increment(error)) {
      const std::string path = entries->path().string();
      if (IsPendingName(path) && Exists(RecordPathOf(path))) inside.push_back(path);
    }
    if (error) ThrowSystemError(operand, "read", error.value());
    std::sort(inside.begin(), inside.end());
    found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

PendingGolden::PendingGolden(const std::string& path) : path_(path) {
  const Json json = ReadRecordJson(path);
  try {
    const Json& pending = json.at(kPendingKey);
    golden_ = pending.at(kGoldenKey).get<std::string>();
    was_ = pending.at(kStateKey).get<std::string>();
    errors_ = {ReadError(pending, kBeforeKey), ReadError(pending, kNowKey)};
  } catch (const Json::exception& exception) {
    ThrowData("golden/malformed", RecordPathOf(path), WhyOf(exception), "run the batch again");
  }
  CheckPath(golden_);
  record_ = *ReadRecord(RecordPathOf(path));
}

void PendingGolden::Check() const {
  Read();
  CheckGolden();
}

StoredTensor PendingGolden::Read() const {
  StoredTensor file = ReadTensor(path_, ReadingAs(record_.dtype));
  if (DataHash(file.tensor) != record_.sha256) {
    ThrowData("golden/malformed", path_, "is not what its record says", "run the batch again");
  }
  return file;
}

void PendingGolden::CheckGolden() const {
  if (StateOf(golden_, record_.dtype) == was_ && IsOwnFile(ParseTensorPath(golden_))) return;
  throw Error(ExitCode::kWrong, "golden/changed", golden_,
              "the golden is no longer what it was when this result was left for review",
              fmt::format("run the batch again, or remove {}", path_));
}

std::string PendingGolden::Difference(const Parallel& parallel) const {
  const std::string errors = InWords(errors_);
  const std::string more = errors.empty() ? "" : "\n  " + errors;
  if (Exists(TensorFileOf(golden_))) {
    const std::optional<StoredTensor> old = TryReadTensor(golden_, record_.dtype);
    if (!old) return "the golden that is there is malformed" + more;
    const CheckResult check = CompareTensors(Read().tensor, old->tensor, {}, parallel);
    return (check.policy == "none" ? check.detail : DifferenceInWords(check)) + more;
  }
  if (TryReadRecord(golden_)) return "of the golden only a hash was kept, which differs" + more;
  return "there is no golden yet" + more;
}

void PendingGolden::Accept(const std::optional<std::string>& reason) const {
  const StoredTensor file = Read();
  CheckGolden();
  Json json = ReadRecordJson(path_);
  json.erase(kPendingKey);
  const std::optional<GoldenRecord> old = TryReadRecord(golden_);
  // A golden of which only the hash was kept stays a hash.
  const bool has_file = Exists(TensorFileOf(golden_)) || !old || old->has_file;
  json["file"] = has_file;
  json["reason"] = ToValidUtf8(reason.value_or(old ? old->reason : ""));
  MakeDirectoriesOf(TensorFileOf(golden_));
  if (has_file) WriteTensor(ParseTensorTarget(golden_, NameIn(path_)), file.tensor);
  file.CheckUnchanged();
  WriteTextFile(RecordPathOf(golden_), DumpJson(json, 2));
  RemoveIfThere(path_);
  RemoveIfThere(RecordPathOf(path_));
}

}  // namespace convgrad::cli
