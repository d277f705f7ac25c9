#include "cli/manifest/manifest_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/case/operands.h"
#include "files/tensor_path.h"
#include "verify/truth/fill.h"

namespace convgrad::cli {
namespace {

constexpr size_t kShownTextBytes = 100;

[[noreturn]] void RefuseValue(const JsonReader& json, Place place, const std::string& key,
                              const std::string& why, const std::string& fix = "") {
  ThrowUsage("manifest/value", fmt::format("{}: {}", FormatPlace(json.name(), place), key), why,
             fix);
}

// A whole number as it is written: 2, not 2.0, 2e0 or -0.
std::string IntegerText(const JsonReader& json, const JsonToken& token, const std::string& key,
                        const char* wanted) {
  if (token.kind != JsonKind::kNumber) RefuseType(json, token, key, wanted);
  const std::string shown = token.text.substr(0, kShownTextBytes);
  int64_t value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (stop != end) {
    RefuseValue(json, token.place, key, fmt::format("{} is not a whole number", shown),
                "write it without a point or an exponent");
  }
  if (error != std::errc()) {
    RefuseValue(json, token.place, key, fmt::format("{} is out of range", shown),
                "whole numbers have 64 bits");
  }
  if (value == 0 && token.text != "0")
    RefuseValue(json, token.place, key, "-0 is no size", "write 0");
  return token.text;
}

// An array of whole numbers, as "1,2,2,1".
std::string ReadIntegers(JsonReader& json, const std::string& key, const char* wanted) {
  constexpr size_t kMaxNumbers = 256;
  std::string list;
  size_t count = 0;
  for (JsonToken item = json.Next(); item.kind != JsonKind::kEndArray; item = json.Next()) {
    if (++count > kMaxNumbers) {
      RefuseValue(json, item.place, key, fmt::format("has more than {} numbers", kMaxNumbers));
    }
    list += (list.empty() ? "" : ",") + IntegerText(json, item, key, wanted);
  }
  return list;
}

// The same or an array of such arrays, as "[[0,0],[1,1]]".
std::string ReadNestedIntegers(JsonReader& json, const std::string& key, const char* wanted) {
  constexpr size_t kMaxItems = 256;
  std::string list;
  size_t count = 0;
  bool is_nested = false;
  for (JsonToken item = json.Next(); item.kind != JsonKind::kEndArray; item = json.Next()) {
    if (++count > kMaxItems) {
      RefuseValue(json, item.place, key, fmt::format("has more than {} numbers", kMaxItems));
    }
    if (count > 1) list += ",";
    if (item.kind == JsonKind::kBeginArray) {
      is_nested = true;
      list += "[" + ReadIntegers(json, key, wanted) + "]";
    } else {
      list += IntegerText(json, item, key, wanted);
    }
  }
  return is_nested ? "[" + list + "]" : list;
}

std::string StringOf(const JsonReader& json, const JsonToken& token, const std::string& key,
                     const char* wanted) {
  if (token.kind != JsonKind::kString) RefuseType(json, token, key, wanted);
  return token.text;
}

// Throws for what stands for standard input or output on a command line: the cases of a manifest
// can't share it.
void RefuseStream(const JsonReader& json, const JsonToken& token, const std::string& key) {
  if (IsStandardStream(token.text)) {
    RefuseValue(json, token.place, key, "'-' is the standard stream of the whole batch",
                "name a file");
  }
}

// Reads {"fill": "normal", "shape": [8,56,56,32], "seed": 1} as fill:normal@8,56,56,32#1.
std::string ReadFill(JsonReader& json, const JsonToken& begin, const std::string& key) {
  constexpr std::string_view kKeys[] = {"fill", "shape", "seed"};
  KeySet keys(fmt::format("the fill of {}", key), kKeys);
  std::string fill, shape, seed;
  for (JsonToken name = json.Next(); name.kind == JsonKind::kKey; name = json.Next()) {
    keys.Add(json, name);
    const JsonToken value = json.Next();
    if (name.text == "fill") {
      fill = StringOf(json, value, name.text, "a string");
    } else if (name.text == "seed") {
      seed = "#" + IntegerText(json, value, name.text, "a whole number");
    } else {
      if (value.kind != JsonKind::kBeginArray) RefuseType(json, value, name.text, "an array");
      shape = "@" + ReadIntegers(json, name.text, "an array of whole numbers");
    }
  }
  if (!keys.Has("fill")) {
    RefuseValue(json, begin.place, key, "this object has no key fill", "name the fill");
  }
  return (IsFill(fill) ? "" : "fill:") + fill + shape + seed;
}

// Reads {"sha256": "..."} as sha256:....
std::string ReadHash(JsonReader& json, const JsonToken& begin, const std::string& key) {
  constexpr std::string_view kKeys[] = {"sha256"};
  KeySet keys(key, kKeys);
  std::string hash;
  for (JsonToken name = json.Next(); name.kind == JsonKind::kKey; name = json.Next()) {
    keys.Add(json, name);
    hash = StringOf(json, json.Next(), name.text, "a string");
  }
  if (!keys.Has("sha256")) {
    RefuseValue(json, begin.place, key, "this object has no key sha256", "give the golden's hash");
  }
  return "sha256:" + hash;
}

class FlagValueReader {
 public:
  FlagValueReader(JsonReader& json, const JsonToken& first, const Flag& flag,
                  const ManifestPaths& paths)
      : json_(json), first_(first), flag_(flag), key_(KeyOf(flag)), paths_(paths) {}

  FlagValues::Entry Read() {
    FlagValues::Entry entry = {flag_.id, "", "", first_.place};
    switch (flag_.kind) {
      case FlagKind::kSwitch:
      case FlagKind::kBoolean: entry.text = ReadBoolean(); break;
      case FlagKind::kText: entry.text = String("a string"); break;
      case FlagKind::kInteger: entry.text = Integer("a whole number"); break;
      case FlagKind::kIntegers: entry.text = ReadList(); break;
      case FlagKind::kPadding: entry.text = ReadPadding(); break;
      case FlagKind::kAmount: entry.text = ReadAmount(); break;
      case FlagKind::kOperand:
      case FlagKind::kSizes:
      case FlagKind::kGolden:
      case FlagKind::kRead:
      case FlagKind::kReads:
      case FlagKind::kWritten: ReadPlace(entry); break;
    }
    if (entry.text.find('\0') != std::string::npos) {
      RefuseValue(json_, first_.place, key_, "it contains a NUL character", "leave it out");
    }
    return entry;
  }

 private:
  std::string String(const char* wanted) const { return StringOf(json_, first_, key_, wanted); }
  std::string Integer(const char* wanted) const { return IntegerText(json_, first_, key_, wanted); }

  std::string ReadBoolean() const {
    if (first_.kind == JsonKind::kTrue) return "true";
    if (first_.kind == JsonKind::kFalse) return "false";
    RefuseType(json_, first_, key_, "true or false");
  }

  std::string ReadList() {
    constexpr const char* kWanted = "a whole number or an array of them";
    if (first_.kind == JsonKind::kBeginArray) return ReadNestedIntegers(json_, key_, kWanted);
    return Integer(kWanted);
  }

  std::string ReadPadding() {
    if (first_.kind != JsonKind::kString) return ReadList();
    return String("a string, a whole number or an array of them");
  }

  std::string ReadAmount() const {
    constexpr const char* kWanted = "a whole number or a string";
    if (first_.kind == JsonKind::kNumber) return Integer(kWanted);
    return String(kWanted);
  }

  // A path, or what the flag takes instead of one.
  void ReadPlace(FlagValues::Entry& entry) {
    if (flag_.kind == FlagKind::kOperand && first_.kind == JsonKind::kBeginObject) {
      entry.text = ReadFill(json_, first_, key_);
    } else if (flag_.kind == FlagKind::kGolden && first_.kind == JsonKind::kBeginObject) {
      entry.text = ReadHash(json_, first_, key_);
    } else if (flag_.kind == FlagKind::kSizes && first_.kind == JsonKind::kBeginArray) {
      entry.text = ReadIntegers(json_, key_, "an array of whole numbers");
    } else if (flag_.kind == FlagKind::kReads && first_.kind == JsonKind::kBeginArray) {
      ReadPaths(entry);
    } else {
      ReadPath(first_, entry);
    }
  }

  // An array of them, as the command line has it.
  void ReadPaths(FlagValues::Entry& entry) {
    constexpr size_t kMaxPaths = 100'000;
    size_t count = 0;
    std::string paths, given;
    for (JsonToken item = json_.Next(); item.kind != JsonKind::kEndArray; item = json_.Next()) {
      if (++count > kMaxPaths) {
        RefuseValue(json_, item.place, key_, fmt::format("has more than {} paths", kMaxPaths));
      }
      ReadPath(item, entry);
      paths += (count > 1 ? "," : "") + entry.text;
      given += (count > 1 ? "," : "") + entry.given;
    }
    if (count == 0) RefuseValue(json_, first_.place, key_, "has no path", "name a file");
    entry.text = paths;
    entry.given = given;
  }

  const char* Wanted() const {
    switch (flag_.kind) {
      case FlagKind::kOperand: return "a path or an object with the key fill";
      case FlagKind::kGolden: return "a path or an object with the key sha256";
      case FlagKind::kSizes: return "an array of whole numbers or a path";
      case FlagKind::kReads: return "a path or an array of paths";
      default: return "a path";
    }
  }

  void ReadPath(const JsonToken& token, FlagValues::Entry& entry) {
    const std::string given = StringOf(json_, token, key_, Wanted());
    RefuseStream(json_, token, key_);
    if (flag_.kind == FlagKind::kReads && given.find(',') != std::string::npos) {
      RefuseValue(json_, token.place, key_, "a comma parts one file from the next",
                  "name a file without one");
    }
    const bool stands_for_data = (flag_.kind == FlagKind::kOperand && IsFill(given)) ||
                                 (flag_.kind == FlagKind::kGolden && given.starts_with("sha256:"));
    if (stands_for_data) {
      entry.text = given;
      return;
    }
    if (flag_.kind == FlagKind::kSizes && !given.empty() && IsInlineSizes(given)) {
      RefuseType(json_, first_, key_, Wanted());
    }
    try {
      entry.text = Resolve(given);
    } catch (const Error& error) {
      throw Error(error.exit_code(), error.code(),
                  fmt::format("{}: {}", FormatPlace(json_.name(), token.place), key_),
                  error.message());
    }
    entry.given = given;
  }

  std::string Resolve(const std::string& given) const {
    switch (flag_.kind) {
      case FlagKind::kWritten: return paths_.ForWriting(given);
      case FlagKind::kGolden: return paths_.ForGolden(given);
      default: return paths_.ForReading(given);
    }
  }

  JsonReader& json_;
  const JsonToken& first_;
  const Flag& flag_;
  const std::string key_;
  const ManifestPaths& paths_;
};

}  // namespace

FlagValues::Entry ReadFlagValue(JsonReader& json, const JsonToken& first, const Flag& flag,
                                const ManifestPaths& paths) {
  return FlagValueReader(json, first, flag, paths).Read();
}

std::vector<std::string> ReadStrings(JsonReader& json, const JsonToken& first,
                                     const std::string& key) {
  constexpr const char* kWanted = "an array of strings";
  constexpr size_t kMaxStrings = 1000;
  if (first.kind != JsonKind::kBeginArray) RefuseType(json, first, key, kWanted);
  std::vector<std::string> strings;
  for (JsonToken item = json.Next(); item.kind != JsonKind::kEndArray; item = json.Next()) {
    strings.push_back(StringOf(json, item, key, kWanted));
    if (strings.size() > kMaxStrings) {
      RefuseValue(json, item.place, key, fmt::format("has more than {} strings", kMaxStrings));
    }
  }
  return strings;
}

void RefuseType(const JsonReader& json, const JsonToken& token, const std::string& key,
                const std::string& wanted) {
  RefuseValue(json, token.place, key, fmt::format("wants {}, not {}", wanted, NameOf(token.kind)));
}

void RefuseKey(const JsonReader& json, const JsonToken& key,
               std::span<const std::string_view> known, const std::string& owner) {
  const auto nearest = Nearest(key.text, known);
  ThrowUsage("manifest/unknown-key",
             fmt::format("{}: {}", FormatPlace(json.name(), key.place),
                         key.text.substr(0, kShownTextBytes)),
             fmt::format("{} has no such key", owner),
             nearest ? fmt::format("did you mean {}?", *nearest)
                     : fmt::format("the keys are {}", fmt::join(known, ", ")));
}

void RefuseDuplicate(const JsonReader& json, const JsonToken& key) {
  ThrowUsage("manifest/duplicate-key",
             fmt::format("{}: {}", FormatPlace(json.name(), key.place),
                         key.text.substr(0, kShownTextBytes)),
             "the key is given more than once", "keep one");
}

void KeySet::Add(const JsonReader& json, const JsonToken& key) {
  if (std::find(known_.begin(), known_.end(), key.text) == known_.end()) {
    RefuseKey(json, key, known_, owner_);
  }
  if (Has(key.text)) RefuseDuplicate(json, key);
  seen_.push_back(key.text);
}

bool KeySet::Has(std::string_view key) const {
  return std::find(seen_.begin(), seen_.end(), key) != seen_.end();
}

}  // namespace convgrad::cli
