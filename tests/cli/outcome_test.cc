// A batch as CI systems are told of it: JUnit, read back by an XML parser, and Markdown.
#include "cli/report/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "cli/report/junit.h"
#include "cli/report/summary.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Json Entry(const std::string& name, const std::string& status, int exit_code) {
  return {{"name", name},
          {"timing", {{"total_ms", 2.5}}},
          {"status", status},
          {"exit_code", exit_code},
          {"repro", "convgrad run --name '" + name + "' conv2d"}};
}

Json FailedEntry(const std::string& name, const std::string& status, int exit_code) {
  Json entry = Entry(name, status, exit_code);
  entry["check"] = {{"policy", "auto"},
                    {"reason", "1 of 9 elements is wrong"},
                    {"detail", "no order of summation gives it"},
                    {"counts", {{"elements", 9}, {"differ", 2}, {"suspect", 0}, {"fail", 1}}},
                    {"worst",
                     {{"bound", nullptr},
                      {"abs",
                       {{"index", {0, 1}},
                        {"actual", 2.5},
                        {"expected", nullptr},
                        {"actual_bits", "0x1"},
                        {"expected_bits", "0x2"}}}}},
                    {"where", {{"text", "the last row"}}}};
  return entry;
}

Json ErrorEntry(const std::string& name, const std::string& message) {
  Json entry = Entry(name, "ERROR", 4);
  entry.erase("timing");
  entry["error"] = {{"code", "io/missing"}, {"message", message}};
  return entry;
}

TEST(OutcomeTest, EachStatusHasAnEnding) {
  EXPECT_EQ(OutcomeOf(Entry("a", "PASSED", 0)).ending, Ending::kPassed);
  EXPECT_EQ(OutcomeOf(Entry("a", "RECORDED", 0)).ending, Ending::kPassed);
  EXPECT_EQ(OutcomeOf(Entry("a", "COMPUTED", 0)).ending, Ending::kComputed);
  EXPECT_EQ(OutcomeOf(Entry("a", "SKIPPED", 0)).ending, Ending::kSkipped);
  EXPECT_EQ(OutcomeOf(FailedEntry("a", "FAILED", 1)).ending, Ending::kFailed);
  EXPECT_EQ(OutcomeOf(FailedEntry("a", "SUSPECT", 0)).ending, Ending::kPassed);
  EXPECT_EQ(OutcomeOf(FailedEntry("a", "SUSPECT", 1)).ending, Ending::kFailed);
  EXPECT_EQ(OutcomeOf(ErrorEntry("a", "b")).ending, Ending::kError);
  EXPECT_EQ(OutcomeOf(Entry("a", "TIMEOUT", 4)).ending, Ending::kError);
}

TEST(OutcomeTest, OtherJsonIsRefused) {
  for (const Json& entry : {Json::object(), Json::array(), Json(nullptr), Json{{"name", 1}}}) {
    EXPECT_THROW(OutcomeOf(entry), Error);
  }
}

TEST(JunitTest, CountsAndTexts) {
  JunitReport report("suite.json");
  report.Add(OutcomeOf(Entry("net/block1/dw", "PASSED", 0)));
  report.Add(OutcomeOf(FailedEntry("bad", "FAILED", 1)));
  report.Add(OutcomeOf(ErrorEntry("missing", "x.npy: is not there; check the path")));
  report.Add(OutcomeOf(Entry("later", "SKIPPED", 0)));
  const std::string xml = report.Render();
  EXPECT_THAT(xml, AllOf(HasSubstr(R"(tests="4" failures="1" errors="1" skipped="1")"),
                         HasSubstr(R"(<testcase name="net/block1/dw" classname="net.block1")"),
                         HasSubstr(R"(classname="suite.json" time="0.002500")"),
                         HasSubstr("<failure message=\"1 of 9 elements is wrong\""),
                         HasSubstr("worst by abs: at [0,1], 2.5 (0x1) where null (0x2)"),
                         HasSubstr("repeat alone: convgrad run --name 'bad' conv2d</failure>"),
                         HasSubstr("type=\"io/missing\">ERROR: x.npy: is not there")));
}

TEST(JunitTest, AnyTextIsLegalXml) {
  JunitReport report("a<b>&\"c\".json");
  report.Add(
      OutcomeOf(ErrorEntry("\x1b[31m\x01 <&>\"' ]]>", "line\nbreak\t\x7f \u202e \ufffe\uffff")));
  const std::string xml = report.Render();
  EXPECT_THAT(xml, AllOf(HasSubstr("\\x1b[31m\\x01 &lt;&amp;&gt;&quot;' ]]&gt;"),
                         HasSubstr("\\u{fffe}\\u{ffff}"), HasSubstr("a&lt;b&gt;&amp;&quot;c")));
  for (const char letter : xml)
    EXPECT_TRUE(letter == '\n' || static_cast<unsigned char>(letter) >= 32);
}

TEST(JunitTest, YoursIsNotTheGolden) {
  Json entry = FailedEntry("bad", "FAILED", 1);
  entry["check"]["against"] = "exact value";
  JunitReport report("suite.json");
  report.Add(OutcomeOf(entry));
  EXPECT_THAT(report.Render(),
              AllOf(HasSubstr("at [0,1], yours is 2.5 (0x1), the exact value null (0x2)"),
                    HasSubstr("where: the last row")));
}

TEST(JunitTest, WhatWasHeldAgainstNothingIsNotGreen) {
  JunitReport report("suite.json");
  report.Add(OutcomeOf(Entry("unchecked", "COMPUTED", 0)));
  EXPECT_THAT(report.Render(),
              AllOf(HasSubstr(R"(tests="1" failures="0" errors="0" skipped="1")"),
                    HasSubstr("<skipped message=\"COMPUTED: there was no golden to compare with")));
}

TEST(SummaryTest, ComputedIsNotPassed) {
  SummaryPage summary("suite.json");
  summary.Add(OutcomeOf(Entry("good", "PASSED", 0)));
  summary.Add(OutcomeOf(Entry("unchecked", "COMPUTED", 0)));
  EXPECT_THAT(summary.Render(),
              AllOf(HasSubstr(": 1 of 2 cases passed, 1 had no golden to compare with\n"),
                    HasSubstr("| COMPUTED | 1 |")));
}

TEST(SummaryTest, ShowsWhatDidNotPass) {
  SummaryPage summary("suite.json");
  summary.Add(OutcomeOf(Entry("good", "PASSED", 0)));
  EXPECT_THAT(summary.Render(), AllOf(HasSubstr("### convgrad suite.json: 1 of 1 cases passed"),
                                      Not(HasSubstr("details"))));
  summary.Add(OutcomeOf(FailedEntry("a|b`*_<x>", "FAILED", 1)));
  EXPECT_THAT(summary.Render(),
              AllOf(HasSubstr("1 of 2 cases did not pass"), HasSubstr("| FAILED | 1 |"),
                    HasSubstr("<code>a&#124;b&#96;&#42;&#95;&#60;x&#62;</code>"),
                    HasSubstr("1 of 9 elements is wrong"), HasSubstr("Repeat them alone")));
}

TEST(SummaryTest, SaysWhyAndHowToAccept) {
  Json entry = FailedEntry("bad", "FAILED", 1);
  entry["check"]["diagnosis"] = {
      {"hypothesis", "halved"}, {"explains", "exactly"}, {"sentence", "all are half"}};
  entry["pending"] = {{"path", "p/g.npy.new"}, {"accept", "convgrad accept p/g.npy.new"}};
  SummaryPage summary("m");
  summary.Add(OutcomeOf(entry));
  EXPECT_THAT(summary.Render(),
              AllOf(HasSubstr("<br>explained by halved, exactly&#58; all are half"),
                    HasSubstr("Accept the results that wait for review"),
                    HasSubstr("convgrad accept p/g.npy.new\n</pre>")));
}

TEST(SummaryTest, StaysShort) {
  SummaryPage summary("m");
  for (int i = 0; i < 1000; ++i) summary.Add(OutcomeOf(ErrorEntry(std::to_string(i), "gone")));
  EXPECT_LT(summary.Render().size(), 20'000u);
  EXPECT_THAT(summary.Render(), HasSubstr("and 950 more"));
}

}  // namespace
}  // namespace convgrad::cli
