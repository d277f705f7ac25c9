#include "cli/record/golden_record.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/input_file.h"
#include "cli/record/machine.h"
#include "cli/record/problem_json.h"
#include "cli/text/json.h"
#include "cli/text/unicode.h"
#include "files/tensor_path.h"
#include "order/canonical_order.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

constexpr const char* kSchemaName = "convgrad-golden/1";

constexpr int64_t kMaxRecordBytes = 1 << 20;  // far more than any reason to record takes

constexpr const char* kSchemaKey = "schema";
constexpr const char* kSha256 = "sha256";
constexpr const char* kFile = "file";
constexpr const char* kDtype = "dtype";
constexpr const char* kShape = "shape";
constexpr const char* kAlgoKey = "algo";
constexpr const char* kPrecision = "precision";
constexpr const char* kVersion = "version";
constexpr const char* kInputs = "inputs";
constexpr const char* kRole = "role";
constexpr const char* kProblem = "problem";
constexpr const char* kReason = "reason";

[[noreturn]] void ThrowMalformed(const std::string& path, const std::string& why) {
  ThrowData("golden/malformed", path, why, "record the golden again");
}

std::string TextAt(const Json& json, const char* key) {
  return json.at(key).get<std::string>();
}

// Nothing but what decides how to compare has to be there.
GoldenRecord RecordOf(const Json& json) {
  GoldenRecord record = {TextAt(json, kSha256), TextAt(json, kDtype), json.at(kShape).get<Shape>(),
                         TextAt(json, kAlgoKey), TextAt(json, kPrecision)};
  for (const Json& input : json.value(kInputs, Json::array())) {
    record.inputs.push_back({TextAt(input, kRole), TextAt(input, kDtype), TextAt(input, kSha256)});
  }
  record.reason = json.value(kReason, std::string());
  record.has_file = json.value(kFile, false);
  return record;
}

}  // namespace

// Exact sums have no order that could have changed since.
bool GoldenRecord::IsReproducible(Precision now) const {
  return precision == NameOf(now) && (now == Precision::kExact || algo == kAlgo);
}

bool IsDataHash(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string RecordPathOf(const std::string& golden_path) {
  return TensorFileOf(golden_path) + ".golden.json";
}

std::optional<std::string> ReadRecordText(const std::string& path) {
  if (!Exists(path)) return std::nullopt;
  return InputFile::Open(path)->ReadRest(kMaxRecordBytes + 1);
}

std::optional<GoldenRecord> ReadRecord(const std::string& path) {
  const std::optional<std::string> text = ReadRecordText(path);
  if (!text) return std::nullopt;
  if (text->size() > size_t{kMaxRecordBytes}) {
    ThrowMalformed(path, fmt::format("has more than {} bytes", kMaxRecordBytes));
  }
  GoldenRecord record;
  try {
    const Json json = ParseJson(*text);
    const std::string schema = TextAt(json, kSchemaKey);
    if (schema != kSchemaName) {
      ThrowMalformed(path, fmt::format("schema '{}' is not {}", schema, kSchemaName));
    }
    record = RecordOf(json);
  } catch (const Json::exception& exception) {
    ThrowMalformed(path, WhyOf(exception));
  }
  record.text_sha256 = Sha256(text->data(), static_cast<int64_t>(text->size()));
  if (!IsDataHash(record.sha256)) ThrowMalformed(path, "sha256 is no hash of 64 lower-case digits");
  return record;
}

std::string RenderRecord(const std::string& sha256, bool has_file, const Shape& shape,
                         const Problem& problem, Precision precision,
                         const std::vector<RecordedInput>& inputs, const std::string& reason) {
  Json json = {{kSchemaKey, kSchemaName},
               {kSha256, sha256},
               {kFile, has_file},
               {kDtype, InfoOf(problem.dtype).name},
               {kShape, shape},
               {kAlgoKey, kAlgo},
               {kPrecision, NameOf(precision)},
               {kVersion, kBuild.version},
               {kInputs, Json::array()},
               {kProblem, ProblemJson(problem)},
               {kReason, ToValidUtf8(reason)}};
  for (const RecordedInput& input : inputs) {
    json[kInputs].push_back({{kRole, input.role}, {kDtype, input.dtype}, {kSha256, input.sha256}});
  }
  return DumpJson(json, 2);
}

}  // namespace convgrad::cli
