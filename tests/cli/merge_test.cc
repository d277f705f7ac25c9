// Merging the reports of shards: what makes a whole, and what is refused with its name.
#include "cli/report/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/text/json.h"
#include "support/file_testing.h"

namespace convgrad::cli {
namespace {

using convgrad::ScratchDirectory;
using convgrad::WriteBytes;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MergeTest : public ::testing::Test {
 protected:
  static Json MakeReport(const Json& shard, const std::vector<int>& cases, int num_cases = 6) {
    Json report = {{"context",
                    {{"cwd", "/somewhere"},
                     {"version", "0.1.0"},
                     {"commit", "abc"},
                     {"convgrad", {{"schema", "convgrad-report/1"}, {"command", "convgrad batch"}}},
                     {"plan", {{"sha256", "1234"}, {"cases", num_cases}, {"shard", shard}}}}},
                   {"benchmarks", Json::array()}};
    for (const int index : cases) {
      // Nested keys of the same names are somebody else's.
      report["benchmarks"].push_back({{"name", "case " + std::to_string(index)},
                                      {"family_index", index},
                                      {"problem", {{"family_index", 77}, {"exit_code", 77}}},
                                      {"exit_code", 0}});
    }
    return report;
  }

  std::string Write(const std::string& name, const Json& report) const {
    WriteBytes(scratch_ / name, DumpJson(report, 2));
    return scratch_ / name;
  }
  std::string Path(const std::string& name) const { return scratch_ / name; }

  static std::string Names(const MergedReport& merged) {
    std::string names;
    merged.ForEachEntry([&](std::string_view entry) {
      names += ParseJson(entry)["name"].get<std::string>() + ";";
    });
    return names;
  }

  // "CODE: MESSAGE" of the refusal.
  static std::string Refusal(const std::vector<std::string>& paths) {
    try {
      const MergedReport merged(paths);
      return "merged: " + Names(merged);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kData) << error.message();
      return error.code() + ": " + error.message();
    }
  }

  ScratchDirectory scratch_;
};

TEST_F(MergeTest, CasesComeInThePlansOrder) {
  const std::string a = Write("a.json", MakeReport("1/3", {4, 1}));
  const std::string b = Write("b.json", MakeReport("2/3", {0, 2, 5}));
  const std::string c = Write("c.json", MakeReport("3/3", {3}));
  const MergedReport merged({c, a, b});
  EXPECT_EQ(Names(merged), "case 0;case 1;case 2;case 3;case 4;case 5;");
  EXPECT_EQ(merged.num_shards(), 3);
  EXPECT_EQ(merged.exit_code(), ExitCode::kOk);
  EXPECT_TRUE(merged.Warnings().empty());
  const Json context = merged.Context("convgrad merge");
  EXPECT_EQ(context["plan"]["shard"], nullptr);
  EXPECT_EQ(context["plan"]["cases"], 6);
  EXPECT_EQ(context["convgrad"]["command"], "convgrad merge");
}

TEST_F(MergeTest, EmptyShardsAndWholeReports) {
  EXPECT_EQ(Refusal({Write("a.json", MakeReport("1/2", {0}, 1)),
                     Write("b.json", MakeReport("2/2", {}, 1))}),
            "merged: case 0;");
  EXPECT_EQ(Refusal({Write("a.json", MakeReport(nullptr, {1, 0}, 2))}), "merged: case 0;case 1;");
  EXPECT_EQ(Refusal({Write("a.json", MakeReport(nullptr, {}, 0))}), "merged: ");
}

TEST_F(MergeTest, TheWorstCaseDecides) {
  Json report = MakeReport("1/1", {0, 1, 2}, 3);
  report["benchmarks"][1]["exit_code"] = 1;
  report["benchmarks"][2]["exit_code"] = 4;
  EXPECT_EQ(MergedReport({Write("a.json", report)}).exit_code(), ExitCode::kIo);
}

TEST_F(MergeTest, WhatIsMissingIsNamed) {
  const std::string a = Write("a.json", MakeReport("2/5", {0, 1, 2}));
  EXPECT_THAT(Refusal({a}), AllOf(HasSubstr("merge/missing: shard 1, 3 to 5: missing"),
                                  HasSubstr("1 of 5 shards")));
  const std::string b = Write("b.json", MakeReport("1/2", {0, 2}));
  const std::string c = Write("c.json", MakeReport("2/2", {5}));
  EXPECT_THAT(Refusal({b, c}), AllOf(HasSubstr("merge/missing: case 1, 3 to 4 (as"),
                                     HasSubstr("3 of 6 cases"), HasSubstr("--resume")));
  const std::string huge = Write("d.json", MakeReport("1/1000000000000", {0}));
  EXPECT_THAT(Refusal({huge}), HasSubstr("shard 2 to 1000000000000: missing"));
}

TEST_F(MergeTest, WhatIsDoubleIsNamed) {
  const std::string a = Write("a.json", MakeReport("1/2", {0, 1, 2}));
  const std::string b = Write("b.json", MakeReport("2/2", {3, 4, 5, 2}));
  EXPECT_THAT(Refusal({a, b}), AllOf(HasSubstr("merge/double: case 'case 2'"), HasSubstr("a.json"),
                                     HasSubstr("b.json")));
  EXPECT_THAT(Refusal({a, a}), HasSubstr("both are shard 1/2"));
}

TEST_F(MergeTest, OtherPlansAreRefused) {
  const std::string a = Write("a.json", MakeReport("1/2", {0, 1, 2}));
  Json other = MakeReport("2/2", {3, 4, 5});
  other["context"]["plan"]["sha256"] = "4321";
  EXPECT_THAT(Refusal({a, Write("b.json", other)}),
              AllOf(HasSubstr("merge/different-plans"), HasSubstr("1234"), HasSubstr("4321")));
  EXPECT_THAT(Refusal({a, Write("c.json", MakeReport("2/3", {3, 4, 5}))}),
              HasSubstr("merge/different-shards"));
  EXPECT_THAT(Refusal({a, Write("d.json", MakeReport("2/2", {3, 4, 5}, 7))}),
              HasSubstr("merge/different-plans"));
}

TEST_F(MergeTest, DifferencesThatDoNotMatterAreTold) {
  Json other = MakeReport("2/2", {3, 4, 5});
  other["context"]["version"] = "0.2.0";
  const MergedReport merged(
      {Write("a.json", MakeReport("1/2", {0, 1, 2})), Write("b.json", other)});
  ASSERT_EQ(merged.Warnings().size(), 1u);
  EXPECT_THAT(merged.Warnings()[0], AllOf(HasSubstr("version"), HasSubstr("0.2.0")));
}

TEST_F(MergeTest, WhatIsNoReportIsRefused) {
  for (const char* text :
       {"", "null", "[]", "{}", "{\"context\": 3}", "{\"context\": {}}", "{\"benchmarks\": [{}]}",
        "{\"context\": {\"convgrad\": {\"schema\": \"convgrad-report/9\"}}}",
        "{\"context\": {\"convgrad\": {\"schema\": \"convgrad-report/1\"}}}", "[[[[[[",
        "{\"context\": {\"convgrad\": {\"schema\": \"convgrad-report/1\"}, \"plan\": "
        "{\"sha256\": 1, \"cases\": 1, \"shard\": null}}, \"benchmarks\": []}"}) {
    WriteBytes(Path("bad.json"), text);
    EXPECT_THAT(Refusal({Path("bad.json")}),
                AllOf(HasSubstr("report/malformed"), Not(HasSubstr("json.exception"))))
        << text;
  }
  for (const char* shard : {"1", "0/2", "3/2", "a/b", "1/2/3", "", "1/", "-1/2"}) {
    EXPECT_THAT(Refusal({Write("bad.json", MakeReport(shard, {0}, 1))}),
                HasSubstr("report/malformed"))
        << shard;
  }
  const std::string whole = DumpJson(MakeReport("1/1", {0, 1}, 2));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    WriteBytes(Path("cut.json"), whole.substr(0, bytes));
    EXPECT_THAT(Refusal({Path("cut.json")}), HasSubstr("report/malformed")) << bytes;
  }
  WriteBytes(Path("deep.json"), std::string(1'000'000, '['));
  EXPECT_THAT(Refusal({Path("deep.json")}), HasSubstr("report/malformed"));
  Json outside = MakeReport("1/1", {0, 1}, 2);
  outside["benchmarks"][1]["family_index"] = 2;
  EXPECT_THAT(Refusal({Write("outside.json", outside)}), HasSubstr("report/malformed"));
  outside["benchmarks"][1].erase("family_index");
  EXPECT_THAT(Refusal({Write("outside.json", outside)}), HasSubstr("report/malformed"));
}

// All cases may have passed and yet mean nothing, if the manifest changed meanwhile, say.
TEST_F(MergeTest, ErrorsBesideTheCasesAreRefused) {
  const std::string a = Write("a.json", MakeReport("1/2", {0, 2}, 3));
  Json report = MakeReport("2/2", {1}, 3);
  report["error"] = {{"code", "io/file-changed"}, {"message", "m.json: changed"}};
  const std::string b = Write("b.json", report);
  EXPECT_THAT(Refusal({a, b}), AllOf(HasSubstr("merge/failed"), HasSubstr("b.json"),
                                     HasSubstr("m.json: changed"), HasSubstr("--resume")));
  report["error"].erase("message");
  EXPECT_THAT(Refusal({a, Write("b.json", report)}), HasSubstr("report/malformed"));
  report["benchmarks"] = Json::array();
  EXPECT_THAT(Refusal({a, Write("b.json", report)}), HasSubstr("report/malformed"));
  report["error"]["message"] = "interrupted";
  EXPECT_THAT(Refusal({a, Write("b.json", report)}), HasSubstr("merge/missing: case 1"));
}

TEST_F(MergeTest, WhatIsMissingMayBeAllowed) {
  const std::string a = Write("a.json", MakeReport("2/3", {0, 1}));
  Json report = MakeReport("3/3", {4});
  report["error"] = {{"code", "interrupted"}, {"message", "interrupted: by signal 15"}};
  const std::string b = Write("b.json", report);
  const MergedReport merged({b, a}, /*allow_missing=*/true);
  EXPECT_EQ(Names(merged), "case 0;case 1;case 4;");
  EXPECT_EQ(merged.num_planned(), 6);
  ASSERT_EQ(merged.Warnings().size(), 3u);
  EXPECT_THAT(merged.Warnings()[0], HasSubstr("shard 1: missing"));
  EXPECT_THAT(merged.Warnings()[1], HasSubstr("case 2 to 3, 5 (as"));
  EXPECT_THAT(merged.Warnings()[2], HasSubstr("by signal 15"));
  ASSERT_TRUE(merged.incomplete());
  EXPECT_EQ(merged.incomplete()->code, "merge/missing");
  EXPECT_EQ(merged.exit_code(), ExitCode::kData);
  // Reports that do not fit together stay refused.
  EXPECT_THROW(MergedReport({a, a}, true), Error);
  EXPECT_FALSE(MergedReport({Write("c.json", MakeReport("1/1", {0}, 1))}, true).incomplete());
}

// Entries of parts are no cases before each case has been given its entry.
TEST_F(MergeTest, PartsOfACaseAreLeftToBePutTogether) {
  Json first = MakeReport("1/2", {0, 1}, 3), second = MakeReport("2/2", {1, 2}, 3);
  first["benchmarks"][1]["split"] = {{"part", 1}, {"parts", 2}};
  const std::string a = Write("a.json", first), b = Write("b.json", second);
  EXPECT_THAT(Refusal({a, b}), HasSubstr("merge/double: case 'case 1'"));
  second["benchmarks"][0]["split"] = {{"part", 2}, {"parts", 2}};
  Write("b.json", second);
  MergedReport merged({a, b});
  EXPECT_EQ(Names(merged), "case 0;case 2;");
  ASSERT_EQ(merged.split_cases().size(), 1u);
  const MergedReport::SplitCase& one = merged.split_cases().front();
  EXPECT_EQ(one.index, 1);
  ASSERT_EQ(one.parts.size(), 2u);
  EXPECT_EQ(one.parts[0].report, a);
  EXPECT_EQ(one.parts[1].report, b);
  merged.SetEntry(one, R"({"name": "whole"})", ExitCode::kWrong);
  EXPECT_EQ(Names(merged), "case 0;whole;case 2;");
  EXPECT_EQ(merged.exit_code(), ExitCode::kWrong);
}

TEST_F(MergeTest, ACaseThatCannotBePutTogetherIsMissing) {
  Json report = MakeReport("1/1", {0, 1}, 2);
  report["benchmarks"][1]["split"] = {{"part", 1}, {"parts", 2}};
  const Error error(ExitCode::kData, "merge/stale", "a.cgp", "it is not the part");
  const std::string path = Write("a.json", report);
  EXPECT_THROW(MergedReport({path}).Refuse(error), Error);
  MergedReport merged({path}, /*allow_missing=*/true);
  EXPECT_FALSE(merged.incomplete());
  merged.Refuse(error);
  EXPECT_EQ(merged.incomplete()->code, "merge/stale");
  EXPECT_EQ(merged.num_cases(), 1);
  EXPECT_EQ(merged.exit_code(), ExitCode::kData);
}

TEST_F(MergeTest, PlansAreRefused) {
  Json report = MakeReport(nullptr, {0, 1, 2}, 3);
  report["context"]["plan"]["shards"] = Json::array({{{"shard", "1/1"}}});
  EXPECT_THAT(Refusal({Write("plan.json", report)}), HasSubstr("which runs nothing"));
}

// Nested values that who reads them would need a deep stack for.
TEST_F(MergeTest, DeepValuesAreRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const std::string whole = DumpJson(MakeReport("1/1", {0}, 1));
  for (const std::string& text : {std::string("\"/somewhere\""), std::string("\"case 0\"")}) {
    std::string changed = whole;
    changed.replace(changed.find(text), text.size(), deep);
    WriteBytes(Path("deep.json"), changed);
    EXPECT_THAT(Refusal({Path("deep.json")}), HasSubstr("nested too deeply")) << text;
  }
}

// A number that is no exit code must not end as 0.
TEST_F(MergeTest, ExitCodesAreThoseOfTheTool) {
  Json report = MakeReport("1/1", {0}, 1);
  for (const int64_t code : {-1l, 7l, 42l, 128l, 256l, int64_t{1} << 32}) {
    report["benchmarks"][0]["exit_code"] = code;
    EXPECT_THAT(Refusal({Write("a.json", report)}), HasSubstr("report/malformed")) << code;
  }
  for (const int code : {1, 70, 137}) {
    report["benchmarks"][0]["exit_code"] = code;
    EXPECT_EQ(static_cast<int>(MergedReport({Write("a.json", report)}).exit_code()), code);
  }
}

TEST_F(MergeTest, WhatMayBeMissingMayBe) {
  Json a = MakeReport("1/2", {0, 2}, 3), b = MakeReport("2/2", {1}, 3);
  for (Json* report : {&a, &b}) {
    for (const char* key : {"version", "commit", "cwd"}) (*report)["context"].erase(key);
  }
  EXPECT_TRUE(MergedReport({Write("a.json", a), Write("b.json", b)}).Warnings().empty());
  b["context"]["version"] = "0.2.0";
  EXPECT_EQ(MergedReport({Write("a.json", a), Write("b.json", b)}).Warnings().size(), 1u);
  b["benchmarks"][0] = {{"name", 3}, {"family_index", 2}, {"exit_code", 0}};
  EXPECT_THAT(Refusal({Path("a.json"), Write("b.json", b)}), HasSubstr("case '2'"));
}

}  // namespace
}  // namespace convgrad::cli
