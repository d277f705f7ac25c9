// The command `batch` end to end: results, codes and reports of mixed manifests, what runs and what
// does not, the journal, resuming after any end.
#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>

#include "support/batch_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A CI whose cases lost their goldens must not look as if they passed.
TEST_F(BatchTest, ACaseWithoutAGoldenIsComputedNotPassed) {
  ASSERT_EQ(Sh("convgrad run conv2d --padding SAME --input fill:normal@1,6,6,3 --filter "
               "fill:normal@3,3,3,4 "
               "--output golden.npy")
                .exit_code,
            0);
  WriteManifest({With(Filled("unchecked"), {{"output", "y.npy"}}),
                 With(Filled("checked"), {{"expect", "golden.npy"}}),
                 With(Filled("by the reference"), {{"probe", true}})});
  const std::string batch = "convgrad batch m.json --report r.json --events e.jsonl ";
  ShellResult result = Sh(batch + "--junit j.xml");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 cases, 2 PASSED, 1 COMPUTED;"));
  EXPECT_EQ(ByName(Report())["unchecked"]["status"], "COMPUTED");
  for (const json& event : Events()) {
    EXPECT_EQ(event["status"] == "COMPUTED", event["name"] == "unchecked");
  }
  EXPECT_THAT(ReadBytes(Path("j.xml")), HasSubstr("skipped=\"1\""));
  EXPECT_THAT(Sh(batch + "--resume").out, HasSubstr("1 COMPUTED; 3 from an earlier run"));
  EXPECT_THAT(Sh("convgrad merge r.json --report w.json --summary s.md").exit_code, 0);
  EXPECT_THAT(ReadBytes(Path("s.md")), HasSubstr("2 of 3 cases passed, 1 had no golden"));

  // A result of a run without the flag is not taken over.
  result = Sh(batch + "--resume --require-golden");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("3 cases, 1 PASSED, 2 FAILED; 1 from an earlier run"));
  std::map<std::string, json> entries = ByName(Report());
  for (const char* name : {"unchecked", "by the reference"}) {
    EXPECT_EQ(entries[name]["error"]["code"], "golden/none") << name;
  }
}

// Whatever order they finish in, and whatever else the streams are used for.
TEST_F(BatchTest, WhatIsNotRightIsAlwaysSeen) {
  json cases = json::array();
  for (int i = 0; i < 30; ++i) {
    cases.push_back(With(Filled(fmt::format("wrong{:02}", i)), {{"input", "missing.npy"}}));
  }
  cases[29] = With(Filled("last, 100%: wrong"), {{"expect", {{"sha256", std::string(64, '0')}}}});
  WriteManifest(cases);
  const ShellResult plain = Sh("convgrad batch m.json");
  EXPECT_EQ(plain.exit_code, 4);
  EXPECT_EQ(plain.err, "");
  size_t at = 0;
  for (int i = 0; i < 20; ++i) {
    at = plain.out.find(fmt::format("ERROR  wrong{:02}\n", i), at);
    ASSERT_NE(at, std::string::npos) << i << plain.out;
  }
  EXPECT_THAT(plain.out, HasSubstr("and 10 more; "));
  EXPECT_THAT(plain.out, HasSubstr("30 cases, 1 FAILED, 29 ERROR; "));
  for (const char* flags : {"--quiet", "--report -", "--summary -", "--quiet --junit -"}) {
    const ShellResult result = Sh(fmt::format("convgrad batch m.json {}", flags));
    EXPECT_THAT(result.err, HasSubstr("ERROR  wrong00\n")) << flags;
    EXPECT_THAT(result.err, HasSubstr("and 10 more; ")) << flags;
    EXPECT_THAT(result.out, Not(HasSubstr("ERROR  wrong00\n"))) << flags;
  }
  WriteManifest(nlohmann::json::array({cases[29]}));
  const ShellResult annotated = Sh("GITHUB_ACTIONS=true convgrad batch m.json");
  EXPECT_EQ(annotated.err,
            "::error file=m.json,line=3,title=FAILED last%2C 100%25%3A wrong::the data hash is not "
            "the golden's\n");
  WriteManifest(nlohmann::json::array({Filled("right")}));
  EXPECT_EQ(Sh("GITHUB_ACTIONS=true convgrad batch m.json --quiet").err, "");
}

TEST_F(BatchTest, DirectoriesAreMadeBeneathTheRootAlone) {
  WriteManifest(json::array({With(Filled("a"), {{"output", "new/deep/y.npy"}})}));
  EXPECT_EQ(Sh("convgrad batch m.json").exit_code, 0);
  EXPECT_TRUE(Exists("new/deep/y.npy"));
  EXPECT_EQ(Sh("mkdir root && convgrad batch m.json --output-root root").exit_code, 0);
  EXPECT_TRUE(Exists("root/new/deep/y.npy"));
  // A directory that may lie anywhere is made nowhere.
  EXPECT_EQ(Sh("rm -r new && convgrad batch m.json --allow-outside").exit_code, 4);
  EXPECT_FALSE(Exists("new"));
}

TEST_F(BatchTest, LintReportsEveryMistake) {
  WriteBytes(Path("m.json"), R"({"schema": "convgrad-manifest/1",
 "defaults": {"stride": 1, "isa": "avx1024"}, "default": [1],
 "cases": [
  {"name": "a", "op": "conv2d", "padding": "SAEM", "input": "x.npy",
   "strides": "2", "dilation": [1, {"x": [2]}], "dtype": "float23", "threads": 0},
  {"name": "b", "op": "conv3d", "input": "x.npy", "filter": "w.npy"},
  {"name": "a", "op": "conv2d", "padding": "SAME", "input": "x.npy", "filter": "w.npy"},
  {"op": "conv2d", "padding": "SAME", "input": "x.npy", "filter": "w.npy"}
 ]})");
  const ShellResult result = Sh("convgrad batch m.json --lint --report r.json");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "12 mistakes\n");
  size_t at = 0;
  for (const char* words :
       {"m.json:2:15: stride: ", "m.json:5:15: strides: ", "m.json:5:20: dilation: ",
        "m.json:4:44: padding 'SAEM': ", "m.json:4:3: filter: ", "m.json:5:58: dtype 'float23': ",
        "m.json:5:80: threads '0': ", "m.json:2:35: isa 'avx1024': ", "m.json:2:47: default: ",
        "m.json:6:23: ", "m.json:7:12: name: 'a' names the case at line 4 too",
        "m.json:8:3: this case has no key name"}) {
    at = result.err.find(words);
    EXPECT_NE(at, std::string::npos) << words << "\n" << result.err;
  }
  EXPECT_EQ(Report()["error"]["code"], "manifest/unknown-key");
  // Without it the first is told alone.
  EXPECT_THAT(Sh("convgrad batch m.json").err, IsOneErrorLine());
  WriteManifest(
      {With(Filled("a"), {{"output", "y.npy"}}), With(Filled("b"), {{"output", "y.npy"}})});
  const std::string clash = "the case 'a' writes this file too";
  EXPECT_THAT(Sh("convgrad batch m.json --lint").err, HasSubstr(clash));
  // Each of three, and what reads it.
  WriteManifest({With(Filled("a"), {{"output", "y.npy"}}), With(Filled("b"), {{"output", "y.npy"}}),
                 With(Filled("c"), {{"output", "y.npy"}}),
                 With(Filled("d"), {{"input", "y.npy"}})});
  const ShellResult files = Sh("convgrad batch m.json --lint");
  EXPECT_EQ(files.out, "3 mistakes\n") << files.err;
  EXPECT_THAT(files.err, HasSubstr("what is read depends on the order"));
  EXPECT_THAT(Sh("convgrad batch m.json").err, IsOneErrorLine());
  WriteManifest(json::array({With(Filled("a"), {{"output", "y.npy"}})}));
  EXPECT_EQ(Sh("convgrad batch m.json --lint").out, "no mistakes\n");
  EXPECT_FALSE(Exists("y.npy"));
  WriteBytes(Path("m.json"), "{\"schema\": \"convgrad-manifest/1\", \"cases\": [");
  EXPECT_THAT(Sh("convgrad batch m.json --lint").err, IsOneErrorLine());
}

TEST_F(BatchTest, OneBadCaseNeverStopsTheOthers) {
  ASSERT_EQ(Sh("convgrad run conv2d --padding SAME --input fill:normal@1,6,6,3 --filter "
               "fill:normal@3,3,3,4 "
               "--output right.npy && convgrad gen --fill ones --shape 1,6,6,4 --output wrong.npy "
               "&& convgrad gen --fill ones --shape 1,6,6,5 --output other.npy && mkdir folder && "
               "mkfifo pipe && echo no npy >bad.npy")
                .exit_code,
            0);
  const json cases = {
      With(Filled("first"), {{"output", "first.npy"}}),
      With(Filled("right"), {{"expect", "right.npy"}, {"tolerance", "bits"}}),
      With(Filled("wrong"), {{"expect", "wrong.npy"}}),
      With(Filled("incomparable"), {{"expect", "other.npy"}}),  // M54
      With(Filled("no golden"), {{"expect", "missing.npy"}}),   // M53
      With(Filled("no input"), {{"input", "missing.npy"}}),     // M42
      With(Filled("fifo"), {{"input", "pipe"}}),                // M44
      With(Filled("device"), {{"input", "/dev/zero"}}),         // M45
      With(Filled("proc"), {{"input", "/proc/self/status"}}),   // M46
      With(Filled("directory"), {{"input", "folder"}}),         // M47
      With(Filled("malformed"), {{"input", "bad.npy"}}),
      With(Filled("misfit"), {{"filter", {{"fill", "ones"}, {"shape", {3, 3, 2, 4}}}}}),
      With(Filled("no directory"), {{"output", "nowhere/y.npy"}}),
      With(Filled("last"), {{"output", "last.npy"}, {"probe", true}}),
  };
  WriteManifest(cases);
  const ShellResult result = Sh("convgrad batch m.json --report r.json --events e.jsonl");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("14 cases, 2 PASSED, 3 FAILED, 2 COMPUTED, 7 ERROR"));
  EXPECT_THAT(result.out, HasSubstr("FAILED  wrong"));
  // Each error once.
  EXPECT_THAT(result.out, HasSubstr("ERROR  no input\n  reason   missing.npy: "));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(ReadBytes(Path("first.npy")), ReadBytes(Path("right.npy")));
  EXPECT_EQ(ReadBytes(Path("last.npy")), ReadBytes(Path("right.npy")));

  const json report = Report();
  ASSERT_EQ(report["benchmarks"].size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(report["benchmarks"][i]["name"], cases[i]["name"]);
    EXPECT_EQ(report["benchmarks"][i]["family_index"], i);
  }
  std::map<std::string, json> entries = ByName(report);
  const std::map<std::string, std::pair<int, std::string>> expected = {
      {"first", {0, ""}},
      {"right", {0, ""}},
      {"wrong", {1, ""}},
      {"incomparable", {1, ""}},
      {"no golden", {1, "golden/missing"}},
      {"no input", {4, "io/not-found"}},
      {"fifo", {4, "io/not-a-file"}},
      {"device", {4, "io/not-a-file"}},
      {"directory", {4, "io/not-a-file"}},
      {"last", {0, ""}},
      {"no directory", {0, ""}}};
  EXPECT_EQ(ReadBytes(Path("nowhere/y.npy")), ReadBytes(Path("right.npy")));  // it was made
  for (const auto& [name, ending] : expected) {
    EXPECT_EQ(entries[name]["exit_code"], ending.first) << name;
    EXPECT_EQ(entries[name].value("error", json::object()).value("code", ""), ending.second);
  }
  EXPECT_EQ(entries["incomparable"]["check"]["reason"], "incomparable");
  for (const char* name : {"proc", "malformed", "misfit"}) EXPECT_EQ(entries[name]["exit_code"], 3);
  // The journal has the same entries, in the order in which they finished.
  std::map<std::string, json> events;
  for (const json& event : Events()) events[event["name"]] = event;
  EXPECT_EQ(events, entries);
}

TEST_F(BatchTest, TheWorstCodeWins) {
  const json wrong = With(Filled("wrong"), {{"expect", "missing.npy"}});
  const json usage = With(Filled("usage"), {{"algorithm", "winograd"}});
  const json data = With(Filled("data"), {{"input", "/proc/self/status"}});
  WriteManifest({Filled("right"), wrong});
  EXPECT_EQ(Sh("convgrad batch m.json").exit_code, 1);
  WriteManifest({wrong, usage, Filled("right")});
  EXPECT_EQ(Sh("convgrad batch m.json").exit_code, 2);
  WriteManifest({data, usage, wrong});
  EXPECT_EQ(Sh("convgrad batch m.json").exit_code, 3);
  WriteManifest(json::array({Filled("right")}));
  EXPECT_EQ(Sh("convgrad batch m.json").exit_code, 0);
}

TEST_F(BatchTest, AManifestThatIsWrongRunsNothing) {
  WriteManifest({With(Filled("a"), {{"output", "a.npy"}}), With(Filled("b"), {{"stride", 2}})});
  const ShellResult result = Sh("convgrad batch m.json --report r.json");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, IsOneErrorLine());
  EXPECT_THAT(result.err, HasSubstr("did you mean strides?"));
  EXPECT_THAT(Files(), ElementsAre("m.json", "r.json"));
  EXPECT_EQ(Report()["error"]["code"], "manifest/unknown-key");
  EXPECT_EQ(Sh("convgrad batch missing.json").exit_code, 4);
  EXPECT_EQ(Sh("convgrad batch .").exit_code, 4);
  EXPECT_EQ(Sh("convgrad batch - </dev/null").exit_code, 2);
  EXPECT_EQ(Sh("convgrad batch m.json --resume").exit_code, 2);
  EXPECT_EQ(Sh("convgrad batch m.json --events -").exit_code, 2);
  EXPECT_EQ(Sh("convgrad batch m.json --report m.json").exit_code, 2);
  EXPECT_EQ(Sh("convgrad batch m.json --events r.json --report r.json").exit_code, 2);
}

TEST_F(BatchTest, WhatRuns) {
  WriteManifest({With(Filled("dw/a"), {{"tags", {"smoke"}}}), Filled("dw/b"),
                 With(Filled("c d"), {{"tags", {"smoke", "slow"}}, {"output", "c.npy"}})});
  const auto names = [this](const std::string& flags) {
    EXPECT_EQ(Sh("convgrad batch m.json --report r.json " + flags).exit_code, 0) << flags;
    std::vector<std::string> found;
    const json report = Report();
    for (const json& entry : report["benchmarks"]) found.push_back(entry["name"]);
    return found;
  };
  EXPECT_THAT(names(""), ElementsAre("dw/a", "dw/b", "c d"));
  EXPECT_THAT(names("--match 'dw*'"), ElementsAre("dw/a", "dw/b"));
  EXPECT_THAT(names("--match 'dw/b' --match '? ?'"), ElementsAre("dw/b", "c d"));
  EXPECT_THAT(names("--tag smoke"), ElementsAre("dw/a", "c d"));
  EXPECT_THAT(names("--tag smoke --match '? ?'"), ElementsAre("c d"));
  EXPECT_THAT(names("--tag smoke,slow"), ElementsAre("c d"));  // all of them
  EXPECT_THAT(names("--tag none --allow-empty"), IsEmpty());
  EXPECT_EQ(Sh("convgrad batch m.json --tag none --report r.json").exit_code, 6);
  EXPECT_EQ(Report()["error"]["code"], "batch/nothing-ran");
  // Each line of --list runs alone, from where it was printed.
  std::filesystem::remove(Path("c.npy"));
  const ShellResult list = Sh("convgrad batch m.json --list");
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_FALSE(Exists("c.npy"));
  EXPECT_THAT(list.out, HasSubstr("run conv2d --input 'fill:normal@1,6,6,3#0'"));
  EXPECT_EQ(Sh("set -e; " + list.out).exit_code, 0);
  EXPECT_TRUE(Exists("c.npy"));
}

TEST_F(BatchTest, AManifestWithoutCasesIsNoSuccess) {
  WriteManifest(json::array());
  WriteBytes(Path("m.jsonl"), "{\"schema\": \"convgrad-manifest/1\"}\n");
  for (const std::string how :
       {"batch m.json", "batch m.jsonl", "batch m.json --require-golden",
        "batch m.json --shard 1/2 --quiet", "batch m.json --match 'dw*'",
        "batch m.json --tag smoke", "bench m.json", "bench m.jsonl", "bench m.json --tag smoke",
        "prune m.json --delete", "batch m.json --list", "batch m.jsonl --list --tag smoke",
        "batch m.json --lint", "batch m.jsonl --lint", "plan m.json", "plan m.jsonl --shards 2",
        "tune m.json", "tune m.jsonl --match 'dw*'"}) {
    const ShellResult none = Sh("convgrad " + how);
    EXPECT_EQ(none.exit_code, 6) << how;
    EXPECT_THAT(none.err, IsOneErrorLine()) << how;
  }
  EXPECT_EQ(Sh("convgrad batch m.json --report r.json").exit_code, 6);
  EXPECT_EQ(Report()["error"]["code"], "batch/nothing-ran");
}

// All that was asked for is written, so that a merge and a later --resume find it.
TEST_F(BatchTest, AManifestWithoutCasesMayBeAllowed) {
  WriteManifest(json::array());
  for (const std::string flags : {"", "--match 'dw*'", "--resume"}) {
    const ShellResult empty =
        Sh("convgrad batch m.json --allow-empty --report r.json --events e.jsonl --junit j.xml " +
           flags);
    EXPECT_EQ(empty.exit_code, 0) << flags << empty.err;
    EXPECT_THAT(Report()["benchmarks"], IsEmpty());
    EXPECT_TRUE(Exists("e.jsonl"));
    EXPECT_TRUE(std::filesystem::remove(Path("j.xml"))) << flags;
  }
  for (const std::string shard : {"1", "2"}) {
    EXPECT_EQ(Sh(fmt::format("convgrad batch m.json --allow-empty --shard {0}/2 --report {0}.json",
                             shard))
                  .exit_code,
              0);
  }
  EXPECT_EQ(Sh("convgrad merge 1.json 2.json --report r.json").exit_code, 0);
  EXPECT_THAT(Report()["benchmarks"], IsEmpty());
  for (const std::string how :
       {"batch m.json --list", "batch m.json --lint", "plan m.json --shards 2", "tune m.json"}) {
    EXPECT_EQ(Sh("XDG_CACHE_HOME=$PWD/c convgrad " + how + " --allow-empty").exit_code, 0) << how;
  }
}

// A shard may be left without one of few cases.
TEST_F(BatchTest, AShardWithoutCasesIsDone) {
  WriteManifest(json::array({Filled("a")}));
  for (const std::string shard : {"1/2", "2/2"}) {
    EXPECT_EQ(Sh("convgrad batch m.json --shard " + shard).exit_code, 0) << shard;
  }
}

TEST_F(BatchTest, PathsMayBeginWithADash) {
  ASSERT_EQ(Sh("convgrad gen --fill ones --shape 1,6,6,3 --output ./-x.npy").exit_code, 0);
  WriteManifest(json::array({With(Filled("a"), {{"input", "-x.npy"}, {"output", "-y.npy"}})}));
  const ShellResult list = Sh("convgrad batch m.json --list");
  EXPECT_THAT(list.out, HasSubstr("--input ./-x.npy"));
  EXPECT_EQ(Sh(list.out).exit_code, 0);
  EXPECT_TRUE(Exists("-y.npy"));
}

TEST_F(BatchTest, ManifestsElsewhereAndFromStandardInput) {
  std::filesystem::create_directory(Path("sub \xFF"));
  WriteManifest(json::array({With(Filled("a"), {{"output", "a.npy"}})}));
  ASSERT_EQ(Sh("mv m.json sub*/; convgrad batch sub*/m.json --report r.json").exit_code, 0);
  EXPECT_TRUE(Exists("sub \xFF/a.npy"));
  EXPECT_EQ(Report()["benchmarks"][0]["output"]["path"], "sub \\xff/a.npy");  // M37
  EXPECT_EQ(Sh("cat sub*/m.json | convgrad batch -").exit_code, 0);
  EXPECT_TRUE(Exists("a.npy"));
  EXPECT_EQ(Sh("mkdir out; convgrad batch sub*/m.json --output-root out").exit_code, 0);
  EXPECT_EQ(ReadBytes(Path("out/a.npy")), ReadBytes(Path("a.npy")));
}

TEST_F(BatchTest, FailFastStops) {
  json cases = json::array({With(Filled("bad"), {{"expect", "missing.npy"}})});
  for (int i = 0; i < 50; ++i) cases.push_back(Filled(fmt::format("c{}", i), i));
  WriteManifest(cases);
  const ShellResult result = Sh("convgrad batch m.json --fail-fast --jobs 1 --report r.json");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("51 cases, 1 FAILED, 50 not run"));
  EXPECT_EQ(Report()["benchmarks"].size(), 1);
}

TEST_F(BatchTest, ResultsDoNotDependOnHowTheyAreRun) {
  json cases = json::array();
  for (int i = 0; i < 40; ++i) {
    // Some take a thread, some all.
    cases.push_back(Filled(fmt::format("c{}", i), i, i % 10 == 9 ? 640 : 5 + i));
  }
  WriteManifest(cases);
  ASSERT_EQ(Sh("convgrad batch m.json --report r1.json --threads 1 --jobs 1").exit_code, 0);
  ASSERT_EQ(Sh("convgrad batch m.json --report r2.json --threads 3 --jobs 7").exit_code, 0);
  const json one = Report("r1.json"), many = Report("r2.json");
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(one["benchmarks"][i]["output"], many["benchmarks"][i]["output"]) << i;
  }
  EXPECT_EQ(many["benchmarks"][9]["run"]["threads"], 3);
  EXPECT_EQ(many["benchmarks"][8]["run"]["threads"], 1);
  EXPECT_EQ(one["context"]["plan"], many["context"]["plan"]);
}

// On CPUs, whoever else uses them.
double CpuSecondsOfChildren() {
  struct rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Its cost beside the kernels: a fifth of a millisecond would already be noticed.
TEST_F(BatchTest, ManyTinyCasesCostLittle) {
  const int num_cases = Rounds(5000);
  std::string lines;
  for (int i = 0; i < num_cases; ++i) lines += Filled(fmt::format("c{}", i), i, 3).dump() + "\n";
  WriteBytes(Path("m.jsonl"), lines);
  const double begin = CpuSecondsOfChildren();
  EXPECT_EQ(Sh("convgrad batch m.jsonl --events e.jsonl --report r.json").exit_code, 0);
  EXPECT_LT(CpuSecondsOfChildren() - begin, 20);
  EXPECT_EQ(Events().size(), num_cases);
  EXPECT_EQ(json::parse(ReadBytes(Path("r.json")))["benchmarks"].size(), num_cases);
}

TEST_F(BatchTest, TheProjectsOwnGoldens) {
  const ShellResult result =
      Sh("convgrad batch " CONVGRAD_SOURCE_DIR "/data/golden/manifest.json --report r.json");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(Report()["benchmarks"].size(), 87);
}

}  // namespace
}  // namespace convgrad::testing
