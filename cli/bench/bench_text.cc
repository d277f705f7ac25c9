#include "cli/bench/bench_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

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

Color ColorOf(Change change) {
  switch (change) {
    case Change::kFaster:
    case Change::kSame: return Color::kGreen;
    case Change::kSlower: return Color::kRed;
    case Change::kInconclusive: return Color::kYellow;
  }
  return Color::kNone;
}

std::string DescribeComparison(const Console& console, const ComparisonRecord& record) {
  const Comparison& comparison = record.comparison;
  std::string text = console.Paint(ColorOf(comparison.verdict), record.Verdict());
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
  std::string text =
      fmt::format("{} of {} iteration{} after {} to warm up", s.samples, bench.sample_iterations,
                  bench.sample_iterations == 1 ? "" : "s", bench.warmup);
  text +=
      bench.stop_reason == "interval" ? ", until the interval was narrow" : ", until time was up";
  return text + ", caches " + bench.cache;
}

using Row = std::vector<std::string>;

Row TableRow(const CaseRecord& entry) {
  Row row = {entry.name,
             fmt::format("{}", entry.run->num_threads),
             Milliseconds(entry.timing->compute_ms),
             Uncertainty(entry.timing->bench->summary),
             fmt::format("{:.1f}", Gflops(entry)),
             fmt::format("{:.1f}", Gbs(entry)),
             fmt::format("{:.2f}", entry.Share()),
             entry.roofline->bound,
             entry.run->algorithm};
  for (const auto& record : {entry.baseline, entry.baseline_bin}) {
    if (!record) continue;
    row.push_back(record->before_ms > 0
                      ? fmt::format("{:.3f} {}", record->comparison.ratio, record->Verdict())
                      : record->Verdict());
  }
  return row;
}

// Columns as wide as they must be; names to the left, numbers to the right.
std::string Align(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  constexpr size_t kNumbersBegin = 1, kNumbersEnd = 7;
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool is_number = i >= kNumbersBegin && i < kNumbersEnd;
      line += is_number ? fmt::format("{:>{}}  ", row[i], widths[i])
                        : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string Means(std::span<const CaseRecord> entries) {
  struct Group {
    double log_sum = 0;
    int64_t count = 0;
  };
  std::map<std::string, Group> groups;
  for (const CaseRecord& entry : entries) {
    if (!entry.roofline || !(entry.Share() > 0)) continue;
    const std::string name =
        fmt::format("{} {} {}, {} thread{}", InfoOf(entry.problem->op).name,
                    InfoOf(entry.problem->dtype).name, NameOf(entry.problem->data_format),
                    entry.run->num_threads, entry.run->num_threads == 1 ? "" : "s");
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

// How many cases had each verdict; empty without a baseline.
std::string BaselineCounts(std::span<const CaseRecord> entries) {
  constexpr const char* kVerdicts[] = {"FASTER", "SAME", "SLOWER", "INCONCLUSIVE", "NEW"};
  std::map<std::string, int64_t> count_of;
  for (const CaseRecord& entry : entries) {
    if (entry.baseline) ++count_of[entry.baseline->Verdict()];
  }
  std::string text;
  for (const char* verdict : kVerdicts) {
    if (count_of[verdict] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "baseline: " : ", ", count_of[verdict], verdict);
  }
  return text.empty() ? "" : text + "\n";
}

}  // namespace

std::string DescribeBench(const Console& console, const CaseRecord& entry) {
  const BenchTiming& bench = *entry.timing->bench;
  const Summary& s = bench.summary;
  const RunInfo& run = *entry.run;
  std::string text = fmt::format("{}\n", entry.problem->ToLine());
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("  {:<12} {}\n", name, value);
  };
  row("verified", entry.probe->reason);
  row("kernel", fmt::format("{}, {}, {} thread{}", run.algorithm, NameOf(run.isa), run.num_threads,
                            run.num_threads == 1 ? "" : "s"));
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

std::string BenchTable(const Console& console, std::span<const CaseRecord> entries) {
  std::vector<Row> rows = {
      {"case", "threads", "median", "+-", "GFLOP/s", "GB/s", "share", "bound", "algorithm"}};
  std::string notes;
  bool is_provisional = false;
  for (const CaseRecord& entry : entries) {
    if (!entry.roofline) continue;
    is_provisional = is_provisional || entry.roofline->is_provisional;
    rows.push_back(TableRow(entry));
    for (const auto& record : {entry.baseline, entry.baseline_bin}) {
      if (record && !record->notes.empty()) {
        notes += fmt::format("{}: {}\n", entry.name, DescribeComparison(console, *record));
      }
    }
  }
  if (rows.size() == 1) return "";
  if (is_provisional) notes += fmt::format("shares: {}\n", kProvisional);
  return Align(rows) + Means(entries) + notes + BaselineCounts(entries);
}

}  // namespace convgrad::cli
