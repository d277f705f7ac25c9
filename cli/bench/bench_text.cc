#include "cli/bench/bench_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "cli/record/machine.h"
#include "cli/text/row.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

constexpr const char* kProvisional =
    "provisional: other work disturbed the measurement of the peaks, a later run takes it again";

std::string Milliseconds(double ms) {
  return ms < 1 ? fmt::format("{:.4g} us", 1e3 * ms) : fmt::format("{:.4g} ms", ms);
}

double Gflops(const CaseRecord& entry) {
  return static_cast<double>(entry.problem->Flops()) / entry.timing->compute_ms / 1e6;
}

double Gbs(const CaseRecord& entry) {
  const int64_t bytes = entry.problem->OperandBytes() + entry.problem->ResultBytes();
  return static_cast<double>(bytes) / entry.timing->compute_ms / 1e6;
}

// Half the interval, as a part of the median.
std::string Uncertainty(const Summary& summary) {
  return summary.ci ? fmt::format("{:.1f} %", 50 * RelativeWidth(summary)) : "?";
}

std::string DescribeComparison(const Console& console, const ComparisonRecord& record) {
  const Comparison& comparison = record.comparison;
  std::string text = console.PaintWord(record.Verdict());
  if (record.before_ms > 0) {
    text += fmt::format(", {:.3f} times as long as {}", comparison.ratio,
                        Milliseconds(record.before_ms));
  }
  if (comparison.ci) {
    text +=
        fmt::format(" (95 % interval {:.3f} to {:.3f})", comparison.ci->low, comparison.ci->high);
  }
  if (record.pairs > 0) text += fmt::format(", {} pairs in turn", record.pairs);
  for (const std::string& note : record.notes) text += "; " + note;
  return text;
}

std::string DescribeSamples(const BenchTiming& bench) {
  const Summary& s = bench.summary;
  std::string text = fmt::format("{} of {} after {} to warm up", s.samples,
                                 Plural(bench.sample_iterations, "iteration"), bench.warmup);
  text +=
      bench.stop_reason == "interval" ? ", until the interval was narrow" : ", until time was up";
  return text + ", caches " + bench.cache;
}

// How many of its calls took what part of the time, where cases stand for several: those of one
// number of threads together.
class Weights {
 public:
  explicit Weights(std::span<const CaseRecord> entries) {
    for (const CaseRecord& entry : entries) {
      if (!entry.roofline) continue;
      Group& group = groups_[entry.run->num_threads];
      group.calls += entry.count;
      group.ms += TimeOf(entry);
      group.best_ms += 1e3 * entry.roofline->seconds * static_cast<double>(entry.count);
      group.entries.push_back(&entry);
      has_counts_ = has_counts_ || entry.count > 1;
    }
  }

  // Empty without counts.
  std::string Describe() const {
    std::string text;
    if (!has_counts_) return text;
    for (const auto& [threads, group] : groups_) {
      text += fmt::format("{} calls in all take {}, {}: {:.3f} of what the machine can do\n",
                          group.calls, Milliseconds(group.ms), Plural(threads, "thread"),
                          group.ms > 0 ? group.best_ms / group.ms : 0);
      text += LargestParts(group);
    }
    return text;
  }

 private:
  struct Group {
    int64_t calls = 0;
    double ms = 0, best_ms = 0;
    std::vector<const CaseRecord*> entries;
  };

  static double TimeOf(const CaseRecord& entry) {
    return entry.timing->compute_ms * static_cast<double>(entry.count);
  }

  static std::string LargestParts(const Group& group) {
    constexpr size_t kMostParts = 5;
    std::vector<const CaseRecord*> entries = group.entries;
    std::stable_sort(entries.begin(), entries.end(), [](const auto* one, const auto* other) {
      return TimeOf(*one) > TimeOf(*other);
    });
    entries.resize(std::min(entries.size(), kMostParts));
    std::string text;
    for (const CaseRecord* entry : entries) {
      text += fmt::format("  {:4.1f} %  {} x {}  {}\n",
                          group.ms > 0 ? 100 * TimeOf(*entry) / group.ms : 0, entry->count,
                          Milliseconds(entry->timing->compute_ms), entry->name);
    }
    return text;
  }

  std::map<int, Group> groups_;
  bool has_counts_ = false;
};

std::vector<std::string> TableRow(const Console& console, const CaseRecord& entry,
                                  bool has_counts) {
  std::vector<std::string> row = {entry.name,
                                  fmt::format("{}", entry.run->num_threads),
                                  Milliseconds(entry.timing->compute_ms),
                                  Uncertainty(entry.timing->bench->summary),
                                  fmt::format("{:.1f}", Gflops(entry)),
                                  fmt::format("{:.1f}", Gbs(entry)),
                                  fmt::format("{:.2f}", entry.Share()),
                                  entry.roofline->bound,
                                  entry.run->algorithm};
  if (has_counts) row.insert(row.begin() + 1, fmt::format("{}", entry.count));
  for (const auto& record : {entry.baseline, entry.baseline_bin}) {
    if (!record) continue;
    row.push_back(record->before_ms > 0 ? fmt::format("{:.3f} {}", record->comparison.ratio,
                                                      console.PaintWord(record->Verdict()))
                                        : console.PaintWord(record->Verdict()));
  }
  return row;
}

std::string Means(std::span<const CaseRecord> entries) {
  struct Group {
    double log_sum = 0;
    int64_t count = 0;
  };
  std::map<std::string, Group> groups;
  for (const CaseRecord& entry : entries) {
    if (!entry.roofline || !(entry.Share() > 0)) continue;
    const std::string name = fmt::format(
        "{} {} {}, {}", InfoOf(entry.problem->op).name, InfoOf(entry.problem->dtype).name,
        NameOf(entry.problem->data_format), Plural(entry.run->num_threads, "thread"));
    groups[name].log_sum += std::log(entry.Share());
    ++groups[name].count;
  }
  std::string text;
  for (const auto& [name, group] : groups) {
    if (group.count < 2) continue;
    text +=
        fmt::format("  {:.3f}  {} ({} cases)\n",
                    std::exp(group.log_sum / static_cast<double>(group.count)), name, group.count);
  }
  return text.empty() ? "" : "geometric means of the shares:\n" + text;
}

std::string Counts(std::span<const CaseRecord> entries) {
  int64_t measured = 0;
  double log_sum = 0;
  for (const CaseRecord& entry : entries) {
    if (!entry.roofline || !(entry.Share() > 0)) continue;
    ++measured;
    log_sum += std::log(entry.Share());
  }
  const int64_t failed = std::count_if(entries.begin(), entries.end(), [](const CaseRecord& entry) {
    return entry.status != CaseStatus::kPassed;
  });
  std::string text = fmt::format("{} measured", measured);
  if (failed > 0) text += fmt::format(", {} not", failed);
  if (measured > 0) {
    text += fmt::format("; geometric mean {:.3f} of what the machine can do",
                        std::exp(log_sum / static_cast<double>(measured)));
  }
  return text + "\n";
}

// Medians that are less certain than was asked for by far.
bool IsNoisy(const CaseRecord& entry, double target_width) {
  if (!entry.timing || !entry.timing->bench) return false;
  const Summary& summary = entry.timing->bench->summary;
  return !summary.ci || RelativeWidth(summary) > 2 * target_width;
}

}  // namespace

std::string NoiseWarning(const Console& console, std::span<const CaseRecord> entries,
                         double target_width) {
  const int64_t noisy = std::count_if(entries.begin(), entries.end(), [&](const CaseRecord& entry) {
    return IsNoisy(entry, target_width);
  });
  if (noisy == 0) return "";
  return fmt::format(
      "{} the 95 % interval of {} of {} medians is more than twice as wide as --ci {:.3g} % asks "
      "for: other work on this machine (load average {:.1f}), or too short a --max-time\n",
      console.Paint(Color::kYellow, "noise:"), noisy, entries.size(), 100 * target_width,
      DescribeMachine().load.front());
}

std::string DescribeVerdicts(const Console& console,
                             const std::vector<const ComparisonRecord*>& records) {
  constexpr const char* kVerdicts[] = {"FASTER",       "SAME", "SLOWER",
                                       "INCONCLUSIVE", "NEW",  "MISSING"};
  std::map<std::string, int64_t> count_of;
  double log_sum = 0;
  int64_t compared = 0;
  for (const ComparisonRecord* record : records) {
    ++count_of[record->Verdict()];
    if (!record->is_comparable || !(record->comparison.ratio > 0)) continue;
    log_sum += std::log(record->comparison.ratio);
    ++compared;
  }
  std::string text;
  for (const char* verdict : kVerdicts) {
    if (count_of[verdict] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "baseline: " : ", ", count_of[verdict],
                        console.PaintWord(verdict));
  }
  if (compared > 0) {
    text += fmt::format("; geometric mean {:.3f} of its time ({} compared)",
                        std::exp(log_sum / static_cast<double>(compared)), compared);
  }
  return text.empty() ? "" : text + "\n";
}

std::string DescribeBench(const Console& console, const CaseRecord& entry) {
  const BenchTiming& bench = *entry.timing->bench;
  const Summary& s = bench.summary;
  const RunInfo& run = *entry.run;
  std::string text = fmt::format("{}\n", entry.problem->ToLine());
  const auto row = [&text](const char* name, const std::string& value) {
    text += Row(name, value);
  };
  row("verified", entry.probe->reason);
  row("kernel",
      fmt::format("{}, {}, {}", run.algorithm, NameOf(run.isa), Plural(run.num_threads, "thread")));
  row("median", console.Paint(Color::kBold, Milliseconds(s.median)) +
                    (s.ci ? fmt::format(" (95 % interval {} to {}, +-{})", Milliseconds(s.ci->low),
                                        Milliseconds(s.ci->high), Uncertainty(s))
                          : " (too few samples for an interval; raise --max-time)"));
  row("spread",
      fmt::format("min {}, p5 {}, p95 {}, max {}, MAD {}", Milliseconds(s.min), Milliseconds(s.p5),
                  Milliseconds(s.p95), Milliseconds(s.max), Milliseconds(s.mad)));
  row("samples", DescribeSamples(bench));
  row("speed", fmt::format("{:.4g} GFLOP/s, {:.4g} GB/s", Gflops(entry), Gbs(entry)));
  row("roofline", fmt::format("{:.3f} of what the machine can do, bound by {} ({:.4g} GFLOP/s, "
                              "{:.4g} GB/s)",
                              entry.Share(), entry.roofline->bound, entry.roofline->peak_gflops,
                              entry.roofline->peak_gbs) +
                      (entry.roofline->is_provisional ? std::string("; ") + kProvisional : ""));
  if (entry.baseline) row("baseline", DescribeComparison(console, *entry.baseline));
  if (entry.baseline_bin) row("against", DescribeComparison(console, *entry.baseline_bin));
  return text;
}

BenchRows::BenchRows(size_t name_width, bool has_counts)
    : has_counts_(has_counts), widths_{std::max<size_t>(name_width, 4), 7, 9, 6, 7, 6, 5, 7, 20} {
  if (has_counts) widths_.insert(widths_.begin() + 1, 6);
}

std::string BenchRows::Head() const {
  std::vector<std::string> head = {"case", "threads", "median", "+-",       "GFLOP/s",
                                   "GB/s", "share",   "bound",  "algorithm"};
  if (has_counts_) head.insert(head.begin() + 1, "count");
  return Align(head);
}

std::string BenchRows::RowOf(const Console& console, const CaseRecord& entry) const {
  return entry.roofline ? Align(TableRow(console, entry, has_counts_)) : "";
}

// Names to the left, numbers to the right.
std::string BenchRows::Align(const std::vector<std::string>& row) const {
  constexpr size_t kNumbersBegin = 1;
  const size_t numbers_end = has_counts_ ? 8 : 7;
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    const size_t width = i < widths_.size() ? widths_[i] : 0;
    const bool is_number = i >= kNumbersBegin && i < numbers_end;
    line +=
        is_number ? fmt::format("{:>{}}  ", row[i], width) : fmt::format("{:<{}}  ", row[i], width);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string BenchSummary(const Console& console, std::span<const CaseRecord> entries,
                         double target_width) {
  std::string notes;
  bool is_provisional = false;
  std::vector<const ComparisonRecord*> baselines;
  for (const CaseRecord& entry : entries) {
    if (!entry.roofline) continue;
    is_provisional = is_provisional || entry.roofline->is_provisional;
    if (entry.baseline) baselines.push_back(&*entry.baseline);
    for (const auto& record : {entry.baseline, entry.baseline_bin}) {
      if (record && !record->notes.empty()) {
        notes += fmt::format("{}: {}\n", entry.name, DescribeComparison(console, *record));
      }
    }
  }
  if (is_provisional) notes += fmt::format("shares: {}\n", kProvisional);
  return Means(entries) + notes + NoiseWarning(console, entries, target_width) + Counts(entries) +
         Weights(entries).Describe() + DescribeVerdicts(console, baselines);
}

}  // namespace convgrad::cli
