// `bench` end to end: what it reports, of one case and of a manifest. Times are short; what is
// tested does not depend on how fast the machine is.
#include <fmt/format.h>

#include <algorithm>

#include "support/bench_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(BenchTest, ReportsWhatItMeasured) {
  const ShellResult result = Ok(std::string(kCase) + "--report r.json --name a/b");
  EXPECT_THAT(result.out, HasSubstr("roofline"));
  // On a busy machine the peaks may be found far too low.
  EXPECT_THAT(result.err, AnyOf(IsEmpty(), EndsWith("faster than the measured peaks allow\n")));
  const json report = Report();
  ASSERT_EQ(report["benchmarks"].size(), 1u);
  const json& entry = report["benchmarks"][0];
  EXPECT_EQ(entry["name"], "a/b");
  EXPECT_EQ(entry["run_type"], "iteration");
  EXPECT_EQ(entry["status"], "PASSED");
  EXPECT_EQ(entry["probe"]["status"], "PASSED");
  const json& timing = entry["timing"];
  EXPECT_EQ(timing["median"], entry["real_time"]);
  EXPECT_EQ(timing["median"], timing["compute_ms"]);
  EXPECT_LE(timing["min"], timing["p5"]);
  EXPECT_LE(timing["p5"], timing["median"]);
  EXPECT_LE(timing["median"], timing["p95"]);
  EXPECT_LE(timing["p95"], timing["max"]);
  EXPECT_LE(timing["ci"][0], timing["median"]);
  EXPECT_GE(timing["ci"][1], timing["median"]);
  EXPECT_GE(timing["samples"], 6);
  EXPECT_GT(timing["sample_iterations"], 1);  // some microseconds are too short for a clock
  EXPECT_EQ(entry["iterations"],
            timing["samples"].get<int64_t>() * timing["sample_iterations"].get<int64_t>());
  EXPECT_EQ(timing["cache"], "hot");
  EXPECT_GT(entry["cpu_time"], 0);
  EXPECT_GT(entry["gflops"], 0);
  const json& roofline = entry["roofline"];
  EXPECT_GT(roofline["share"], 0);
  const double best_gflops = roofline["peak_gflops"].get<double>();
  EXPECT_LT(entry["gflops"], 100 * best_gflops);  // in the same unit
  const json& peaks = report["context"]["convgrad"]["peaks"]["measured"];
  ASSERT_EQ(peaks.size(), 1u);
  EXPECT_EQ(peaks[0]["threads"], 1);
  EXPECT_EQ(peaks[0]["isa"], entry["run"]["isa"]);
  EXPECT_EQ(entry["output"]["sha256"].get<std::string>().size(), 64u);
  EXPECT_TRUE(entry["output"]["path"].is_null());
  EXPECT_THAT(entry["repro"].get<std::string>(), Not(HasSubstr("--report")));
  EXPECT_EQ(Sh(entry["repro"].get<std::string>()).exit_code, 0);
}

TEST_F(BenchTest, OneEntryForEachNumberOfThreads) {
  Ok(std::string(kEnoughSamples) +
     "conv2d --padding SAME --input fill:normal@1,9,9,4 --filter fill:normal@3,3,4,8 --threads 2,1 "
     "--cache cold --report r.json --no-hash");
  const json report = Report();
  ASSERT_EQ(report["benchmarks"].size(), 2u);
  EXPECT_EQ(report["benchmarks"][0]["threads"], 2);
  EXPECT_EQ(report["benchmarks"][1]["threads"], 1);
  for (const json& entry : report["benchmarks"]) {
    EXPECT_EQ(entry["timing"]["cache"], "cold");
    EXPECT_EQ(entry["timing"]["sample_iterations"], 1);
    EXPECT_FALSE(entry["output"].contains("sha256"));
    EXPECT_THAT(entry["repro"].get<std::string>(),
                HasSubstr(fmt::format("--threads {} ", entry["threads"].get<int>())));
  }
  EXPECT_EQ(report["context"]["convgrad"]["peaks"]["measured"].size(), 2u);
}

TEST_F(BenchTest, OperandsComeFromFilesToo) {
  WriteFloats("x.npy", {1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  WriteFloats("w.npy", {2, 2, 1, 1}, {1, 2, 3, 4});
  Ok("conv2d --input x.npy --filter w.npy --padding VALID --max-time 20ms --report r.json");
  EXPECT_EQ(Report()["benchmarks"][0]["inputs"][0]["path"], "x.npy");
  EXPECT_EQ(Bench("conv2d --padding SAME --input none.npy --filter w.npy").exit_code, 4);
  EXPECT_EQ(Bench("conv2d --padding SAME --input x.npy --filter fill:normal@2,2,3,1").exit_code, 3);
  // Nothing to compute is measured all the same.
  Ok("conv2d --padding SAME --input fill:normal@0,3,3,1 --filter w.npy --max-time 20ms --report "
     "r.json");
  EXPECT_EQ(Report()["benchmarks"][0]["roofline"]["share"], 0);
}

constexpr const char* kManifest = R"({"schema": "convgrad-manifest/1",
 "defaults": {"padding": "SAME", "input": {"fill": "normal", "shape": [1, 8, 8, 4]}},
 "cases": [
  {"name": "one/3x3", "op": "conv2d", "tags": ["small", "plain"], "threads": 1, "output": "y.npy",
   "filter": {"fill": "normal", "shape": [3, 3, 4, 8]}},
  {"name": "two/3x3", "op": "conv2d", "tags": ["small"], "filter": "none.npy"},
  {"name": "three/1x1", "op": "conv2d", "tags": ["plain"], "isa": "scalar",
   "filter": {"fill": "normal", "shape": [1, 1, 4, 8]}}]})";

TEST_F(BenchTest, TimesTheCasesOfAManifest) {
  WriteBytes(Path("m.json"), kManifest);
  // One bad case stops no other.
  const ShellResult all = Bench("m.json --max-time 30ms --report r.json");
  EXPECT_EQ(all.exit_code, 4);
  EXPECT_THAT(all.err, IsOneErrorLine());
  EXPECT_THAT(all.out, HasSubstr("one/3x3"));
  const json entries = Report()["benchmarks"];
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0]["name"], "one/3x3");
  EXPECT_EQ(entries[0]["status"], "PASSED");
  EXPECT_EQ(entries[0]["threads"], 1);
  EXPECT_EQ(entries[1]["status"], "ERROR");
  EXPECT_EQ(entries[1]["exit_code"], 4);
  EXPECT_EQ(entries[2]["status"], "PASSED");
  EXPECT_EQ(entries[2]["run"]["isa"], "scalar");
  EXPECT_FALSE(Exists("y.npy"));
  const std::string repro = entries[0]["repro"];
  EXPECT_THAT(repro, HasSubstr("--max-time 30ms"));
  const ShellResult again = Sh(repro);
  EXPECT_EQ(again.exit_code, 0) << repro << again.err;

  // The command line says it for all.
  Ok("m.json --match '*1x1' --threads 2,1 --isa auto --max-time 30ms --report r.json");
  const json selected = Report()["benchmarks"];
  ASSERT_EQ(selected.size(), 2u);
  EXPECT_EQ(selected[0]["threads"], 2);
  EXPECT_EQ(selected[1]["name"], "three/1x1");
}

TEST_F(BenchTest, SelectsCasesByNameAndTag) {
  WriteBytes(Path("m.json"), kManifest);
  const auto listed = [this](const std::string& flags) {
    const std::string list = Ok("m.json --list " + flags).out;
    std::string names;
    for (const char* name : {"one/3x3", "two/3x3", "three/1x1"}) {
      if (list.find(std::string("--name ") + name) != std::string::npos) names += *name;
    }
    return names + std::to_string(std::count(list.begin(), list.end(), '\n'));
  };
  EXPECT_EQ(listed(""), "ott3");
  EXPECT_EQ(listed("--match '*3x3'"), "ot2");
  EXPECT_EQ(listed("--tag plain"), "ot2");
  EXPECT_EQ(listed("--tag plain,small"), "o1");
  // Each line times the case alone, as the manifest would.
  const ShellResult alone =
      Sh("$(convgrad bench m.json --list --match three/1x1 --max-time 30ms --threads 2) --report "
         "r.json");
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_EQ(Report()["benchmarks"][0]["name"], "three/1x1");
  EXPECT_EQ(Report()["benchmarks"][0]["threads"], 2);
  const ShellResult none = Bench("m.json --match 'four*'");
  EXPECT_EQ(none.exit_code, 6);
  EXPECT_THAT(none.err, IsOneErrorLine());
  EXPECT_EQ(Bench("m.json --match 'four*' --allow-empty").exit_code, 0);
  EXPECT_EQ(Bench("m.json --input fill:ones@1,8,8,4").exit_code, 2);
  EXPECT_EQ(Bench(std::string(kCase) + "--tag small").exit_code, 2);
  EXPECT_EQ(Bench("none.json").exit_code, 4);
  EXPECT_EQ(Bench("conv2").exit_code, 2);
  WriteBytes(Path("bad.json"), "{\"schema\": \"convgrad-manifest/1\", \"cases\": [{}]}");
  EXPECT_EQ(Bench("bad.json").exit_code, 2);
  WriteBytes(Path("empty.json"), "{\"schema\": \"convgrad-manifest/1\", \"cases\": []}");
  const ShellResult empty = Bench("empty.json");
  EXPECT_EQ(empty.exit_code, 6);
  EXPECT_THAT(empty.err, IsOneErrorLine());
  EXPECT_EQ(Bench("empty.json --allow-empty").exit_code, 0);
}

TEST_F(BenchTest, TheWorkloadsAreAManifest) {
  const std::string list = Ok(CONVGRAD_SOURCE_DIR "/data/workloads.jsonl --list").out;
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 402);
  EXPECT_THAT(list, HasSubstr("--name dw3_112x112x32/filter/nhwc/f32 "));
  Ok(CONVGRAD_SOURCE_DIR
     "/data/workloads.jsonl --match 'odd_*' --tag filter,nchw,float32 "
     "--max-time 50ms");
}

TEST_F(BenchTest, RefusesFlagsThatMakeNoSense) {
  for (const char* flags :
       {"--threads 1,1", "--threads 0", "--threads 1,", "--cache warm", "--max-time soon",
        "--max-time 0", "--min-samples 0", "--ci 5", "--ci 0%",
        "--baseline none.json --regress fast", "--baseline none.json --regress -5%", "--regress 5%",
        "--output y.npy", "--expect y.npy"}) {
    std::string line = kShortCase;
    if (std::string(flags).starts_with("--threads")) line.erase(line.find("--threads 1 "), 12);
    if (std::string(flags).starts_with("--max-time")) line.erase(line.find("--max-time"));
    const ShellResult result = Bench(line + " " + flags);
    EXPECT_EQ(result.exit_code, 2) << flags;
    EXPECT_THAT(result.err, IsOneErrorLine()) << flags;
  }
  EXPECT_EQ(Bench(std::string(kShortCase) + "--max-memory 1kB").exit_code, 4);
}

TEST_F(BenchTest, TablesForOtherPrograms) {
  Ok(std::string(kCase) + "--name 'a,\"b\"|c' --csv t.csv --markdown t.md --report r.json");
  const json entry = Report()["benchmarks"][0];
  const std::string csv = ReadBytes(Path("t.csv"));
  EXPECT_THAT(csv, ::testing::StartsWith("case,threads,status,median_ms,ci_low_ms,ci_high_ms,"));
  EXPECT_THAT(csv,
              HasSubstr("\n\"a,\"\"b\"\"|c\",1,PASSED," + entry["timing"]["median"].dump() + ","));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
  const std::string markdown = ReadBytes(Path("t.md"));
  EXPECT_THAT(markdown, HasSubstr("| case | threads | status |"));
  EXPECT_THAT(markdown, HasSubstr("| a,\"b\"\\|c | 1 | PASSED |"));
  // Standard output is the table's alone.
  EXPECT_THAT(Ok(std::string(kCase) + "--csv -").out, Not(HasSubstr("roofline")));
  EXPECT_EQ(Bench(std::string(kCase) + "--csv - --markdown -").exit_code, 2);
}

TEST_F(BenchTest, APartIsKeptAfterAKill) {
  std::string lines;
  for (int i = 0; i < 50; ++i) {
    lines += fmt::format(
        "{{\"name\": \"case{}\", \"op\": \"conv2d\", \"padding\": \"SAME\", \"input\": "
        "\"fill:ones@1,9,9,4\", \"filter\": \"fill:ones@3,3,4,4\"}}\n",
        i);
  }
  WriteBytes(Path("m.jsonl"), lines);
  Ok("m.jsonl --match case0 --max-time 20ms");
  const ShellResult result = Interrupt(
      "convgrad bench m.jsonl --max-time 1s --min-samples 1000000 --threads 1 "
      "--report r.json >out",
      "KILL", "[ -s r.json ]");
  EXPECT_EQ(result.exit_code, 137);
  const json report = Report();
  EXPECT_EQ(report["error"]["code"], "bench/unfinished");
  ASSERT_GE(report["benchmarks"].size(), 1u);
  EXPECT_EQ(report["benchmarks"][0]["status"], "PASSED");
  // Rows come as they finish.
  EXPECT_THAT(ReadBytes(Path("out")), HasSubstr("case0 "));
}

TEST_F(BenchTest, NoiseAndMeansAreTold) {
  WriteBytes(Path("m.json"), kManifest);
  const std::string text = Bench("m.json --match '*1x1' --max-time 20ms --ci 0.01%").out;
  EXPECT_THAT(text, HasSubstr("noise: the 95 % interval of "));
  EXPECT_THAT(text, HasSubstr("1 measured; geometric mean "));
}

TEST_F(BenchTest, ASignalEndsItWithAReport) {
  const ShellResult result = Interrupt(
      "convgrad bench conv2d --padding SAME --input fill:normal@1,30,30,16 --filter "
      "fill:normal@3,3,16,16 "
      "--threads 1 --max-time 60s --min-samples 1000000 --report r.json",
      "TERM", "[ $(cut -d ' ' -f 14 /proc/$child/stat) -gt 30 ]");  // 0.3 s of computing
  EXPECT_EQ(result.exit_code, 143);
  const json entry = Report()["benchmarks"][0];
  EXPECT_EQ(entry["exit_code"], 143);
  EXPECT_EQ(entry["error"]["code"], "interrupted");
}

}  // namespace
}  // namespace convgrad::testing
