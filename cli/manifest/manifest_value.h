// The value of one key of a manifest as the text that the flag of the same name takes.
#pragma once

#include "cli/manifest/json_reader.h"
#include "cli/manifest/manifest_paths.h"
#include "cli/options/flag_values.h"

namespace convgrad::cli {

// Reads the value that `first` begins. Switches read "true" or "false". Throws usage
// "manifest/value" with place for a value of another type than the flag's.
FlagValues::Entry ReadFlagValue(JsonReader& json, const JsonToken& first, const Flag& flag,
                                const ManifestPaths& paths);

// An array of strings.
std::vector<std::string> ReadStrings(JsonReader& json, const JsonToken& first,
                                     const std::string& key);

// Throws usage "manifest/value": KEY wants `wanted`, not what stands there.
[[noreturn]] void RefuseType(const JsonReader& json, const JsonToken& token, const std::string& key,
                             const std::string& wanted);

// Throws usage "manifest/unknown-key" with the nearest of `known`.
[[noreturn]] void RefuseKey(const JsonReader& json, const JsonToken& key,
                            std::span<const std::string_view> known, const std::string& owner);

// Throws usage "manifest/duplicate-key".
[[noreturn]] void RefuseDuplicate(const JsonReader& json, const JsonToken& key);

// The keys of an object that has few.
class KeySet {
 public:
  // `owner` as messages call the object: "a fill". `known` must outlive this.
  KeySet(std::string owner, std::span<const std::string_view> known)
      : owner_(std::move(owner)), known_(known) {}

  // Refuses a key that is unknown or that came before.
  void Add(const JsonReader& json, const JsonToken& key);
  bool Has(std::string_view key) const;

 private:
  std::string owner_;
  std::span<const std::string_view> known_;
  std::vector<std::string> seen_;
};

}  // namespace convgrad::cli
