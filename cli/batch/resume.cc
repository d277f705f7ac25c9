#include "cli/batch/resume.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/float16.h"
#include "base/parallel.h"
#include "cli/batch/part_job.h"
#include "cli/case/case_run.h"
#include "cli/case/operands.h"
#include "cli/parts/part_operands.h"
#include "cli/record/golden_record.h"
#include "cli/text/json.h"
#include "files/part_file.h"
#include "tensor/tensor_hash.h"
#include "verify/truth/fill.h"

namespace convgrad::cli {
namespace {

// The data hash of a file, seen as the case sees it.
std::string HashOfFile(const std::string& path, const std::string& dtype, const CaseSpec& spec) {
  NpyReadOptions options;
  options.view_as = ParseDType(dtype);
  options.allow_trailing = spec.allow_trailing;
  options.max_copied_bytes = MaxCopiedBytes(spec.execution.max_memory_bytes);
  const StoredTensor file = ReadTensor(path, options);
  std::string hash = DataHash(file.tensor);
  file.CheckUnchanged();
  return hash;
}

// The data hash of the bfloat16 tensor that a float32 file was made from; empty if it is made from
// none.
std::string HashOfWidened(const std::string& path, const CaseSpec& spec) {
  NpyReadOptions options;
  options.max_copied_bytes = MaxCopiedBytes(spec.execution.max_memory_bytes);
  const StoredTensor file = ReadTensor(path, options);
  const Tensor& wide = file.tensor;
  if (wide.dtype() != DType::kFloat32) return "";
  Tensor narrow(DType::kBFloat16, wide.shape());
  for (int64_t i = 0; i < wide.num_elements(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(wide.data<float>()[i]);
    if ((bits & 0xFFFF) != 0) return "";
    narrow.mutable_data<BFloat16>()[i] = {static_cast<uint16_t>(bits >> 16)};
  }
  file.CheckUnchanged();
  return DataHash(narrow);
}

// Where the case has the operand or the sizes of this role now.
std::string PathOf(const std::string& role, const CaseSpec& spec) {
  const OpInfo& op = InfoOf(spec.conv.op);
  for (int i = 0; i < 2; ++i) {
    if (role == NameOf(op.operands[i])) return spec.operands[i];
  }
  if (role == kActualRole) return spec.actual.value_or("");
  return spec.sizes;
}

// The part of someone's result that the entry lists, if the case still has it.
std::string PartAt(const Json& input, const CaseSpec& spec) {
  const std::string path = input.at("path").get<std::string>();
  return std::ranges::find(spec.actual_parts, path) == spec.actual_parts.end() ? "" : path;
}

// The golden itself, its record, and whether there is one of each, decide the verdict.
bool HoldsGolden(const Json& input, const CaseSpec& spec) {
  const std::string& path = *spec.expect;
  const std::optional<GoldenRecord> record = ReadRecord(RecordPathOf(path));
  if (input.value("record_sha256", "") != (record ? record->text_sha256 : "")) return false;
  if (input.value("hash_only", false)) return !Exists(TensorFileOf(path));
  return HashOfFile(path, input.at("dtype").get<std::string>(), spec) ==
         input.at("sha256").get<std::string>();
}

bool HoldsInput(const Json& input, const CaseSpec& spec) {
  const std::string role = input.at("role").get<std::string>();
  if (role == kGoldenRole) return HoldsGolden(input, spec);
  const std::string path = role == kActualPartRole ? PartAt(input, spec) : PathOf(role, spec);
  if (IsFill(path)) return true;  // a fill is what its words, seed and the version say
  return HashOfFile(path, input.at("dtype").get<std::string>(), spec) ==
         input.at("sha256").get<std::string>();
}

bool HoldsInputs(const Json& entry, const CaseSpec& spec) {
  bool lists_golden = false, lists_actual = false;
  size_t parts = 0;
  for (const Json& input : entry.at("inputs")) {
    if (!HoldsInput(input, spec)) return false;
    lists_golden |= input.at("role") == kGoldenRole;
    lists_actual |= input.at("role") == kActualRole;
    parts += input.at("role") == kActualPartRole;
  }
  // Not listed without hashes.
  return (lists_golden || !spec.NamesGoldenFile()) && (lists_actual || !spec.actual) &&
         parts == spec.actual_parts.size();
}

bool HoldsOutput(const Json& entry, const CaseSpec& spec) {
  if (!spec.output) return true;
  const Json& output = entry.at("output");
  const std::string dtype = entry.at("problem").at("dtype").get<std::string>();
  const bool is_widened =
      dtype == InfoOf(DType::kBFloat16).name && spec.write.bfloat16_as == BFloat16Form::kF4;
  return (is_widened ? HashOfWidened(*spec.output, spec) : HashOfFile(*spec.output, dtype, spec)) ==
         output.at("sha256").get<std::string>();
}

std::optional<CaseStatus> ResultOf(const std::string& status) {
  for (const CaseStatus result :
       {CaseStatus::kPassed, CaseStatus::kSuspect, CaseStatus::kFailed, CaseStatus::kComputed}) {
    if (status == NameOf(result)) return result;
  }
  return std::nullopt;
}

// The file's hash, which is that of all its bytes.
std::string ReadThrough(PartReader& reader) {
  std::vector<std::byte> buffer(kPieceBytes);
  for (int64_t left = *reader.header().DataBytes(); left > 0; left -= kPieceBytes) {
    reader.Read(buffer.data(), std::min(left, kPieceBytes));
  }
  return reader.Finish();
}

bool HoldsPart(const Json& part, const CaseJob& job, const Console& console) {
  if (part.at("path") != job.part->path) return false;
  PartReader reader(job.part->path);
  const CaseSpec spec = ParseCase(RequestOfPart(job));
  Operands operands(spec, console);
  operands.Load(Parallel(1));
  const bool holds = reader.header().precision == NameOf(spec.execution.precision) &&
                     IsPartOf(reader.header(), operands) &&
                     ReadThrough(reader) == part.at("sha256");
  operands.CheckUnchanged();
  return holds;
}

ResumedEntry Resumed(Json entry, int64_t index, CaseStatus status, ExitCode exit_code) {
  entry["family_index"] = index;
  entry["resumed"] = true;
  entry.erase("shard");  // of the events file alone
  return {DumpJson(entry), status, exit_code};
}

}  // namespace

std::optional<ResumedEntry> ResumeFrom(const std::string& line, const CaseSpec& spec,
                                       int64_t index) try {
  Json entry = ParseJson(line);
  const auto status = ResultOf(entry.at("status").get<std::string>());
  const auto exit_code = ToExitCode(entry.at("exit_code").get<int64_t>());
  if (!status || !exit_code || entry.contains("error")) return std::nullopt;
  if (!HoldsInputs(entry, spec) || !HoldsOutput(entry, spec)) return std::nullopt;
  return Resumed(std::move(entry), index, *status, *exit_code);
} catch (const Json::exception&) {
  return std::nullopt;  // no entry of ours
} catch (const Error&) {
  return std::nullopt;  // a file that can't be read now: the case itself will say why
}

std::optional<ResumedEntry> ResumePart(const std::string& line, const CaseJob& job,
                                       const Console& console) try {
  Json entry = ParseJson(line);
  if (entry.at("status") != NameOf(CaseStatus::kComputed) || entry.contains("error") ||
      !HoldsPart(entry.at("part"), job, console)) {
    return std::nullopt;
  }
  return Resumed(std::move(entry), job.index, CaseStatus::kComputed, ExitCode::kOk);
} catch (const Json::exception&) {
  return std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace convgrad::cli
