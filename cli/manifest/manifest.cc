#include "cli/manifest/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cli/manifest/manifest_value.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

constexpr const char* kSchema = "convgrad-manifest/1";
constexpr std::string_view kSchemaFamily = "convgrad-manifest/";
constexpr std::string_view kTopLevelKeys[] = {"schema", "defaults", "cases"};
constexpr std::string_view kHeaderKeys[] = {"schema", "defaults"};
constexpr int64_t kMaxCount = int64_t{1} << 53;

// These flags belong to one case alone.
constexpr FlagId kOwnFlags[] = {FlagId::kName, FlagId::kOutput, FlagId::kActual,
                                FlagId::kActualParts, FlagId::kExpect};
// These change no bit of any result: another machine may run the same plan otherwise.
constexpr FlagId kMachineFlags[] = {FlagId::kThreads, FlagId::kIsa, FlagId::kAlgorithm,
                                    FlagId::kMaxMemory};

const std::map<std::string, const Flag*, std::less<>>& CaseKeys() {
  static const auto* const keys = [] {
    auto* table = new std::map<std::string, const Flag*, std::less<>>;
    for (const Flag& flag : AllFlags()) {
      if (IsCaseKey(flag)) table->emplace(KeyOf(flag), &flag);
    }
    return table;
  }();
  return *keys;
}

std::vector<std::string_view> CaseKeyNames() {
  std::vector<std::string_view> names = {"op", "tags", "count"};
  for (const auto& [name, flag] : CaseKeys()) names.push_back(name);
  return names;
}

bool IsSwitchedOff(const FlagValues::Entry& entry) {
  return InfoOf(entry.id).kind == FlagKind::kSwitch && entry.text == "false";
}

// A hash is compared by bits, whatever the tolerance of other cases.
bool NamesHash(const FlagValues& flags) {
  return flags.Get(FlagId::kExpect, "").starts_with("sha256:");
}

int64_t ReadCount(const JsonReader& json, const JsonToken& value) {
  if (value.kind != JsonKind::kNumber) RefuseType(json, value, "count", "a whole number");
  return ParseInteger(FormatPlace(json.name(), value.place) + ": count", value.text, 1, kMaxCount);
}

}  // namespace

std::string ManifestCase::Identity() const {
  std::string text = fmt::format("{}\n{}\n", request.op, InfoOf(request.command).name);
  for (const FlagValues::Entry& entry : request.flags.entries()) {
    if (Contains(kMachineFlags, entry.id)) continue;
    const std::string& value = entry.given.empty() ? entry.text : entry.given;
    text += fmt::format("{}={}:{}\n", KeyOf(InfoOf(entry.id)), value.size(), value);
  }
  for (const std::string& tag : tags) text += fmt::format("tag={}:{}\n", tag.size(), tag);
  return text;
}

ManifestReader::ManifestReader(const ManifestFile& file, const ManifestOptions& options)
    : file_(file),
      options_(options),
      paths_(file.path(), options.paths),
      source_(std::make_shared<const std::string>(file.name())),
      json_(file.Open()),
      is_document_(json_.form() == JsonReader::Form::kDocument),
      keys_("a manifest", kTopLevelKeys) {
  ReadHeader();
}

// Schema and defaults hold for every case, also where they stand behind the cases: so they are read
// before the first.
void ManifestReader::ReadHeader() {
  if (!is_document_ && !FirstLineIsHeader()) return;
  JsonReader json = file_.Open();
  const JsonToken begin = json.Next();
  if (begin.kind != JsonKind::kBeginObject) {
    json.Refuse(begin.place, fmt::format("a manifest is an object, not {}", NameOf(begin.kind)),
                "give it the keys schema and cases");
  }
  ReadHeaderKeys(json, begin.place);
  if (!is_document_) json_.Skip(json_.Next());
}

void ManifestReader::ReadHeaderKeys(JsonReader& json, Place begin) {
  KeySet keys = is_document_ ? KeySet("a manifest", kTopLevelKeys)
                             : KeySet("a first line without op", kHeaderKeys);
  for (JsonToken key = json.Next(); key.kind == JsonKind::kKey; key = json.Next()) {
    Attempt([&] { keys.Add(json, key); });
    const JsonToken value = json.Next();
    if (key.text == "schema") {
      CheckSchema(json, value);
    } else if (key.text == "defaults") {
      defaults_ = ReadFields(json, value);
    } else {
      json.Skip(value);
    }
    // The rest is read with the cases.
    if (is_document_ && keys.Has("schema") && keys.Has("defaults")) break;
  }
  if (is_document_ && !keys.Has("schema")) {
    Attempt([&] {
      ThrowUsage("manifest/missing-key", FormatPlace(file_.name(), begin),
                 "the manifest has no key schema", fmt::format("add \"schema\": \"{}\"", kSchema));
    });
  }
  CheckDefaults(json);
}

bool ManifestReader::FirstLineIsHeader() const {
  JsonReader json = file_.Open();
  const JsonToken begin = json.Next();
  if (begin.kind == JsonKind::kEnd) {
    json.Refuse(begin.place, "there is nothing in it", "see 'convgrad help batch'");
  }
  if (begin.kind != JsonKind::kBeginObject) return false;
  for (JsonToken key = json.Next(); key.kind == JsonKind::kKey; key = json.Next()) {
    if (key.text == "op") return false;
    json.Skip(json.Next());
  }
  return true;
}

void ManifestReader::CheckSchema(const JsonReader& json, const JsonToken& value) {
  if (value.kind != JsonKind::kString) RefuseType(json, value, "schema", "a string");
  if (value.text == kSchema) return;
  const bool is_newer = value.text.starts_with(kSchemaFamily);
  ThrowUsage("manifest/schema",
             fmt::format("{}: schema '{}'", FormatPlace(json.name(), value.place),
                         value.text.substr(0, 100)),
             fmt::format("this version reads {}", kSchema),
             is_newer ? "use a version of convgrad that knows it" : "");
}

template <class Step>
bool ManifestReader::Attempt(const Step& step) const {
  try {
    step();
    return true;
  } catch (const Error& error) {
    const bool is_mistake =
        error.exit_code() == ExitCode::kUsage && error.code() != "manifest/syntax";
    if (!options_.on_mistake || !is_mistake) throw;
    options_.on_mistake(error);
    return false;
  }
}

ManifestReader::Fields ManifestReader::ReadFields(JsonReader& json, const JsonToken& begin) {
  if (begin.kind != JsonKind::kBeginObject) {
    json.Refuse(begin.place, fmt::format("an object is wanted here, not {}", NameOf(begin.kind)));
  }
  Fields fields;
  fields.place = begin.place;
  for (JsonToken key = json.Next(); key.kind == JsonKind::kKey; key = json.Next()) {
    const size_t depth = json.depth();
    if (!Attempt([&] { ReadField(json, key, fields); })) json.LeaveDownTo(depth);
  }
  return fields;
}

void ManifestReader::ReadField(JsonReader& json, const JsonToken& key, Fields& fields) {
  const JsonToken value = json.Next();
  if (key.text == "op") {
    if (fields.op_place.line > 0) RefuseDuplicate(json, key);
    if (value.kind != JsonKind::kString) RefuseType(json, value, key.text, "a string");
    fields.op = value.text;
    fields.op_place = value.place;
    return;
  }
  if (key.text == "tags") {
    if (fields.tags) RefuseDuplicate(json, key);
    fields.tags = ReadStrings(json, value, key.text);
    return;
  }
  if (key.text == "count") {
    if (fields.count) RefuseDuplicate(json, key);
    fields.count = ReadCount(json, value);
    return;
  }
  const auto row = CaseKeys().find(key.text);
  if (row == CaseKeys().end()) RefuseKey(json, key, CaseKeyNames(), "a case");
  const Flag& flag = *row->second;
  for (const FlagValues::Entry& entry : fields.entries) {
    if (entry.id == flag.id) RefuseDuplicate(json, key);
  }
  fields.entries.push_back(ReadFlagValue(json, value, flag, paths_));
}

void ManifestReader::CheckDefaults(const JsonReader& json) const {
  if (defaults_.count) {
    Attempt([&] {
      ThrowUsage("manifest/value", FormatPlace(json.name(), defaults_.place) + ": count",
                 "can't be the same for all cases", "give each case its own");
    });
  }
  for (const FlagValues::Entry& entry : defaults_.entries) {
    if (!Contains(kOwnFlags, entry.id)) continue;
    Attempt([&] {
      ThrowUsage(
          "manifest/value",
          fmt::format("{}: {}", FormatPlace(json.name(), entry.place), KeyOf(InfoOf(entry.id))),
          "can't be the same for all cases", "give each case its own");
    });
  }
}

std::optional<ManifestCase> ManifestReader::Next() {
  if (ended_) return std::nullopt;
  if (is_document_ && !in_cases_) FindCases();
  std::optional<ManifestCase> one;
  while (!one) {
    const JsonToken begin = json_.Next();
    ended_ = begin.kind == JsonKind::kEndArray || begin.kind == JsonKind::kEnd;
    if (ended_) break;
    Attempt([&] { one = Merge(ReadFields(json_, begin)); });
  }
  if (ended_ && is_document_) FinishDocument();
  return one;
}

// Moves to the first case.
void ManifestReader::FindCases() {
  const JsonToken begin = json_.Next();
  for (JsonToken key = json_.Next(); key.kind == JsonKind::kKey; key = json_.Next()) {
    Attempt([&] { keys_.Add(json_, key); });
    const JsonToken value = json_.Next();
    if (key.text == "cases") {
      if (value.kind != JsonKind::kBeginArray) RefuseType(json_, value, key.text, "an array");
      in_cases_ = true;
      return;
    }
    json_.Skip(value);
  }
  ThrowUsage("manifest/missing-key", FormatPlace(file_.name(), begin.place),
             "the manifest has no key cases", "add an array of cases");
}

// Everything behind the cases is read, so that a text that goes wrong there is refused.
void ManifestReader::FinishDocument() {
  for (JsonToken key = json_.Next(); key.kind == JsonKind::kKey; key = json_.Next()) {
    Attempt([&] { keys_.Add(json_, key); });
    json_.Skip(json_.Next());
  }
  json_.Next();
}

void ManifestReader::CheckName(const Fields& fields) const {
  for (const FlagValues::Entry& entry : fields.entries) {
    if (entry.id != FlagId::kName) continue;
    CheckCaseName("manifest/name", fmt::format("{}: name", FormatPlace(*source_, entry.place)),
                  entry.text);
    return;
  }
  ThrowUsage("manifest/missing-key", FormatPlace(*source_, fields.place),
             "this case has no key name", "every case needs a name of its own");
}

// Which flags have an effect follows from the operation and from what the case itself asks for: a
// golden or another flag of `check` alone makes it a check.
ManifestCase ManifestReader::Merge(Fields own) {
  Attempt([&] { CheckName(own); });
  ManifestCase merged;
  merged.index = next_index_++;
  merged.place = own.place;
  merged.count = own.count.value_or(1);
  merged.tags = own.tags ? *own.tags : defaults_.tags.value_or(std::vector<std::string>());
  CaseRequest& request = merged.request;
  request.flags = FlagValues(source_, own.place);
  const Fields& op_fields = own.op_place.line > 0 ? own : defaults_;
  request.op = op_fields.op;
  request.op_place = op_fields.op_place;
  if (request.op_place.line == 0) {
    ThrowUsage("manifest/missing-key", FormatPlace(*source_, own.place), "this case has no key op",
               "name an operation; 'convgrad info' lists them");
  }
  const auto is_checking = [](const FlagValues::Entry& entry) {
    return !Contains(InfoOf(entry.id).commands, CommandId::kRun) && !IsSwitchedOff(entry);
  };
  const bool is_check = std::any_of(own.entries.begin(), own.entries.end(), is_checking);
  request.command = is_check ? CommandId::kCheck : CommandId::kRun;
  for (FlagValues::Entry& entry : own.entries) request.flags.Add(std::move(entry));
  MergeDefaults(request);
  MergeOverrides(request.flags, request.command);
  return merged;
}

// A default that has no effect on a case is no error.
void ManifestReader::MergeDefaults(CaseRequest& request) const {
  const Op op = ParseOpOf(request);
  const std::string* padding = request.flags.Find(FlagId::kPadding);
  const bool is_hash = NamesHash(request.flags);
  const bool has_no_paddings =
      padding != nullptr && !IsSameWord(*padding, NameOf(Padding::kExplicit));
  for (const FlagValues::Entry& entry : defaults_.entries) {
    const bool has_effect = Contains(InfoOf(entry.id).commands, request.command) &&
                            TakesFlag(op, entry.id) &&
                            !(has_no_paddings && entry.id == FlagId::kExplicitPaddings) &&
                            !(is_hash && entry.id == FlagId::kTolerance);
    if (has_effect && !request.flags.Has(entry.id)) request.flags.Add(entry);
  }
  request.flags.RemoveIf(IsSwitchedOff);
}

void ManifestReader::MergeOverrides(FlagValues& flags, CommandId command) const {
  for (const FlagValues::Entry& entry : options_.overrides.entries()) {
    if (!Contains(InfoOf(entry.id).commands, command)) continue;
    flags.RemoveIf([&](const FlagValues::Entry& other) { return other.id == entry.id; });
    flags.Add(entry);
  }
}

}  // namespace convgrad::cli
