// Manifests: files that name cases, one after the other, each the same as a command line. Read in a
// stream, so that a million cases take no more memory than one. Must not know how cases are run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "cli/case/case.h"
#include "cli/manifest/json_reader.h"
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

// A manifest that can be read several times and stays the same meanwhile.
class ManifestFile {
 public:
  // JSON Lines if the name ends in .jsonl or .ndjson, else JSON. "-" is standard input, which is
  // kept in memory and may be either. Throws I/O errors.
  explicit ManifestFile(const std::string& path);
  // JSON Lines that lie nowhere; `name` as messages call them.
  ManifestFile(std::string name, std::string lines);

  const std::string& path() const { return path_; }
  // As messages call it.
  const std::string& name() const { return name_; }

  // From the first byte.
  JsonReader Open() const;

  // Throws "io/file-changed" if the file is no longer what it was at first.
  void CheckUnchanged() const;

 private:
  std::string path_;
  std::string name_;
  JsonReader::Form form_ = JsonReader::Form::kDocument;
  std::shared_ptr<const InputFile> first_;       // for CheckUnchanged
  std::shared_ptr<const std::string> contents_;  // of standard input
};

struct ManifestOptions {
  ManifestPathOptions paths;
  // Of the command line: given to every case on which they have an effect, instead of its own.
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
