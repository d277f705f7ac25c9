// The command `batch` end to end: results, codes and reports of mixed manifests, what runs and what
// does not, the journal, resuming after any end.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "support/batch_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Eq;
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

  // What a run without the flag took is not taken from it.
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
  EXPECT_THAT(result.out, HasSubstr("14 cases, 2 PASSED, 3 FAILED, 1 COMPUTED, 8 ERROR"));
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
      {"no directory", {4, "io/no-directory"}}};
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

TEST_F(BatchTest, EventsAreAppendedToNoOtherFile) {
  WriteManifest(json::array({With(Filled("a"), {{"output", "a.npy"}})}));
  const std::string mine = "{\n \"name\": \"somebody's\"\n}\n";
  const std::string line = R"({"name":"a\"","family_index":0,"op":"conv2d"})";
  const json entry = {{"status", "PASSED"}, {"exit_code", 0}, {"identity", std::string(64, '0')}};
  for (const std::string& other :
       {mine, std::string("\x93NUMPY"), std::string("\n"), std::string("{\n}\n"),
        ReadBytes(Path("m.json")), Filled("a").dump() + "\n",
        R"({"name":"a","op":"conv2d"})" + std::string("\n"), line, line + "\n",
        // The whole line is asked: what stands behind a manifest's first makes it no journal.
        line + "\n" + entry.dump() + "\n",
        ReadBytes(CONVGRAD_SOURCE_DIR "/data/workloads.jsonl")}) {
    WriteBytes(Path("other"), other);
    const ShellResult result = Sh("convgrad batch m.json --events other --report r.json");
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, IsOneErrorLine());
    EXPECT_EQ(Report()["error"]["code"], "events/malformed");
    EXPECT_EQ(ReadBytes(Path("other")), other);
    EXPECT_FALSE(Exists("a.npy"));
  }
  // Cut by a kill, and again while the next run appends.
  for (const char* cut : {"", "{", "{\"na", "{\"name\":\"a\\\"", "{\"name\":\"a\",\"fam",
                          "{\"name\":\"a\",\"family_index\":0,\"identity\":\"01\n{\"name"}) {
    WriteBytes(Path("e.jsonl"), cut);
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ(Sh("convgrad batch m.json --events e.jsonl").exit_code, 0) << cut;
      EXPECT_EQ(Events().back()["name"], "a");
    }
  }
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
  // An empty list is right (M30).
  WriteManifest(json::array());
  EXPECT_THAT(names(""), IsEmpty());
}

// The cases that ran may be neither those of the old text nor of the new one.
TEST_F(BatchTest, AManifestThatChangesMeanwhileIsAnError) {
  json cases = json::array();
  for (int i = 0; i < 200; ++i) cases.push_back(Filled(fmt::format("c{}", i), i, 200));
  WriteManifest(cases);
  const ShellResult result =
      Sh("convgrad batch m.json --events e.jsonl --threads 1 & child=$!; "
         "until [ -s e.jsonl ]; do sleep 0.01; done; echo >>m.json; wait $child");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("m.json: the file changed"));
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

TEST_F(BatchTest, ResumeTrustsOnlyWhatIsStillTrue) {
  ASSERT_EQ(Sh("convgrad gen --fill normal --shape 1,6,6,3 --output x.npy && "
               "convgrad gen --fill ones --shape 1,6,6,4 --output g.npy")
                .exit_code,
            0);
  const json from_file = With(Filled("file"), {{"input", "x.npy"}, {"output", "file.npy"}});
  WriteManifest({With(Filled("out"), {{"output", "out.npy"}}), from_file,
                 With(Filled("wrong"), {{"expect", "g.npy"}}), Filled("plain")});
  const auto resumed = [this](int exit_code) {
    EXPECT_EQ(Sh("convgrad batch m.json --report r.json --events e.jsonl --resume").exit_code,
              exit_code);
    std::vector<std::string> names;
    const json report = Report();
    for (const json& entry : report["benchmarks"]) {
      if (entry.value("resumed", false)) names.push_back(entry["name"]);
    }
    return names;
  };
  EXPECT_THAT(resumed(1), IsEmpty());
  const json undisturbed = Comparable(Report());
  EXPECT_EQ(Events().size(), 4);
  EXPECT_THAT(resumed(1), ElementsAre("out", "file", "wrong", "plain"));
  EXPECT_EQ(Comparable(Report()), undisturbed);
  EXPECT_EQ(Events().size(), 4);
  std::filesystem::remove(Path("out.npy"));
  EXPECT_THAT(resumed(1), ElementsAre("file", "wrong", "plain"));
  EXPECT_TRUE(Exists("out.npy"));
  WriteBytes(Path("out.npy"), ReadBytes(Path("g.npy")));
  EXPECT_THAT(resumed(1), ElementsAre("file", "wrong", "plain"));
  EXPECT_EQ(Comparable(Report()), undisturbed);
  ASSERT_EQ(Sh("convgrad gen --fill normal --shape 1,6,6,3 --seed 1 --output x.npy").exit_code, 0);
  EXPECT_THAT(resumed(1), ElementsAre("out", "wrong", "plain"));
  ASSERT_EQ(Sh("convgrad run conv2d --padding SAME --input 'fill:normal@1,6,6,3#0' --filter "
               "fill:normal@3,3,3,4 --output g.npy")
                .exit_code,
            0);
  EXPECT_THAT(resumed(0), ElementsAre("out", "file", "plain"));
  // No line, somebody else's line, an old line before a new one, half a line.
  const std::string events = ReadBytes(Path("e.jsonl"));
  WriteBytes(Path("e.jsonl"),
             events + "nonsense\n{\"name\": \"x\"}\n" + events + "{\"name\":\"out\",\"ident");
  EXPECT_THAT(resumed(0), ElementsAre("out", "file", "wrong", "plain"));
  WriteManifest(json::array({With(Filled("out"), {{"output", "out.npy"}, {"strides", 2}})}));
  EXPECT_THAT(resumed(0), IsEmpty());
}

TEST_F(BatchTest, AFullDiskFailsTheCaseAlone) {
  WriteManifest({With(Filled("small"), {{"output", "small.npy"}}),
                 With(Filled("large", 0, 300), {{"output", "large.npy"}}),
                 With(Filled("after"), {{"output", "after.npy"}})});
  const ShellResult result = Sh("ulimit -f 64; convgrad batch m.json --report r.json");
  EXPECT_EQ(result.exit_code, 4);
  const std::map<std::string, json> entries = ByName(Report());
  EXPECT_EQ(entries.at("small")["exit_code"], 0);
  EXPECT_EQ(entries.at("large")["error"]["code"], "io/too-large");
  EXPECT_EQ(entries.at("after")["exit_code"], 0);
  EXPECT_THAT(Files(), ElementsAre("after.npy", "m.json", "r.json", "small.npy"));
  const ShellResult full = Sh("convgrad batch m.json --report /dev/full");
  EXPECT_EQ(full.exit_code, 4);
  EXPECT_THAT(full.err, IsOneErrorLine());
  EXPECT_EQ(Sh("convgrad batch m.json --events /dev/full").exit_code, 4);
}

// Its cost beside the kernels: a fifth of a millisecond would already be noticed.
TEST_F(BatchTest, ManyTinyCasesCostLittle) {
  const int num_cases = Rounds(5000);
  std::string lines;
  for (int i = 0; i < num_cases; ++i) lines += Filled(fmt::format("c{}", i), i, 3).dump() + "\n";
  WriteBytes(Path("m.jsonl"), lines);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Sh("convgrad batch m.jsonl --events e.jsonl --report r.json").exit_code, 0);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(elapsed.count(), 20);
  EXPECT_EQ(Events().size(), num_cases);
  EXPECT_EQ(json::parse(ReadBytes(Path("r.json")))["benchmarks"].size(), num_cases);
}

class BatchKillTest : public BatchTest {
 protected:
  static constexpr int kCases = 60;

  void WriteCases() {
    json cases = json::array();
    for (int i = 0; i < kCases; ++i) {
      cases.push_back(With(Filled(fmt::format("c{}", i), i, 8 + i % 7),
                           {{"output", fmt::format("{}.npy", i)}}));
    }
    WriteManifest(cases);
  }

  pid_t StartBatch() const {
    return Start(
        {"batch", "m.json", "--events", "e.jsonl", "--resume", "--report", "r.json", "--quiet"});
  }
};

TEST_F(BatchKillTest, ResumesAfterAnyEnd) {
  const int num_rounds = Rounds(150);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  WriteCases();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(ExitCodeOf(StartBatch()), 0);
  KillMoments moments(seed, std::chrono::steady_clock::now() - begin);
  const json undisturbed = Comparable(Report());
  std::vector<std::string> outputs;
  for (int i = 0; i < kCases; ++i) outputs.push_back(ReadBytes(Path(fmt::format("{}.npy", i))));
  for (int round = 0; round < num_rounds; ++round) {
    if (round % 5 == 0) {  // from the beginning again, over old files
      std::filesystem::remove(Path("e.jsonl"));
      for (int i = 0; i < kCases; i += 2) WriteBytes(Path(fmt::format("{}.npy", i)), "old");
    }
    const int signal = random() % 3 == 0 ? SIGTERM : SIGKILL;
    const pid_t batch = StartBatch();
    std::this_thread::sleep_for(moments.Next());
    kill(batch, signal);
    const int exit_code = ExitCodeOf(batch);
    ASSERT_THAT(exit_code, AnyOf(0, 128 + signal));
    moments.Learn(exit_code != 0);
    for (int i = 0; i < kCases; ++i) {
      const std::string now = ReadBytes(Path(fmt::format("{}.npy", i)));
      ASSERT_THAT(now, AnyOf(Eq(outputs[i]), Eq("old")));
    }
    if (round % 5 != 4) continue;
    ASSERT_EQ(ExitCodeOf(StartBatch()), 0);
    ASSERT_EQ(Comparable(Report()), undisturbed);
    for (int i = 0; i < kCases; ++i) {
      ASSERT_EQ(ReadBytes(Path(fmt::format("{}.npy", i))), outputs[i]);
    }
  }
  EXPECT_GT(moments.met(), num_rounds / 5);
  for (const std::string& name : Files()) EXPECT_THAT(name, Not(HasSubstr(".tmp-")));
}

TEST_F(BatchTest, ASignalKeepsWhatFinished) {
  json cases = json::array({Filled("quick")});
  cases.push_back(Long("long"));
  cases.push_back(Filled("after"));
  WriteManifest(cases);
  const ShellResult result =
      Sh("convgrad batch m.json --report r.json --events e.jsonl --threads 1 --jobs 1 & child=$!; "
         "while [ ! -s e.jsonl ]; do sleep 0.05; done; kill -TERM $child; wait $child");
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  const json report = Report();
  EXPECT_EQ(report["error"]["code"], "interrupted");
  ASSERT_EQ(report["benchmarks"].size(), 1);
  EXPECT_EQ(report["benchmarks"][0]["name"], "quick");
  EXPECT_EQ(Events().size(), 1);
}

TEST_F(BatchTest, TheProjectsOwnGoldens) {
  const ShellResult result =
      Sh("convgrad batch " CONVGRAD_SOURCE_DIR "/data/golden/manifest.json --report r.json");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(Report()["benchmarks"].size(), 87);
}

}  // namespace
}  // namespace convgrad::testing
