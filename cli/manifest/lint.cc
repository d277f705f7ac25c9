#include "cli/manifest/lint.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "cli/case/case.h"

namespace convgrad::cli {
namespace {

class Linter {
 public:
  Linter(const ManifestFile& file, const std::function<void(const Error&)>& tell)
      : file_(file), tell_(tell) {}

  bool is_right() const { return said_.empty(); }

  // A mistake in the defaults would be told for every case.
  void Tell(const Error& error) {
    if (said_.insert(error.message()).second) tell_(error);
  }

  void CheckCase(ManifestCase one) {
    CheckName(one);
    // Each round mends one flag.
    for (size_t rounds = 0; rounds < AllFlags().size(); ++rounds) {
      try {
        ParseCase(one.request);
        return;
      } catch (const Error& error) {
        Tell(error);
        if (!Mend(error, one.request.flags)) return;
      }
    }
  }

 private:
  void CheckName(const ManifestCase& one) {
    const auto [first, is_new] = lines_.emplace(one.name(), one.place.line);
    if (is_new || one.name().empty()) return;
    for (const FlagValues::Entry& entry : one.request.flags.entries()) {
      if (entry.id != FlagId::kName) continue;
      Tell(Error(ExitCode::kUsage, "manifest/duplicate-name",
                 FormatPlace(file_.name(), entry.place) + ": name",
                 fmt::format("'{}' names the case at line {} too", one.name(), first->second),
                 "give each case a name of its own"));
    }
  }

  // Changes what the error is about, so that what else is wrong can be seen; whether that could be
  // done.
  bool Mend(const Error& error, FlagValues& flags) const {
    return MendValue(error, flags) || AddMissing(error, flags);
  }

  bool MendValue(const Error& error, FlagValues& flags) const {
    for (const FlagValues::Entry& entry : flags.entries()) {
      const std::string place = FormatPlace(file_.name(), entry.place) + ": ";
      if (!error.message().starts_with(place)) continue;
      const FlagId id = entry.id;
      flags.RemoveIf([id](const FlagValues::Entry& other) { return other.id == id; });
      if (id == FlagId::kPadding) flags.Add({id, SomePadding(flags), "", {}});
      return true;
    }
    return false;
  }

  bool AddMissing(const Error& error, FlagValues& flags) const {
    const std::string place = FormatPlace(file_.name(), flags.place()) + ": ";
    for (const Flag& flag : AllFlags()) {
      const bool may_be_needed = flag.kind == FlagKind::kOperand || flag.kind == FlagKind::kSizes ||
                                 flag.id == FlagId::kPadding;
      if (!may_be_needed || flags.Has(flag.id)) continue;
      if (!error.message().starts_with(place + flags.NameOf(flag.id) + ": ")) continue;
      flags.Add({flag.id, flag.id == FlagId::kPadding ? SomePadding(flags) : "any.npy", "", {}});
      return true;
    }
    return false;
  }

  static std::string SomePadding(const FlagValues& flags) {
    return NameOf(flags.Has(FlagId::kExplicitPaddings) ? Padding::kExplicit : Padding::kSame);
  }

  const ManifestFile& file_;
  const std::function<void(const Error&)>& tell_;
  std::set<std::string> said_;
  std::map<std::string, int64_t> lines_;  // of names
};

}  // namespace

std::optional<ManifestPlan> LintManifest(const ManifestFile& file, ManifestOptions options,
                                         const BatchFiles& batch_files,
                                         const std::function<void(const Error&)>& tell) {
  Linter linter(file, tell);
  options.on_mistake = [&](const Error& error) { linter.Tell(error); };
  try {
    ManifestReader reader(file, options);
    while (std::optional<ManifestCase> one = reader.Next()) linter.CheckCase(std::move(*one));
    if (!linter.is_right()) return std::nullopt;
    ManifestPlan plan = PlanManifest(
        file, options, [](const ManifestCase&) { return true; }, batch_files);
    if (linter.is_right()) return plan;
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kUsage) throw;
    linter.Tell(error);
  }
  return std::nullopt;
}

}  // namespace convgrad::cli
