// The report as JSON: Google Benchmark's layout with objects of our own.
#include <fmt/format.h>

#include <cmath>

#include "base/parallel.h"
#include "base/resources.h"
#include "cli/record/machine_json.h"
#include "cli/record/problem_json.h"
#include "cli/report/bench_json.h"
#include "cli/report/peaks_json.h"
#include "cli/report/profile_json.h"
#include "cli/report/report.h"
#include "cli/text/json.h"
#include "cli/text/unicode.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"

namespace convgrad::cli {
namespace {

// JSON has no NaN and no infinity: they are null, and KEY_class says which.
void PutNumber(Json& object, const std::string& key, double value) {
  if (std::isfinite(value)) {
    object[key] = value;
    return;
  }
  object[key] = nullptr;
  object[key + "_class"] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

// None were needed, or those of each number of threads.
Json RenderPeaks(const Report& report) {
  if (report.peaks.empty()) return nullptr;
  Json measured = Json::array();
  for (const Peaks& peaks : report.peaks) measured.push_back(PeaksToJson(peaks));
  return {{"measured", measured}};
}

Json OwnContext(const Report& report) {
  Json available = Json::array();
  for (const KernelTable& table : SupportedKernels()) available.push_back(NameOf(table.isa));
  return {{"schema", "convgrad-report/1"},
          {"command", ToValidUtf8(report.command_line)},
          {"isa", NameOf(report.execution.isa.value_or(SupportedKernels().front().isa))},
          {"isa_available", available},
          {"threads", ThreadsOrAll(report.execution.num_threads)},
          {"tbb", ThreadingLibraryVersion()},
          {"algo", kAlgo},
          {"peaks", RenderPeaks(report)}};
}

Json RenderPlan(const PlanRecord& plan) {
  Json json = {{"sha256", plan.sha256}, {"cases", plan.num_cases}, {"shard", nullptr}};
  if (plan.shard) json["shard"] = *plan.shard;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    json["shards"].push_back({{"shard", fmt::format("{}/{}", i + 1, plan.shards.size())},
                              {"cases", plan.shards[i].num_cases},
                              {"seconds", plan.shards[i].seconds}});
  }
  if (!plan.shards.empty()) json["imbalance"] = Imbalance(plan.shards);
  for (const auto& [index, shares] : plan.shares) {
    Json parts = Json::array();
    for (const CaseShare& share : shares) {
      parts.push_back({{"shard", fmt::format("{}/{}", share.shard + 1, plan.shards.size())},
                       {"images", {share.begin, share.end}}});
    }
    json["split"].push_back({{"case", index}, {"parts", parts}});
  }
  return json;
}

Json Context(const Report& report) {
  const Machine machine = DescribeMachine();
  Json json = {{"date", CurrentDate()},
               {"host", ToValidUtf8(machine.host)},
               {"executable", ToValidUtf8(report.executable)},
               {"version", kBuild.version},
               {"commit", kBuild.commit},
               {"build_type", kBuild.type},
               {"compiler", kBuild.compiler},
               {"num_cpus", machine.num_cpus},
               {"cpu_model", machine.cpu_model},
               {"caches", CachesJson(machine)},
               {"load", machine.load},
               {"cwd", ToValidUtf8(CurrentFolder())},
               {"convgrad", OwnContext(report)}};
  if (report.plan) json["plan"] = RenderPlan(*report.plan);
  return json;
}

Json RenderProblem(const CaseRecord& entry) {
  Json json = ProblemJson(*entry.problem);
  if (entry.filter_format != FilterFormat::kHWIO) {
    json["filter_format"] = NameOf(entry.filter_format);
  }
  if (entry.use_cudnn_on_gpu) json["use_cudnn_on_gpu"] = *entry.use_cudnn_on_gpu;
  return json;
}

Json RenderRun(const RunInfo& run) {
  return {{"algorithm", run.algorithm},
          {"tuned", run.is_tuned},
          {"isa", NameOf(run.isa)},
          {"precision", NameOf(run.precision)},
          {"algo", kAlgo},
          {"threads", run.num_threads},
          {"tiles", run.tiles},
          {"memory_bytes", run.memory_bytes},
          {"scratch_bytes", run.scratch_bytes},
          {"peak_rss_bytes", PeakResidentBytes()},
          {"reproducible", true}};
}

// Without a range where there is no finite value.
Json RenderStatistics(const TensorStatistics& statistics) {
  Json json = {{"min", nullptr}, {"max", nullptr}, {"mean", nullptr}};
  if (statistics.finite > 0) {
    json = {{"min", statistics.min}, {"max", statistics.max}, {"mean", statistics.mean}};
  }
  json["nan"] = statistics.nan;
  json["inf"] = statistics.infinite();
  json["zero"] = statistics.zero;
  json["subnormal"] = statistics.subnormal;
  return json;
}

Json RenderInputs(const CaseRecord& entry) {
  Json inputs = Json::array();
  for (const InputRecord& input : entry.inputs) {
    Json json = {{"role", input.role}, {"path", ToValidUtf8(input.path)}};
    if (input.sha256) json["sha256"] = *input.sha256;
    json["dtype"] = input.dtype;
    json["order"] = input.fortran_order ? "F" : "C";
    if (input.record_sha256) json["record_sha256"] = *input.record_sha256;
    if (input.hash_only) json["hash_only"] = true;
    if (input.statistics) {
      json["shape"] = input.shape;
      json["statistics"] = RenderStatistics(*input.statistics);
    }
    inputs.push_back(json);
  }
  return inputs;
}

Json RenderOutput(const OutputRecord& output) {
  Json json = {{"path", nullptr}};
  if (output.path) json["path"] = ToValidUtf8(*output.path);
  if (output.sha256) json["sha256"] = *output.sha256;
  json["nan"] = output.special.nan;
  json["inf"] = output.special.inf;
  json["subnormal"] = output.special.subnormal;
  json["overflow"] = nullptr;
  if (output.overflow) json["overflow"] = *output.overflow;
  return json;
}

Json RenderWorst(const std::optional<WorstElement>& worst) {
  if (!worst) return nullptr;
  Json json = {{"index", worst->index}};
  PutNumber(json, "actual", worst->actual);
  PutNumber(json, "expected", worst->expected);
  json["actual_bits"] = fmt::format("0x{:x}", worst->actual_bits);
  json["expected_bits"] = fmt::format("0x{:x}", worst->expected_bits);
  PutNumber(json, "value", worst->value);
  return json;
}

Json RenderProfile(const CheckResult& check) {
  Json json = ProfileJson(*check.profile);
  json["worst"] = Json::array();
  for (const WorstElement& worst : check.worst_elements)
    json["worst"].push_back(RenderWorst(worst));
  return json;
}

Json RenderDiagnosis(const Diagnosis& diagnosis) {
  return {{"hypothesis", diagnosis.hypothesis},
          {"explains", ExplainsHow(diagnosis)},
          {"sentence", diagnosis.sentence},
          {"also", diagnosis.also}};
}

// The sentence, and the same as data: the least box, what comes again in it, and the map.
Json RenderWhere(const CheckResult& check) {
  Json axes = Json::array();
  for (const AxisRange& range : check.box.axes) {
    Json axis = {
        {"axis", range.axis}, {"size", range.size}, {"first", range.first}, {"last", range.last}};
    if (range.period > 0) {
      axis["period"] = range.period;
      axis["of_period"] = range.of_period;
    }
    axes.push_back(std::move(axis));
  }
  Json json = {{"text", check.where}, {"box", axes}, {"fills_box", check.box.is_filled}};
  json["map"] = nullptr;
  if (check.picture) {
    json["map"] = {{"down", check.picture->down},
                   {"down_size", check.picture->down_size},
                   {"across", check.picture->across},
                   {"across_size", check.picture->across_size},
                   {"shares", check.picture->shares}};
  }
  return json;
}

Json RenderOdds(const CheckResult::Odds& odds) {
  return {{"accumulator", odds.accumulator.name},
          {"operands", odds.operands ? Json(odds.operands->name) : Json(nullptr)},
          {"at_most", odds.at_most},
          {"limit", odds.limit}};
}

Json RenderCheck(const CheckResult& check) {
  Json needs = Json::object();
  PutNumber(needs, "ulp", check.needs.ulp);
  PutNumber(needs, "abs", check.needs.abs);
  PutNumber(needs, "rel", check.needs.rel);
  Json json = {{"against", NameOf(check.against)},
               {"policy", check.policy},
               {"status", NameOf(check.status)},
               {"reason", check.reason},
               {"detail", check.detail},
               {"counts",
                {{"elements", check.counts.elements},
                 {"differ", check.counts.differ},
                 {"suspect", check.counts.suspect},
                 {"fail", check.counts.fail},
                 {"nan", check.counts.nan},
                 {"inf", check.counts.inf}}},
               {"worst",
                {{"bound", RenderWorst(check.worst.bound)},
                 {"abs", RenderWorst(check.worst.abs)},
                 {"rel", RenderWorst(check.worst.rel)},
                 {"ulp", RenderWorst(check.worst.ulp)}}},
               {"needs", needs},
               {"where", RenderWhere(check)}};
  PutNumber(json, "power", check.power);
  if (check.odds) json["odds"] = RenderOdds(*check.odds);
  if (check.profile) json["profile"] = RenderProfile(check);
  if (check.diagnosis) json["diagnosis"] = RenderDiagnosis(*check.diagnosis);
  return json;
}

Json RenderTiming(const TimingRecord& timing) {
  Json json = {{"load_ms", timing.load_ms},
               {"compute_ms", timing.compute_ms},
               {"write_ms", timing.write_ms},
               {"total_ms", timing.total_ms}};
  if (timing.bench) PutBenchTiming(json, *timing.bench);
  return json;
}

Json RenderPart(const PartRecord& part) {
  Json json = {{"path", ToValidUtf8(part.path)},
               {"sha256", part.sha256},
               {"bytes", part.bytes},
               {"images", Json::array()}};
  for (const auto& [begin, end] : part.images) json["images"].push_back({begin, end});
  if (part.words) json["words"] = *part.words;
  return json;
}

Json RenderSplit(const SplitRecord& split) {
  Json flags = Json::object();
  for (const auto& [key, text] : split.flags) flags[key] = ToValidUtf8(text);
  return {{"part", split.part},
          {"parts", split.parts},
          {"images", {split.images.first, split.images.second}},
          {"identity", split.identity},
          {"command", split.command},
          {"op", split.op},
          {"flags", flags}};
}

// The fields that Google Benchmark's tools read.
void PutBenchmarkFields(Json& json, const CaseRecord& entry) {
  const TimingRecord timing = entry.timing.value_or(TimingRecord{});
  json["name"] = ToValidUtf8(entry.name);
  if (entry.index) json["family_index"] = *entry.index;
  if (entry.count > 1) json["count"] = entry.count;
  if (entry.identity) json["identity"] = *entry.identity;
  for (const std::string& tag : entry.tags) json["tags"].push_back(ToValidUtf8(tag));
  json["run_type"] = "iteration";
  json["threads"] = entry.run ? entry.run->num_threads : 1;
  json["iterations"] = 0;
  if (entry.timing) json["iterations"] = timing.bench ? timing.bench->iterations : 1;
  json["real_time"] = timing.compute_ms;
  json["cpu_time"] = timing.compute_cpu_ms;
  json["time_unit"] = "ms";
  if (entry.timing && entry.problem && timing.compute_ms > 0) {
    const double seconds = timing.compute_ms / 1e3;
    const int64_t bytes = entry.problem->OperandBytes() + entry.problem->ResultBytes();
    json["bytes_per_second"] = static_cast<double>(bytes) / seconds;
    json["gflops"] = static_cast<double>(entry.problem->Flops()) / seconds / 1e9;
  }
}

Json ErrorJson(const ErrorRecord& error) {
  return {{"code", error.code}, {"message", ToValidUtf8(error.message)}};
}

Json RenderCase(const CaseRecord& entry) {
  Json json;
  PutBenchmarkFields(json, entry);
  if (entry.problem) json["problem"] = RenderProblem(entry);
  if (entry.run) json["run"] = RenderRun(*entry.run);
  if (entry.timing) json["timing"] = RenderTiming(*entry.timing);
  if (entry.roofline) json["roofline"] = RooflineJson(entry);
  if (entry.baseline) json["baseline"] = ComparisonJson(*entry.baseline);
  if (entry.baseline_bin) json["baseline_bin"] = ComparisonJson(*entry.baseline_bin);
  json["inputs"] = RenderInputs(entry);
  if (entry.output) json["output"] = RenderOutput(*entry.output);
  if (entry.part) json["part"] = RenderPart(*entry.part);
  if (entry.split) json["split"] = RenderSplit(*entry.split);
  if (entry.probe) json["probe"] = RenderCheck(*entry.probe);
  if (entry.invariance) json["invariance"] = RenderCheck(*entry.invariance);
  if (entry.check) json["check"] = RenderCheck(*entry.check);
  if (entry.pending) {
    json["pending"] = {{"path", ToValidUtf8(entry.pending->path)},
                       {"golden", ToValidUtf8(entry.pending->golden)},
                       {"accept", ToValidUtf8(AcceptCommand(*entry.pending))}};
  }
  json["status"] = NameOf(entry.status);
  json["exit_code"] = static_cast<int>(entry.exit_code);
  if (entry.error) {
    json["error_occurred"] = true;
    json["error_message"] = ToValidUtf8(entry.error->message);
    json["error"] = ErrorJson(*entry.error);
  }
  json["repro"] = ToValidUtf8(entry.repro);
  return json;
}

}  // namespace

const char* NameOf(CaseStatus status) {
  switch (status) {
    case CaseStatus::kPassed: return "PASSED";
    case CaseStatus::kSuspect: return "SUSPECT";
    case CaseStatus::kFailed: return "FAILED";
    case CaseStatus::kComputed: return "COMPUTED";
    case CaseStatus::kRecorded: return "RECORDED";
    case CaseStatus::kKept: return "KEPT";
    case CaseStatus::kSkipped: return "SKIPPED";
    case CaseStatus::kError: return "ERROR";
    case CaseStatus::kTimeout: return "TIMEOUT";
  }
  ThrowInternal("unknown status");
}

std::string RenderContext(const Report& report) {
  return DumpJson(Context(report));
}

std::string RenderEntry(const CaseRecord& entry) {
  return DumpJson(RenderCase(entry));
}

std::string RenderError(const ErrorRecord& error) {
  return DumpJson(ErrorJson(error));
}

std::string RenderReport(const Report& report) {
  Json json = {{"context", Context(report)}, {"benchmarks", Json::array()}};
  for (const CaseRecord& entry : report.cases) json["benchmarks"].push_back(RenderCase(entry));
  if (report.error) json["error"] = ErrorJson(*report.error);
  return DumpJson(json, 2);
}

}  // namespace convgrad::cli
