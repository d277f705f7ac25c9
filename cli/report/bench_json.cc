#include "cli/report/bench_json.h"

#include "cli/text/json.h"
#include "cli/text/unicode.h"

namespace convgrad::cli {
namespace {

Json IntervalJson(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  return {interval->low, interval->high};
}

}  // namespace

void PutBenchTiming(Json& timing, const BenchTiming& bench) {
  const Summary& summary = bench.summary;
  timing["warmup"] = bench.warmup;
  timing["samples"] = summary.samples;
  timing["sample_iterations"] = bench.sample_iterations;
  timing["min"] = summary.min;
  timing["median"] = summary.median;
  timing["mean"] = summary.mean;
  timing["stddev"] = summary.stddev;
  timing["mad"] = summary.mad;
  timing["p5"] = summary.p5;
  timing["p95"] = summary.p95;
  timing["max"] = summary.max;
  timing["ci"] = IntervalJson(summary.ci);
  timing["stop_reason"] = bench.stop_reason;
  timing["cache"] = bench.cache;
}

Json RooflineJson(const CaseRecord& entry) {
  return {{"share", entry.Share()},
          {"bound", entry.roofline->bound},
          {"peak_gflops", entry.roofline->peak_gflops},
          {"peak_gbs", entry.roofline->peak_gbs}};
}

Json ComparisonJson(const ComparisonRecord& record) {
  Json json = {{"path", ToValidUtf8(record.against)},
               {"verdict", record.Verdict()},
               {"ratio", nullptr},
               {"ci", IntervalJson(record.comparison.ci)},
               {"regress", record.tolerance},
               {"median", nullptr}};
  if (record.before_ms > 0) {
    json["ratio"] = record.comparison.ratio;
    json["median"] = record.before_ms;
  }
  if (record.pairs > 0) json["pairs"] = record.pairs;
  json["notes"] = Json::array();
  for (const std::string& note : record.notes) json["notes"].push_back(ToValidUtf8(note));
  return json;
}

}  // namespace convgrad::cli
