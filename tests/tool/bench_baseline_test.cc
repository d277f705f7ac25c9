// `bench` against an earlier report and another binary, and one report against another.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "support/bench_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST_F(BenchTest, ABaselineIsJudgedByInterval) {
  const std::string one = std::string(kCase) + "--name one ";
  Ok(one + "--report r.json");
  ScaleTimes("r.json", "fast.json", 1.0 / 1024);
  ScaleTimes("r.json", "slow.json", 1024);

  const auto verdict = [&](const std::string& flags, int exit_code) {
    EXPECT_EQ(Bench(one + "--report now.json --baseline " + flags).exit_code, exit_code) << flags;
    const json entry = Report("now.json")["benchmarks"][0];
    EXPECT_EQ(entry["exit_code"], exit_code);
    EXPECT_EQ(entry["status"], "PASSED");
    return entry["baseline"]["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict("fast.json", 5), "SLOWER");
  EXPECT_EQ(verdict("slow.json", 0), "FASTER");
  EXPECT_EQ(verdict("slow.json --regress 900%", 0), "FASTER");
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
  ScaleTimes("r.json", "fast.json", 1.0 / 1024);
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
  WriteBytes(Path("m.jsonl"), R"({"schema": "convgrad-manifest/1", "defaults": {"op": "conv2d",)"
                              R"( "padding": "SAME", "input": "fill:normal@1,8,8,4",)"
                              R"( "filter": "fill:normal@3,3,4,4"}})"
                              "\n{\"name\": \"two\"}\n{\"name\": \"three\"}\n");
  const std::string bench = std::string("m.jsonl --threads 1 ") + kEnoughSamples;
  Ok(bench + "--match two --report two.json");
  ScaleTimes("two.json", "slow.json", 1024);
  const ShellResult result = Ok(bench + "--baseline slow.json");
  EXPECT_THAT(result.out, HasSubstr("baseline: 1 FASTER, 1 NEW; geometric mean "));
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
  Ok(std::string(kShortCase) + "--regress 400% --report r.json --csv c.csv --baseline-bin " +
     Binary());
  const json comparison = Report()["benchmarks"][0]["baseline_bin"];
  EXPECT_THAT((std::vector<std::string>{"SAME", "INCONCLUSIVE"}),
              ::testing::Contains(comparison["verdict"].get<std::string>()));
  EXPECT_THAT(ReadBytes(Path("c.csv")),
              HasSubstr("," + comparison["verdict"].get<std::string>() + "," +
                        comparison["ratio"].dump() + "," + comparison["median"].dump()));
  EXPECT_GE(comparison["pairs"], 6);
  EXPECT_TRUE(comparison["notes"].empty()) << comparison;  // the bits are the same
  const ShellResult failed = Bench(std::string(kShortCase) + "--baseline-bin /bin/false");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_THAT(failed.err, HasSubstr("/bin/false: ended with exit code 1"));
  EXPECT_EQ(Bench(std::string(kShortCase) + "--baseline-bin /bin/true").exit_code, 4);
  // The rival's answer to our words is part of our one line.
  const ShellResult wordy = Bench(std::string(kShortCase) + "--baseline-bin /bin/ls");
  EXPECT_EQ(wordy.exit_code, 4);
  EXPECT_THAT(wordy.err, IsOneErrorLine());
  EXPECT_THAT(wordy.err, HasSubstr("/bin/ls: ended with exit code 2, saying: /bin/ls: "));
  WriteBytes(Path("endless"), "#!/bin/sh\nexec yes\n");
  ASSERT_EQ(Sh("chmod +x endless").exit_code, 0);
  const ShellResult endless = Bench(std::string(kShortCase) + "--baseline-bin ./endless");
  EXPECT_EQ(endless.exit_code, 4);
  EXPECT_THAT(endless.err, HasSubstr("prints without end"));
  const ShellResult missing = Bench(std::string(kShortCase) + "--baseline-bin none");
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_THAT(missing.err, HasSubstr("none: cannot be started: No such file or directory"));
}

// The other binary gets the words of the case as they are, whatever a shell would make of them.
TEST_F(BenchTest, TheOtherBinaryReadsTheSameFiles) {
  ASSERT_EQ(Sh("convgrad gen --fill ones --shape 1,4,4,1 --output=\"$(printf '$x \\033\\377')\"")
                .exit_code,
            0);
  Ok("conv2d --padding SAME --input=\"$(printf '$x \\033\\377')\" --filter fill:ones@3,3,1,1 "
     "--max-time 30ms --regress 400% --report r.json --baseline-bin " +
     Binary());
  EXPECT_GE(Report()["benchmarks"][0]["baseline_bin"]["pairs"], 6);
}

TEST_F(BenchTest, SavedReportsAreComparedWithoutRunning) {
  Ok(std::string(kCase) + "--name one --report r.json");
  // A power of two scales without rounding, so the ratio is that number and no neighbour of it.
  ScaleTimes("r.json", "slow.json", 128);
  const ShellResult slower = Bench("slow.json --baseline r.json --csv c.csv");
  EXPECT_EQ(slower.exit_code, 5);
  EXPECT_THAT(slower.out, HasSubstr("SLOWER"));
  EXPECT_THAT(slower.out, HasSubstr("baseline: 1 SLOWER; geometric mean 128.000 of its time"));
  EXPECT_THAT(ReadBytes(Path("c.csv")), HasSubstr(",SLOWER,128"));
  EXPECT_EQ(Bench("r.json --baseline slow.json").exit_code, 0);
  EXPECT_EQ(Bench("r.json").exit_code, 2);
  EXPECT_EQ(Bench("r.json --baseline slow.json --threads 1").exit_code, 2);
  EXPECT_EQ(Bench("r.json --baseline slow.json --report r2.json").exit_code, 2);
  json other = Report("r.json");
  other["benchmarks"][0]["name"] = "two";
  WriteBytes(Path("other.json"), other.dump());
  const ShellResult none = Bench("other.json --baseline r.json");
  EXPECT_EQ(none.exit_code, 6);
  EXPECT_THAT(none.err, HasSubstr("none of its cases could be compared"));
}

// Reports of made-up measurements, compared with each other.
class SavedReportsTest : public BenchTest {
 protected:
  static json Entry(const std::string& name, double median) {
    return {{"name", name},
            {"threads", 1},
            {"status", "PASSED"},
            {"exit_code", 0},
            {"timing", {{"median", median}, {"ci", {median, median}}, {"cache", "hot"}}}};
  }
  static json Failed(const std::string& name, const char* status, int exit_code) {
    return {{"name", name},
            {"threads", 1},
            {"status", status},
            {"exit_code", exit_code},
            {"error_message", "none.npy: it is not there"}};
  }
  void Write(const std::string& path, const std::vector<json>& entries,
             const json& more = json::object()) const {
    json report = {{"context", {{"cpu_model", "Abacus"}}}, {"benchmarks", entries}};
    report.update(more);
    WriteBytes(Path(path), report.dump());
  }
  ShellResult Compare() { return Bench("after.json --baseline before.json --csv c.csv"); }
};

TEST_F(SavedReportsTest, WhatWasNotMeasuredDoesNotPass) {
  Write("before.json", {Entry("a", 1), Entry("b", 1)});
  for (const auto& [status, code] : {std::pair("ERROR", 4), {"FAILED", 1}, {"TIMEOUT", 4}}) {
    Write("after.json", {Entry("a", 1), Failed("b", status, code)});
    const ShellResult result = Compare();
    EXPECT_EQ(result.exit_code, code) << result.out << result.err;
    EXPECT_THAT(
        result.out,
        HasSubstr(fmt::format("b   1 thr.  not measured: {}; none.npy: it is not there", status)));
    EXPECT_THAT(result.out, HasSubstr("baseline: 1 SAME; "));
    EXPECT_THAT(result.out, HasSubstr("\n1 not measured\n"));
    EXPECT_THAT(ReadBytes(Path("c.csv")), HasSubstr(fmt::format("\nb,1,{},,", status)));
  }
  // Neither does what was only planned, nor a report of nothing else.
  Write("after.json", {Entry("a", 1), Failed("b", "SKIPPED", 0)});
  EXPECT_EQ(Compare().exit_code, 6);
  Write("after.json", {Failed("a", "SKIPPED", 0)});
  EXPECT_EQ(Compare().exit_code, 6);
  // That it was slower than another baseline is no failure of this comparison.
  json slow = Entry("a", 1);
  slow["exit_code"] = 5;
  Write("after.json", {slow, Entry("b", 1)});
  EXPECT_EQ(Compare().exit_code, 0);
}

TEST_F(SavedReportsTest, APartIsNoWhole) {
  const json unfinished = {
      {"error", {{"code", "bench/unfinished"}, {"message", "more cases were to be measured"}}}};
  Write("before.json", {Entry("a", 1), Entry("b", 1)});
  Write("after.json", {Entry("a", 1)}, unfinished);
  const ShellResult after = Compare();
  EXPECT_EQ(after.exit_code, 3);
  EXPECT_THAT(after.out,
              HasSubstr("after.json is a part: its bench did not end well: more cases "));
  Write("after.json", {Entry("a", 1), Entry("b", 1)});
  Write("before.json", {Entry("a", 1)}, unfinished);
  const ShellResult before = Compare();
  EXPECT_EQ(before.exit_code, 3);
  EXPECT_THAT(before.out, HasSubstr("before.json is a part: "));
}

TEST_F(SavedReportsTest, CasesOfOneReportAloneAreCounted) {
  Write("before.json", {Entry("a", 1), Entry("gone", 2), Failed("also gone", "ERROR", 4)});
  Write("after.json", {Entry("a", 1), Entry("new", 1)});
  const ShellResult result = Compare();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("baseline: 1 SAME, 1 NEW, 2 MISSING; "));
  EXPECT_THAT(result.out, HasSubstr("also gone   1 thr.    MISSING\n"));
  EXPECT_THAT(ReadBytes(Path("c.csv")), HasSubstr("\ngone,1,"));
  // Case by case nothing is left to compare.
  Write("after.json", {Entry("new", 1)});
  EXPECT_EQ(Compare().exit_code, 6);
}

TEST_F(SavedReportsTest, TheSameIsToldFromSlowerByInterval) {
  Write("before.json", {Entry("a", 1), Entry("b", 1)});
  Write("after.json", {Entry("a", 1.04), Entry("b", 1.06)});
  EXPECT_EQ(Compare().exit_code, 5);
  EXPECT_EQ(Bench("after.json --baseline before.json --regress 10%").exit_code, 0);
  json wide = Entry("b", 1.06);
  wide["timing"]["ci"] = {0.9, 1.2};
  Write("after.json", {Entry("a", 1.04), wide});
  const ShellResult result = Compare();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("baseline: 1 SAME, 1 INCONCLUSIVE; "));
}

}  // namespace
}  // namespace convgrad::testing
