// `bench` end to end: what it reports, its verdicts against a baseline and another binary, its
// cache of peaks. Times are short; what is tested does not depend on how fast the machine is.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class BenchTest : public CliTest {
 protected:
  // One cache of peaks for all tests of the program: they take most of a second.
  static std::string CacheFolder() {
    static const ScratchDirectory folder;
    return folder.path();
  }
  ShellResult Bench(const std::string& flags) {
    return Sh(fmt::format("XDG_CACHE_HOME={} convgrad bench {}", CacheFolder(), flags));
  }
  ShellResult Ok(const std::string& flags) {
    const ShellResult result = Bench(flags);
    EXPECT_EQ(result.exit_code, 0) << flags << "\n" << result.err;
    return result;
  }
  // The report with every time of every case scaled.
  void ScaleTimes(const std::string& from, const std::string& to, double factor) {
    json report = Report(from);
    for (json& entry : report["benchmarks"]) {
      for (const char* key : {"real_time", "cpu_time"}) {
        entry[key] = factor * entry[key].get<double>();
      }
      for (const char* key : {"compute_ms", "min", "median", "mean", "p5", "p95", "max"}) {
        entry["timing"][key] = factor * entry["timing"][key].get<double>();
      }
      for (json& end : entry["timing"]["ci"]) end = factor * end.get<double>();
    }
    WriteBytes(Path(to), report.dump());
  }
};

constexpr const char* kCase =
    "depthwise_conv2d_backprop_filter --padding SAME --input fill:normal@1,14,14,32 --filter-sizes "
    "3,3,32,1 "
    "--out-backprop fill:normal --threads 1 --max-time 150ms ";

TEST_F(BenchTest, ReportsWhatItMeasured) {
  const ShellResult result = Ok(std::string(kCase) + "--report r.json --name a/b");
  EXPECT_THAT(result.out, HasSubstr("roofline"));
  EXPECT_EQ(result.err, "");
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
  EXPECT_LT(entry["gflops"], 1.5 * best_gflops);
  const json& peaks = report["context"]["convgrad"]["peaks"]["measured"];
  ASSERT_EQ(peaks.size(), 1u);
  EXPECT_EQ(peaks[0]["threads"], 1);
  EXPECT_EQ(peaks[0]["isa"], entry["run"]["isa"]);
  EXPECT_EQ(entry["output"]["sha256"].get<std::string>().size(), 64u);
  EXPECT_TRUE(entry["output"]["path"].is_null());
  EXPECT_THAT(entry["repro"].get<std::string>(), Not(HasSubstr("--report")));
  EXPECT_EQ(
      Sh("XDG_CACHE_HOME=" + CacheFolder() + " " + entry["repro"].get<std::string>()).exit_code, 0);
}

TEST_F(BenchTest, OneEntryForEachNumberOfThreads) {
  Ok("conv2d --padding SAME --input fill:normal@1,9,9,4 --filter fill:normal@3,3,4,8 --max-time "
     "50ms "
     "--threads 2,1 --cache cold --report r.json --no-hash");
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

TEST_F(BenchTest, ABaselineIsJudgedByInterval) {
  const std::string one = std::string(kCase) + "--name one ";
  Ok(one + "--report r.json");
  ScaleTimes("r.json", "fast.json", 0.01);
  ScaleTimes("r.json", "slow.json", 100);
  ScaleTimes("r.json", "same.json", 1);

  const auto verdict = [&](const std::string& flags, int exit_code) {
    EXPECT_EQ(Bench(one + "--report now.json --baseline " + flags).exit_code, exit_code) << flags;
    const json entry = Report("now.json")["benchmarks"][0];
    EXPECT_EQ(entry["exit_code"], exit_code);
    EXPECT_EQ(entry["status"], "PASSED");
    return entry["baseline"]["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict("fast.json", 5), "SLOWER");
  EXPECT_EQ(verdict("slow.json", 0), "FASTER");
  EXPECT_EQ(verdict("same.json --regress 900%", 0), "SAME");  // however busy the machine
  const json baseline = Report("now.json")["benchmarks"][0]["baseline"];
  EXPECT_EQ(baseline["regress"], 9);
  EXPECT_LE(baseline["ci"][0], baseline["ratio"]);
  EXPECT_GE(baseline["ci"][1], baseline["ratio"]);
  const ShellResult slower = Bench(one + "--baseline fast.json");
  EXPECT_THAT(slower.out, HasSubstr("SLOWER"));
}

TEST_F(BenchTest, NothingIsConcludedFromAnotherMeasurement) {
  const std::string one = std::string(kCase) + "--name one ";
  Ok(one + "--report r.json");
  ScaleTimes("r.json", "fast.json", 0.01);
  const auto note = [&](const char* pointer, const json& value,
                        const char* verdict = "INCONCLUSIVE") {
    json report = Report("fast.json");
    report[json::json_pointer(pointer)] = value;
    WriteBytes(Path("other.json"), report.dump());
    const ShellResult result = Bench(one + "--report now.json --baseline other.json");
    EXPECT_EQ(result.exit_code, 6) << pointer;
    EXPECT_THAT(result.err, HasSubstr("none of its cases could be compared with")) << pointer;
    const json now = Report("now.json");
    EXPECT_EQ(now["error"]["code"], "bench/nothing-compared");
    const json baseline = now["benchmarks"][0]["baseline"];
    EXPECT_EQ(baseline["verdict"], verdict) << pointer;
    return baseline["notes"].empty() ? "" : baseline["notes"][0].get<std::string>();
  };
  EXPECT_THAT(note("/benchmarks/0/name", "two", "NEW"), HasSubstr("no case of that name"));
  EXPECT_THAT(note("/benchmarks/0/threads", 7, "NEW"), HasSubstr("no case of that name"));
  EXPECT_THAT(note("/benchmarks/0/problem/dtype", "float64"), HasSubstr("another problem"));
  EXPECT_THAT(note("/context/cpu_model", "Abacus"), HasSubstr("another machine (Abacus)"));
  EXPECT_THAT(note("/benchmarks/0/timing/cache", "cold"), HasSubstr("--cache cold"));
  EXPECT_THAT(note("/benchmarks/0/timing/ci", nullptr), HasSubstr("too few samples"));
  EXPECT_THAT(note("/benchmarks/0/timing", json::object()), HasSubstr("no median"));
  // A different kernel of the same problem is what comparisons are for; it is said.
  json report = Report("fast.json");
  report["benchmarks"][0]["run"]["isa"] = "scalar";
  WriteBytes(Path("other.json"), report.dump());
  const ShellResult result = Bench(one + "--isa auto --baseline other.json");
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.out, HasSubstr("isa was scalar"));
}

TEST_F(BenchTest, CasesThatTheBaselineLacksAreCounted) {
  Ok(std::string(kCase) + "--name one --report r.json");
  WriteBytes(Path("m.jsonl"), R"({"schema": "convgrad-manifest/1", "defaults": {"op": "conv2d",)"
                              R"( "padding": "SAME", "input": "fill:normal@1,8,8,4",)"
                              R"( "filter": "fill:normal@3,3,4,4"}})"
                              "\n{\"name\": \"two\"}\n{\"name\": \"three\"}\n");
  Ok("m.jsonl --max-time 20ms --threads 1 --match two --report two.json");
  const ShellResult result =
      Bench("m.jsonl --max-time 20ms --threads 1 --regress 900% --baseline two.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("baseline: 1 SAME, 1 NEW\n"));
}

TEST_F(BenchTest, ABaselineThatIsNoneIsRefused) {
  const auto code = [&](const std::string& text) {
    WriteBytes(Path("b.json"), text);
    const ShellResult result = Bench(std::string(kCase) + "--baseline b.json");
    EXPECT_THAT(result.err, IsOneErrorLine()) << text;
    return result.exit_code;
  };
  EXPECT_EQ(code(""), 3);
  EXPECT_EQ(code("[1]"), 3);
  EXPECT_EQ(code("{\"benchmarks\": {}}"), 3);
  EXPECT_EQ(code("{\"benchmarks\": [1]}"), 3);
  EXPECT_EQ(Bench(std::string(kCase) + "--baseline none.json").exit_code, 4);
  EXPECT_EQ(Bench(std::string(kCase) + "--baseline b.json --report b.json").exit_code, 2);
}

TEST_F(BenchTest, TheSameBinaryIsNeitherFasterNorSlower) {
  Ok(std::string(kCase) + "--regress 400% --report r.json --baseline-bin " + Binary());
  const json comparison = Report()["benchmarks"][0]["baseline_bin"];
  EXPECT_THAT((std::vector<std::string>{"SAME", "INCONCLUSIVE"}),
              ::testing::Contains(comparison["verdict"].get<std::string>()));
  EXPECT_GE(comparison["pairs"], 6);
  EXPECT_TRUE(comparison["notes"].empty()) << comparison;  // the bits are the same
  const ShellResult failed = Bench(std::string(kCase) + "--baseline-bin /bin/false");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_THAT(failed.err, HasSubstr("/bin/false: ended with exit code 1"));
  EXPECT_EQ(Bench(std::string(kCase) + "--baseline-bin /bin/true").exit_code, 4);
  // What it says to our words is part of our one line.
  const ShellResult wordy = Bench(std::string(kCase) + "--baseline-bin /bin/ls");
  EXPECT_EQ(wordy.exit_code, 4);
  EXPECT_THAT(wordy.err, IsOneErrorLine());
  EXPECT_THAT(wordy.err, HasSubstr("/bin/ls: ended with exit code 2, saying: /bin/ls: "));
  WriteBytes(Path("endless"), "#!/bin/sh\nexec yes\n");
  ASSERT_EQ(Sh("chmod +x endless").exit_code, 0);
  const ShellResult endless = Bench(std::string(kCase) + "--baseline-bin ./endless");
  EXPECT_EQ(endless.exit_code, 4);
  EXPECT_THAT(endless.err, HasSubstr("prints without end"));
  const ShellResult missing = Bench(std::string(kCase) + "--baseline-bin none");
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_THAT(missing.err, HasSubstr("none: cannot be started: No such file or directory"));
}

// The other binary gets the words of the case as they are, whatever a shell would make of them.
TEST_F(BenchTest, TheOtherBinaryReadsTheSameFiles) {
  ASSERT_EQ(Sh("convgrad gen --fill ones --shape 1,4,4,1 --output=\"$(printf '$x \\033\\377')\"")
                .exit_code,
            0);
  Ok("conv2d --padding SAME --input=\"$(printf '$x \\033\\377')\" --filter fill:ones@3,3,1,1 "
     "--max-time 30ms "
     "--regress 400% --report r.json --baseline-bin " +
     Binary());
  EXPECT_GE(Report()["benchmarks"][0]["baseline_bin"]["pairs"], 6);
}

TEST_F(BenchTest, ABrokenOrUnwritableCacheDoesNoHarm) {
  const std::string bench = std::string("convgrad bench ") + kCase + "--report r.json --verbose";
  const auto peaks = [&](const std::string& environment) {
    const ShellResult result = Sh(environment + " " + bench);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_GT(Report()["benchmarks"][0]["roofline"]["share"], 0);
    return result.err.substr(result.err.find("peaks: "));
  };
  EXPECT_THAT(peaks("XDG_CACHE_HOME=$PWD/c"), HasSubstr("kept in"));
  EXPECT_THAT(peaks("XDG_CACHE_HOME=$PWD/c"), HasSubstr("peaks: from"));
  EXPECT_THAT(peaks("XDG_CACHE_HOME= HOME=$PWD"), HasSubstr("/.cache/convgrad/"));
  Sh("for f in c/convgrad/*; do echo '{\"schema\": \"convgrad-peaks/2\"' >$f; done");
  EXPECT_THAT(peaks("XDG_CACHE_HOME=$PWD/c"), HasSubstr("kept in"));
  Sh("sed -i 's/\"float32\": [0-9.]*/\"float32\": -1/' c/convgrad/*");
  EXPECT_THAT(peaks("XDG_CACHE_HOME=$PWD/c"), HasSubstr("kept in"));
  EXPECT_THAT(peaks("XDG_CACHE_HOME=/dev/null"), HasSubstr("not kept"));
}

// A cache of peaks of its own, and what a run says of them.
class PeaksCacheTest : public BenchTest {
 protected:
  std::string Peaks(const std::string& before = "") {
    const ShellResult result =
        Sh(before + " XDG_CACHE_HOME=$PWD/c convgrad bench " + kCase + "--report r.json --verbose");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    out_ = result.out;
    return result.err.substr(result.err.find("peaks: "));
  }
  // Changes the only file of the cache.
  void Edit(const std::function<void(json&)>& change) {
    const std::string file = OnlyFile();
    json kept = json::parse(ReadBytes(file));
    change(kept);
    WriteBytes(file, kept.dump());
  }
  json Kept() const { return json::parse(ReadBytes(OnlyFile())); }
  // As a measurement would find them on a machine a hundredth as fast.
  static void Slow(json& kept) {
    for (json& rate : kept["peaks"]["gflops"]) rate = rate.get<double>() / 100;
    for (json& level : kept["peaks"]["bandwidth"]) {
      for (const char* key : {"read_gbs", "write_gbs"}) level[key] = level[key].get<double>() / 100;
    }
  }
  double ShareInReport() const {
    return Report()["benchmarks"][0]["roofline"]["share"].get<double>();
  }

  std::string out_;  // of the last run

 private:
  std::string OnlyFile() const {
    const std::filesystem::directory_iterator files(Path("c/convgrad"));
    return files->path().string();
  }
};

TEST_F(PeaksCacheTest, OtherCpusHaveOtherPeaks) {
  const ShellResult allowed = Sh("taskset -cp $$ | sed 's/.*: //; s/[-,].*//'");
  if (allowed.exit_code != 0 || Sh("nproc").out == "1\n") {
    GTEST_SKIP() << "there is but one CPU, or no taskset";
  }
  const std::string on_one = "taskset -c " + allowed.out.substr(0, allowed.out.size() - 1);
  EXPECT_THAT(Peaks(on_one + " env"), HasSubstr("kept in"));
  EXPECT_THAT(Peaks(), HasSubstr("kept in"));
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));
  EXPECT_THAT(Peaks(on_one + " env"), HasSubstr("peaks: from"));
}

TEST_F(PeaksCacheTest, AProvisionalMeasurementIsTakenAgain) {
  Peaks();
  Edit([](json& kept) { kept["peaks"]["confirmed"] = false; });
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));  // what disturbed it may still be there
  EXPECT_THAT(out_, HasSubstr("provisional"));
  Sh("touch -d '11 minutes ago' c/convgrad/*");
  EXPECT_THAT(Peaks(), HasSubstr("peaks: measured"));
  Edit([](json& kept) { kept["peaks"]["confirmed"] = true; });
  EXPECT_THAT(Peaks(), HasSubstr("peaks: from"));
  EXPECT_THAT(out_, Not(HasSubstr("provisional")));
}

TEST_F(PeaksCacheTest, OneThatAKernelContradictsIsTakenAgain) {
  Peaks();
  Edit([](json& kept) {
    Slow(kept);
    kept["peaks"]["confirmed"] = true;
  });
  const json slow = Kept();
  const std::string said = Peaks();
  EXPECT_THAT(said, HasSubstr("peaks: measured"));
  EXPECT_THAT(said, Not(HasSubstr("faster than")));
  EXPECT_LT(ShareInReport(), 1.05);
  EXPECT_EQ(Report()["context"]["convgrad"]["peaks"]["measured"][0], Kept()["peaks"]);
  EXPECT_GT(Kept()["peaks"]["gflops"]["float32"],
            10 * slow["peaks"]["gflops"]["float32"].get<double>());
  EXPECT_FALSE(Kept()["settled"].get<bool>());
}

// Were they still too slow when they were measured again, it is not their fault.
TEST_F(PeaksCacheTest, SettledOnesStay) {
  Peaks();
  Edit([](json& kept) {
    Slow(kept);
    kept["peaks"]["confirmed"] = kept["settled"] = true;
  });
  const json before = Kept();
  const std::string said = Peaks();
  EXPECT_THAT(said, Not(HasSubstr("peaks: measured")));
  EXPECT_THAT(said, HasSubstr("faster than the measured peaks allow"));
  EXPECT_GT(ShareInReport(), 1.05);
  EXPECT_EQ(Kept(), before);
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
  const ShellResult again = Sh("XDG_CACHE_HOME=" + CacheFolder() + " " + repro);
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
  EXPECT_EQ(Bench("empty.json").exit_code, 0);
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
    std::string line = kCase;
    if (std::string(flags).starts_with("--threads")) line.erase(line.find("--threads 1 "), 12);
    if (std::string(flags).starts_with("--max-time")) line.erase(line.find("--max-time"));
    const ShellResult result = Bench(line + " " + flags);
    EXPECT_EQ(result.exit_code, 2) << flags;
    EXPECT_THAT(result.err, IsOneErrorLine()) << flags;
  }
  EXPECT_EQ(Bench(std::string(kCase) + "--max-memory 1kB").exit_code, 4);
}

TEST_F(BenchTest, ASignalEndsItWithAReport) {
  const ShellResult result =
      Interrupt("XDG_CACHE_HOME=" + CacheFolder() +
                    " convgrad bench conv2d --padding SAME --input fill:normal@1,30,30,16 --filter "
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
