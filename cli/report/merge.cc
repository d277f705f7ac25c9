#include "cli/report/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace convgrad::cli {
namespace {

// As many gaps as fit a line; an error is one line.
constexpr size_t kMaxNamed = 10;

// The numbers from `first` to before `end` that `present` (in order) lacks, "3, 5 to 8"; empty if
// it lacks none.
std::string Missing(const std::vector<int64_t>& present, int64_t first, int64_t end) {
  std::string list;
  size_t gaps = 0;
  const auto add = [&](int64_t from, int64_t to) {
    if (from >= to || ++gaps > kMaxNamed) return;
    list += gaps > 1 ? ", " : "";
    list += to - from == 1 ? fmt::format("{}", from) : fmt::format("{} to {}", from, to - 1);
  };
  int64_t next = first;
  for (const int64_t number : present) {
    add(next, number);
    next = number + 1;
  }
  add(next, end);
  return gaps > kMaxNamed ? fmt::format("{} and more", list) : list;
}

// The two numbers of "3/8".
struct ShardNumbers {
  int64_t number = 0, count = 0;
};

ShardNumbers NumbersOf(const IndexedReport& report) {
  const std::string text = report.shard();
  ShardNumbers shard;
  const char* end = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), end, shard.number);
  const bool has_count = error == std::errc() && slash != end && *slash == '/' &&
                         std::from_chars(slash + 1, end, shard.count).ptr == end;
  if (!has_count || shard.number < 1 || shard.number > shard.count) {
    ThrowData("report/malformed", report.path(), fmt::format("'{}' is no shard", text));
  }
  return shard;
}

std::string NameOf(const IndexedEntry& entry) {
  const Json json = ParseJson(entry.text);
  const auto name = json.find("name");
  return name != json.end() && name->is_string() ? name->get<std::string>()
                                                 : fmt::format("{}", entry.index);
}

}  // namespace

MergedReport::MergedReport(const std::vector<std::string>& paths, bool allow_missing)
    : allow_missing_(allow_missing) {
  for (const std::string& path : paths) reports_.emplace_back(path);
  CheckPlans();
  CheckShards();
  CollectEntries();
  FindMissing();
  FindErrors();
  SetSplitCasesApart();
}

void MergedReport::CheckPlans() const {
  const IndexedReport& first = reports_.front();
  for (const IndexedReport& report : reports_) {
    if (report.plan_hash() == first.plan_hash() && report.num_cases() == first.num_cases()) {
      continue;
    }
    ThrowData("merge/different-plans", fmt::format("{} and {}", first.path(), report.path()),
              fmt::format("are of different plans: {} of {} cases and {} of {}",
                          first.plan_hash().substr(0, 12), first.num_cases(),
                          report.plan_hash().substr(0, 12), report.num_cases()),
              "run all shards of one manifest with the same flags");
  }
}

void MergedReport::CheckShards() {
  const auto by_number = [](const IndexedReport& a, const IndexedReport& b) {
    return NumbersOf(a).number < NumbersOf(b).number;
  };
  std::stable_sort(reports_.begin(), reports_.end(), by_number);
  const int64_t count = NumbersOf(reports_.front()).count;
  for (size_t i = 0; i < reports_.size(); ++i) {
    const IndexedReport& report = reports_[i];
    if (NumbersOf(report).count != count) {
      ThrowData("merge/different-shards",
                fmt::format("{} and {}", reports_.front().path(), report.path()),
                fmt::format("are shards {} and {}", reports_.front().shard(), report.shard()),
                "all shards must be dealt alike");
    }
    if (i > 0 && report.shard() == reports_[i - 1].shard()) {
      ThrowData("merge/double", fmt::format("{} and {}", reports_[i - 1].path(), report.path()),
                fmt::format("both are shard {}", report.shard()), "give each shard once");
    }
  }
}

void MergedReport::CollectEntries() {
  for (const IndexedReport& report : reports_) {
    for (const IndexedEntry& entry : report.entries()) entries_.push_back({&entry, &report});
  }
  SortEntries();
  for (size_t i = 1; i < entries_.size(); ++i) {
    const Entry &a = entries_[i - 1], &b = entries_[i];
    if (a.entry->index != b.entry->index || (a.entry->is_part && b.entry->is_part)) continue;
    ThrowData("merge/double", fmt::format("case '{}'", NameOf(*b.entry)),
              fmt::format("is in {} and in {}", a.report->path(), b.report->path()),
              "operands changed between the shards, so that they were dealt differently; run them "
              "again");
  }
}

void MergedReport::SortEntries() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.entry->index < b.entry->index; });
}

void MergedReport::SetSplitCasesApart() {
  for (const Entry& entry : entries_) {
    if (!entry.entry->is_part) continue;
    const int64_t index = entry.entry->index;
    if (split_cases_.empty() || split_cases_.back().index != index) {
      split_cases_.push_back({index, {}});
    }
    split_cases_.back().parts.push_back(
        {entry.entry->text, entry.report->path(), *entry.entry->exit_code});
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.entry->is_part; });
}

void MergedReport::SetEntry(const SplitCase& one, std::string entry, ExitCode exit_code) {
  texts_.push_back(std::move(entry));
  made_.push_back({one.index, exit_code, texts_.back(), false});
  entries_.push_back({&made_.back(), nullptr});
  SortEntries();
}

void MergedReport::Refuse(const Error& error) {
  if (!allow_missing_) throw Error(error);
  gaps_.push_back(error.message());
  if (!incomplete_) incomplete_ = {error.code(), error.message()};
}

void MergedReport::FindMissing() {
  std::vector<int64_t> shards, cases;
  for (const IndexedReport& report : reports_) shards.push_back(NumbersOf(report).number);
  for (const Entry& entry : entries_) cases.push_back(entry.entry->index);
  cases.erase(std::unique(cases.begin(), cases.end()), cases.end());
  const int64_t count = NumbersOf(reports_.front()).count;
  if (const std::string gaps = Missing(shards, 1, count + 1); !gaps.empty()) {
    Refuse(Error(ExitCode::kData, "merge/missing", fmt::format("shard {}", gaps),
                 fmt::format("missing; {} of {} shards are given", shards.size(), count),
                 "give the reports of all, or --allow-missing to look at a part"));
  }
  const int64_t all = reports_.front().num_cases();
  if (const std::string gaps = Missing(cases, 0, all); !gaps.empty()) {
    Refuse(Error(ExitCode::kData, "merge/missing",
                 fmt::format("case {} (as the plan counts, from 0)", gaps),
                 fmt::format("missing; the reports hold {} of {} cases", cases.size(), all),
                 "run the shard that was interrupted again, with --resume"));
  }
}

// No case's exit code tells of a manifest that changed meanwhile, say.
void MergedReport::FindErrors() {
  for (const IndexedReport& report : reports_) {
    if (!report.error()) continue;
    Refuse(Error(ExitCode::kData, "merge/failed", report.path(),
                 fmt::format("its batch did not end well: {}", *report.error()),
                 "run that shard again, with --resume"));
  }
}

ExitCode MergedReport::exit_code() const {
  ExitCode code = incomplete_ ? ExitCode::kData : ExitCode::kOk;
  for (const Entry& entry : entries_) {
    code = Worse(code, *entry.entry->exit_code);
  }
  return code;
}

Json MergedReport::Context(const std::string& command_line) const {
  Json context = reports_.front().context();
  context["convgrad"]["command"] = command_line;
  context["plan"]["shard"] = nullptr;
  return context;
}

std::vector<std::string> MergedReport::Warnings() const {
  std::vector<std::string> warnings = gaps_;
  const IndexedReport& first = reports_.front();
  for (const char* key : {"version", "commit", "cwd"}) {
    for (const IndexedReport& report : reports_) {
      const Json ours = first.context().value(key, Json());
      const Json theirs = report.context().value(key, Json());
      if (ours == theirs) continue;
      warnings.push_back(fmt::format("{} and {} differ in {}: {} and {}", first.path(),
                                     report.path(), key, DumpJson(ours), DumpJson(theirs)));
      break;
    }
  }
  return warnings;
}

void MergedReport::ForEachEntry(const std::function<void(std::string_view)>& use) const {
  for (const Entry& entry : entries_) use(entry.entry->text);
}

void MergedReport::ForEachBadEntry(const std::function<void(std::string_view)>& use) const {
  for (const Entry& entry : entries_) {
    if (*entry.entry->exit_code != ExitCode::kOk) use(entry.entry->text);
  }
}

void MergedReport::CheckUnchanged() const {
  for (const IndexedReport& report : reports_) report.CheckUnchanged();
}

}  // namespace convgrad::cli
