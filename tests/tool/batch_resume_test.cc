// Batches that do not come to their end, and how `--resume` goes on from what is left: the journal,
// full disks, signals, kills at any moment.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
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
  EXPECT_THAT(result.err,
              HasSubstr("1 of 3 cases have finished; go on with: convgrad batch m.json --report "
                        "r.json --events e.jsonl --threads 1 --jobs 1 --resume\n"));
}

TEST_F(BatchTest, AnInterruptedBatchWithoutEventsNamesThem) {
  WriteManifest(json::array({Long("long")}));
  const ShellResult result = Interrupt("convgrad batch m.json --verbose --quiet", "INT");
  EXPECT_EQ(result.exit_code, 128 + SIGINT);
  EXPECT_THAT(result.err, HasSubstr("0 of 1 cases have finished; with --events F, --resume could"));
}

}  // namespace
}  // namespace convgrad::testing
