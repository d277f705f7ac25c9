// Manifests: files that name cases, one after the other, each the same as a command line. Read in a
// stream, so that a million cases take no more memory than one. Must not know how cases are run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/case/case.h"
#include "cli/manifest/json_reader.h"
#include "cli/manifest/manifest_file.h"
#include "cli/manifest/manifest_paths.h"
#include "cli/manifest/manifest_value.h"
#include "cli/options/flag_values.h"

namespace convgrad::cli {

struct ManifestCase {
  int64_t index = 0;  // in the manifest, from 0
  Place place;
  std::vector<std::string> tags;
  int64_t count = 1;    // how often its problem comes in the log that it was taken from
  CaseRequest request;  // its name among the flags

  std::string name() const { return request.flags.Get(FlagId::kName, ""); }

  // One text for everything that decides the result and its verdict, with paths as they stand in
  // the manifest: the same wherever the manifest lies and however its cases are run.
  std::string Identity() const;
};

struct ManifestOptions {
  ManifestPathOptions paths;
  // Flags of the command line, given to every case on which they have an effect, instead of its
  // own.
  FlagValues overrides;
  // If set, hears of each mistake after which reading can go on; else the first is thrown.
  std::function<void(const Error&)> on_mistake;
};

class ManifestReader {
 public:
  // Reads schema and defaults, wherever they stand. `file` and `options` must outlive this.
  ManifestReader(const ManifestFile& file, const ManifestOptions& options);

  // The next case with the defaults merged in; none at the end. Its keys and their types are
  // checked, its values are ParseCase's business. Throws usage errors with line and column.
  std::optional<ManifestCase> Next();

 private:
  // One object of keys: a case or the defaults.
  struct Fields {
    Place place;
    std::string op;
    Place op_place;
    std::optional<std::vector<std::string>> tags;
    std::optional<int64_t> count;
    std::vector<FlagValues::Entry> entries;
  };

  void ReadHeader();
  void ReadHeaderKeys(JsonReader& json, Place begin);
  bool FirstLineIsHeader() const;
  void CheckSchema(const JsonReader& json, const JsonToken& value);
  Fields ReadFields(JsonReader& json, const JsonToken& begin);
  void ReadField(JsonReader& json, const JsonToken& key, Fields& fields);
  void CheckDefaults(const JsonReader& json) const;
  void FindCases();
  void FinishDocument();
  void CheckName(const Fields& fields) const;
  // Runs `step`; whether it made no mistake that was told.
  template <class Step>
  bool Attempt(const Step& step) const;
  ManifestCase Merge(Fields own);
  void MergeDefaults(CaseRequest& request) const;
  void MergeOverrides(FlagValues& flags, CommandId command) const;

  const ManifestFile& file_;
  const ManifestOptions& options_;
  ManifestPaths paths_;
  std::shared_ptr<const std::string> source_;
  Fields defaults_;
  JsonReader json_;
  const bool is_document_;
  KeySet keys_;  // of the document, as far as it was read
  bool in_cases_ = false;
  bool ended_ = false;
  int64_t next_index_ = 0;
};

}  // namespace convgrad::cli
