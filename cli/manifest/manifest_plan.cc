#include "cli/manifest/manifest_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "cli/record/golden_record.h"
#include "cli/record/pending.h"
#include "files/tensor_path.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

// Stands for a text among millions: equal digests of different texts are not to be expected, and
// would cost no more than a refusal.
struct Digest {
  uint64_t first, second;
  auto operator<=>(const Digest&) const = default;
};

Digest DigestOf(std::string_view text) {
  uint64_t fnv = 0xCBF29CE484222325;  // FNV-1a, beside the library's own
  for (const char letter : text) {
    fnv = (fnv ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return {std::hash<std::string_view>()(text), fnv};
}

bool Contains(const std::vector<Digest>& sorted, const Digest& digest) {
  return std::binary_search(sorted.begin(), sorted.end(), digest);
}

// Sorts; returns those that are there more than once, each once, sorted.
std::vector<Digest> FindDoubles(std::vector<Digest>& digests) {
  std::sort(digests.begin(), digests.end());
  std::vector<Digest> doubles;
  for (size_t i = 1; i < digests.size(); ++i) {
    const bool is_known = !doubles.empty() && doubles.back() == digests[i];
    if (digests[i] == digests[i - 1] && !is_known) doubles.push_back(digests[i]);
  }
  return doubles;
}

// The digests of a case's file `path`, each once.
void AddKeys(const std::string& path, std::vector<Digest>& digests) {
  for (const std::string& key : FileKeys(TensorFileOf(path))) digests.push_back(DigestOf(key));
}

// The digests of the file that the entry names, and of the record beside a golden.
std::vector<Digest> DigestsOf(const FlagValues::Entry& entry) {
  std::vector<Digest> digests;
  for (const std::string& file : FilesIn(InfoOf(entry.id), entry.text)) AddKeys(file, digests);
  if (entry.id == FlagId::kExpect) AddKeys(RecordPathOf(entry.text), digests);
  return digests;
}

// `records`: goldens are written, not read.
bool IsWritten(const FlagValues::Entry& entry, bool records) {
  const bool is_recorded = records && entry.id == FlagId::kExpect && !entry.given.empty();
  return entry.id == FlagId::kOutput || is_recorded;
}

bool IsRead(const FlagValues::Entry& entry, bool records) {
  const bool is_file = FileOf(InfoOf(entry.id)) == FlagFile::kRead && !entry.given.empty();
  return is_file && !IsWritten(entry, records);
}

// Says whether the entry reads one of the sorted `outputs`.
bool Reads(const FlagValues::Entry& entry, const std::vector<Digest>& outputs, bool records) {
  if (!IsRead(entry, records)) return false;
  const std::vector<Digest> digests = DigestsOf(entry);
  return std::any_of(digests.begin(), digests.end(),
                     [&](const Digest& digest) { return Contains(outputs, digest); });
}

// The entry that writes the file with this digest, if any.
const FlagValues::Entry* FindOutput(const ManifestCase& one, const Digest& digest, bool records) {
  for (const FlagValues::Entry& entry : one.request.flags.entries()) {
    if (!IsWritten(entry, records)) continue;
    const std::vector<Digest> digests = DigestsOf(entry);
    if (std::find(digests.begin(), digests.end(), digest) != digests.end()) return &entry;
  }
  return nullptr;
}

class ManifestPlanner {
 public:
  ManifestPlanner(const ManifestFile& file, const ManifestOptions& options)
      : file_(file), options_(options) {}

  ManifestPlan Plan(const CaseSelection& selection) {
    ManifestPlan plan;
    ManifestReader reader(file_, options_);
    while (const std::optional<ManifestCase> one = reader.Next()) {
      ParseCase(one->request);
      ++plan.num_cases;
      names_.push_back(DigestOf(one->name()));
      AddOutputs(*one);
      if (options_.paths.pending) AddPending(*one);
      if (!selection(*one)) continue;
      ++plan.num_selected;
      plan.sha256 = Extend(plan.sha256, one->Identity());
    }
    if (plan.sha256.empty()) plan.sha256 = Extend("", "");
    return plan;
  }

  void CheckNames() {
    const auto digests_of = [](const ManifestCase& one) {
      return std::vector<Digest>{DigestOf(one.name())};
    };
    ForEachDouble(FindDoubles(names_), digests_of,
                  [&](const Earlier& first, const ManifestCase& second, const Digest&) {
                    Refuse(
                        second, FlagId::kName, "manifest/duplicate-name",
                        fmt::format("'{}' names the case at line {} too", first.name, first.line),
                        "give each case a name of its own");
                  });
  }

  void CheckOutputs(const BatchFiles& batch_files) {
    ForEachDouble(
        FindDoubles(outputs_), [&](const ManifestCase& one) { return OutputsOf(one); },
        [&](const Earlier& first, const ManifestCase& second, const Digest& digest) {
          Refuse(second, FindOutput(second, digest, records())->id, "manifest/same-file",
                 fmt::format("the case '{}' writes this file too", first.name),
                 "give each case an output of its own");
        });
    CheckPending();
    for (const auto& files : {batch_files.inputs, batch_files.outputs}) {
      for (const NamedPath& file : files) CheckBatchFile(file);
    }
  }

  // A second pass, since an output may stand behind the input that it would change.
  void CheckInputs(const BatchFiles& batch_files) {
    std::vector<Digest> batch_outputs;
    for (const NamedPath& file : batch_files.outputs) AddKeys(file.path, batch_outputs);
    std::vector<Digest> written = outputs_;
    written.insert(written.end(), batch_outputs.begin(), batch_outputs.end());
    written.insert(written.end(), pending_.begin(), pending_.end());
    if (written.empty()) return;
    std::sort(written.begin(), written.end());
    ManifestReader reader(file_, options_);
    while (const std::optional<ManifestCase> one = reader.Next()) {
      for (const FlagValues::Entry& entry : one->request.flags.entries()) {
        if (!Reads(entry, written, records())) continue;
        Refuse(*one, entry.id, "manifest/same-file",
               "a case or the batch itself writes this file, so what is read depends on the order",
               "write to another file");
      }
    }
  }

 private:
  bool records() const { return options_.paths.records; }

  std::vector<Digest> OutputsOf(const ManifestCase& one) const {
    std::vector<Digest> own;
    for (const FlagValues::Entry& entry : one.request.flags.entries()) {
      if (!IsWritten(entry, records())) continue;
      for (const Digest& digest : DigestsOf(entry)) own.push_back(digest);
    }
    return own;
  }

  void AddOutputs(const ManifestCase& one) {
    std::vector<Digest> own = OutputsOf(one);
    outputs_.insert(outputs_.end(), own.begin(), own.end());
    if (FindDoubles(own).empty()) return;
    Refuse(one, FlagId::kExpect, "manifest/same-file", "the case's output goes there too",
           "leave the output out");
  }

  // Cases may share a golden, so also what is left of it.
  void AddPending(const ManifestCase& one) {
    for (const FlagValues::Entry& entry : one.request.flags.entries()) {
      if (entry.id != FlagId::kExpect || entry.given.empty()) continue;
      const std::string path = PendingPath(*options_.paths.pending, entry.given);
      AddKeys(path, pending_);
      AddKeys(RecordPathOf(path), pending_);
    }
  }

  static std::string Extend(const std::string& hash, const std::string& text) {
    const std::string both = hash + text;
    return Sha256(both.data(), static_cast<int64_t>(both.size()));
  }

  struct Earlier {
    int64_t index;
    std::string name;
    int64_t line;
  };

  // Calls tell(earlier, later, digest) for each case that has a digest of the sorted `doubles`
  // which a case before it had.
  template <class DigestsOfCase, class Tell>
  void ForEachDouble(const std::vector<Digest>& doubles, const DigestsOfCase& digests_of,
                     const Tell& tell) const {
    if (doubles.empty()) return;
    std::map<Digest, Earlier> seen;
    ManifestReader reader(file_, options_);
    while (const std::optional<ManifestCase> one = reader.Next()) {
      for (const Digest& digest : digests_of(*one)) {
        if (!Contains(doubles, digest)) continue;
        const auto [earlier, is_first] =
            seen.emplace(digest, Earlier{one->index, one->name(), one->place.line});
        if (!is_first && earlier->second.index != one->index) tell(earlier->second, *one, digest);
      }
    }
  }

  // Returns where somebody wants to hear of all mistakes.
  void Refuse(const ManifestCase& one, FlagId id, const std::string& code, const std::string& why,
              const std::string& fix) const {
    const FlagValues& flags = one.request.flags;
    try {
      flags.Refuse(id, Error(ExitCode::kUsage, code, flags.NameOf(id), why, fix));
    } catch (const Error& error) {
      if (!options_.on_mistake) throw;
      options_.on_mistake(error);
    }
  }

  void CheckPending() const {
    for (const Digest& digest : pending_) {
      if (Contains(outputs_, digest)) {
        RefuseOutput(digest, "it is where a result is left for review (--write-pending)");
      }
    }
  }

  void CheckBatchFile(const NamedPath& file) const {
    std::vector<Digest> digests;
    AddKeys(file.path, digests);
    for (const Digest& digest : digests) {
      if (!Contains(outputs_, digest)) continue;
      RefuseOutput(digest, fmt::format("it is the file of {} {}", file.name, file.path));
    }
  }

  void RefuseOutput(const Digest& digest, const std::string& why) const {
    ManifestReader reader(file_, options_);
    while (const std::optional<ManifestCase> one = reader.Next()) {
      const FlagValues::Entry* entry = FindOutput(*one, digest, records());
      if (entry == nullptr) continue;
      Refuse(*one, entry->id, "manifest/same-file", why, "write to another file");
    }
  }

  const ManifestFile& file_;
  const ManifestOptions& options_;
  std::vector<Digest> names_, outputs_, pending_;
};

}  // namespace

ManifestPlan PlanManifest(const ManifestFile& file, const ManifestOptions& options,
                          const CaseSelection& selection, const BatchFiles& batch_files) {
  ManifestPlanner planner(file, options);
  ManifestPlan plan = planner.Plan(selection);
  planner.CheckNames();
  planner.CheckOutputs(batch_files);
  planner.CheckInputs(batch_files);
  file.CheckUnchanged();
  return plan;
}

}  // namespace convgrad::cli
