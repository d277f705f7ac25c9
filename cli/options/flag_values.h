// Flags with their values, from the command line or from a manifest's entry: what a case is made
// of, whoever asked for it. Must not know what values mean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options/flags.h"

namespace convgrad::cli {

// A position in a manifest, both counted from 1; 0 on the command line.
struct Place {
  int64_t line = 0;
  int64_t column = 0;
};

class FlagValues {
 public:
  struct Entry {
    FlagId id;
    std::string text;   // as the command line would have it
    std::string given;  // of a manifest's path: as it stands there, before it was resolved
    Place place;
  };

  // The flags of a command line.
  FlagValues() = default;
  // Those of a function's call, whose arguments are called as the keys of manifests are.
  static FlagValues OfCall();
  // Those of an entry of the manifest `source` (as messages call it).
  FlagValues(std::shared_ptr<const std::string> source, Place place)
      : source_(std::move(source)), has_keys_(true), place_(place) {}

  // In the table's order, whatever the order they come in; those of one flag in their own.
  void Add(Entry entry);
  template <class Predicate>
  void RemoveIf(const Predicate& predicate) {
    std::erase_if(entries_, predicate);
  }

  bool Has(FlagId id) const { return Find(id) != nullptr; }
  // The first value given, or null.
  const std::string* Find(FlagId id) const;
  std::string Get(FlagId id, const std::string& otherwise) const;
  const std::vector<Entry>& entries() const { return entries_; }

  // The place of the entry; nowhere for a command line.
  Place place() const { return place_; }

  // How messages call the flag: "--out-backprop", or "out_backprop" of a manifest or a call.
  std::string NameOf(FlagId id) const;

  // Throws `error`, in a manifest with the place of the flag (or of the entry, without it) in
  // front: "cases.json:4:18: ...".
  [[noreturn]] void Refuse(FlagId id, const Error& error) const;
  [[noreturn]] void RefuseAt(Place place, const Error& error) const;

  // Returns what `read`, given the flag's name, returns; throws what it throws as Refuse() does.
  template <class Read>
  auto Parse(FlagId id, const Read& read) const {
    try {
      return read(NameOf(id));
    } catch (const Error& error) {
      Refuse(id, error);
    }
  }

 private:
  std::shared_ptr<const std::string> source_;
  bool has_keys_ = false;
  Place place_;
  std::vector<Entry> entries_;
};

// "cases.json:4:18".
std::string FormatPlace(const std::string& source, Place place);

// `words` as a command line of a POSIX shell, valid UTF-8 without control characters: a word with
// others is written as $'\033', which shells know since POSIX.1-2024 (and Bash, Zsh and Ksh long
// before).
std::string ShellLine(const std::vector<std::string>& words);

// The words that give these flags: {"--strides", "2", "--output", "y.npy"}, those without
// Flag::in_repro only if asked for.
std::vector<std::string> FlagWords(const FlagValues& flags, bool with_outputs);

}  // namespace convgrad::cli
