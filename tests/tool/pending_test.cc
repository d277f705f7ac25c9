// Results that `batch --write-pending` leaves for review, `accept`, which makes them goldens, and
// `prune`, which lists those that no case names.

#include <filesystem>
#include <string>
#include <vector>

#include "support/record_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

// Results that differ are left for review, and accepted by the command that the batch prints.
TEST_F(RecordTest, PendingResultsWaitForReview) {
  std::filesystem::create_directory(Path("golden"));
  WriteCase();
  WriteManifest(std::vector<json>{Case("right", "golden/b.npy")});
  Entry("--record", 0);
  WriteManifest(
      {Case("missing", "golden/a.npy"), Case("right", "golden/b.npy"),
       Case("wrong", "golden/c.npy"), Case("broken", "golden/d.npy"),
       Case("up", "../" + std::filesystem::path(Path("")).parent_path().filename().string() +
                      "/golden/e.npy")});
  const auto gen = [this](const std::string& shape, const std::string& name) {
    ASSERT_EQ(
        Sh("convgrad gen --fill ones --shape " + shape + " --output golden/" + name).exit_code, 0);
  };
  gen("1,6,6,4", "c.npy");
  gen("1,6,6,5", "e.npy");
  WriteBytes(Path("golden/d.npy"), "broken");
  const std::string goldens = Sh("cat golden/*").out;
  for (const char* flags : {"", " --isolate"}) {
    const ShellResult result =
        Sh(std::string("CI=true convgrad batch m.json --report r.json --events e.jsonl --resume "
                       "--write-pending review/new --junit j.xml") +
           flags);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.out, HasSubstr("  accept   convgrad accept review/new/golden/a.npy.new\n"));
    EXPECT_THAT(ReadBytes(Path("j.xml")), HasSubstr("convgrad accept review/new/golden/c.npy.new"));
    EXPECT_EQ(Sh("cat golden/*").out, goldens);
    const json entries = Report()["benchmarks"];
    EXPECT_EQ(entries[0]["error"]["code"], "golden/missing");
    EXPECT_EQ(entries[0]["status"], "FAILED");
    EXPECT_EQ(entries[0]["pending"]["path"], "review/new/golden/a.npy.new");
    EXPECT_FALSE(entries[1].contains("pending"));
    EXPECT_EQ(entries[2]["check"]["status"], "FAILED");
    EXPECT_EQ(entries[3]["exit_code"], 3);
    // The result is the same in all, and so is what is left of it.
    for (const char* name : {"golden/a.npy", "golden/c.npy", "golden/d.npy"}) {
      EXPECT_EQ(ReadBytes(Path(std::string("review/new/") + name + ".new")),
                ReadBytes(Path("golden/b.npy")));
    }
    EXPECT_TRUE(Exists("review/new/__"));
    EXPECT_EQ(Sh("rm -r review").exit_code, 0);
  }
  EXPECT_EQ(Sh("convgrad batch m.json --report r.json --write-pending review").exit_code, 3);
  const json report = Report();
  const std::string accept = report["benchmarks"][0]["pending"]["accept"];
  const ShellResult one = Sh("unset CI; " + accept);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(one.out,
            "ACCEPTED  golden/a.npy\n  there is no golden yet\n"
            "  worst error over its bound: 0.08; not the exact value, rounded: 95\n");
  const ShellResult rest = Sh("unset CI; convgrad accept review --reason reviewed");
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("golden/c.npy\n  144 of 144 elements differ, most at ["));
  EXPECT_THAT(rest.out, HasSubstr("golden/d.npy\n  the golden that is there is malformed"));
  EXPECT_THAT(rest.out, ::testing::ContainsRegex("worst error over its bound: [0-9.e+]+ before, "
                                                 "[0-9.e-]+ now; not the exact value, rounded: "
                                                 "144 before, 95 now\n"));
  EXPECT_EQ(Sh("find review -type f").out, "");
  EXPECT_EQ(json::parse(ReadBytes(Path("golden/c.npy.golden.json")))["reason"], "reviewed");
  EXPECT_FALSE(json::parse(ReadBytes(Path("golden/c.npy.golden.json"))).contains("pending"));
  EXPECT_EQ(Sh("convgrad batch m.json --report r.json").exit_code, 0);
  const json accepted = Report();
  for (const json& entry : accepted["benchmarks"]) EXPECT_EQ(entry["check"]["policy"], "bits");
}

TEST_F(RecordTest, PendingResultsMayBeginWithADashAndNeedADirectory) {
  WriteCase();
  ASSERT_EQ(Sh("sed -i s:g.npy:-new/-g.npy: m.json && "
               "convgrad batch m.json --report r.json --write-pending -d")
                .exit_code,
            1);
  const std::string accept = Report()["benchmarks"][0]["pending"]["accept"];
  EXPECT_EQ(Sh("unset CI; " + accept).exit_code, 0) << accept;
  EXPECT_EQ(Sh("convgrad batch m.json").exit_code, 0);
}

TEST_F(RecordTest, NothingIsAcceptedUnlessAllIsWell) {
  WriteCase();
  WriteManifest({Case("a", "a.npy"), Case("b", "b.npy")});
  Entry("--record", 0);
  WriteCase(/*seed=*/1);
  WriteManifest({Case("a", "a.npy"), Case("b", "b.npy")});
  EXPECT_EQ(Sh("convgrad batch m.json --write-pending p --summary s.md").exit_code, 1);
  const std::string summary = ReadBytes(Path("s.md"));
  EXPECT_THAT(summary, HasSubstr("Accept the results that wait for review"));
  EXPECT_THAT(summary, HasSubstr("not what they were when the golden was recorded&#58; input"));
  const std::string goldens = Sh("cat a.npy* b.npy*").out;
  const auto refused = [&](const std::string& command, int exit_code, const std::string& words) {
    const ShellResult result = Sh("unset CI; " + command);
    EXPECT_EQ(result.exit_code, exit_code) << command;
    EXPECT_THAT(result.err, HasSubstr(words)) << command;
    EXPECT_EQ(Sh("cat a.npy* b.npy*").out, goldens) << command;
  };
  EXPECT_THAT(Sh("CI=true convgrad accept p --list").out, HasSubstr("PENDING  a.npy\n  "));
  refused("CI=true convgrad accept p", 2, "no golden is written in CI");
  refused("mkdir -p in && cd in && convgrad accept ../p", 1, "a.npy: the golden is no longer");
  refused(
      "cp -r p r && sed -i 's:\"a.npy\":\"../a.npy\":' r/a.npy.new.golden.json && "
      "convgrad accept r",
      2, "r/a.npy.new: its golden ../a.npy lies outside the current directory");
  // Where that is meant, the command says so.
  ASSERT_EQ(Sh("cd in && convgrad batch ../m.json --write-pending p --report ../r.json").exit_code,
            1);
  const std::string meant = Report()["benchmarks"][0]["pending"]["accept"];
  EXPECT_EQ(meant, "convgrad accept p/a.npy.new --allow-outside");
  EXPECT_THAT(Sh("cd in && " + meant + " --list").out, HasSubstr("PENDING  ../a.npy\n"));
  refused("convgrad accept m.json", 2, "is no result that was left for review");
  refused("convgrad accept none.new", 4, "none.new");
  refused("mkdir -p empty && convgrad accept empty", 6, "no result waits for review");
  refused("convgrad accept p p/a.npy.new", 2, "two of the results would replace it");
  refused("cp -r p q && cp a.npy q/b.npy.new && convgrad accept q", 3, "not what its record says");
  refused("echo '{}' >q/b.npy.new.golden.json && convgrad accept q", 3, "q/b.npy.new.golden.json");
  // A golden that changed meanwhile is somebody's, also the second one.
  const std::string kept = ReadBytes(Path("b.npy"));
  WriteBytes(Path("b.npy"), "something else");
  const std::string before = Sh("cat a.npy* b.npy*").out;
  const ShellResult changed = Sh("unset CI; convgrad accept p");
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.err, HasSubstr("b.npy: the golden is no longer what it was"));
  EXPECT_EQ(Sh("cat a.npy* b.npy*").out, before);
  WriteBytes(Path("b.npy"), kept);
  EXPECT_EQ(Sh("unset CI; convgrad accept p").exit_code, 0);
  EXPECT_EQ(Sh("convgrad batch m.json").exit_code, 0);
}

TEST_F(RecordTest, AHashStaysAHashWhenAnotherIsAccepted) {
  WriteCase();
  Entry("--record --hash-only --reason 'why'", 0);
  WriteCase(/*seed=*/1);
  EXPECT_EQ(Sh("convgrad batch m.json --write-pending p").exit_code, 1);
  EXPECT_EQ(Sh("unset CI; convgrad accept p").exit_code, 0);
  EXPECT_FALSE(Exists("g.npy"));
  EXPECT_EQ(Record()["reason"], "why");
  EXPECT_EQ(Entry("", 0)["check"]["policy"], "bits");
}

TEST_F(RecordTest, PruneListsWhatNoCaseNames) {
  WriteCase();
  WriteManifest({Case("a", "sub/a.npy"), Case("b", "b.npy"), Case("c", "sub/c.npy")});
  Entry("--record", 0);
  ASSERT_EQ(Sh("cp b.npy other.npy; mkdir p && cp b.npy p/d.npy.new && "
               "cp b.npy.golden.json p/d.npy.new.golden.json")
                .exit_code,
            0);
  EXPECT_EQ(Sh("convgrad prune m.json").out, "");
  WriteManifest(std::vector<json>{Case("a", "./sub/../sub/a.npy")});
  const std::string unnamed = "b.npy\nb.npy.golden.json\nsub/c.npy\nsub/c.npy.golden.json\n";
  EXPECT_EQ(Sh("convgrad prune m.json").out, unnamed);
  EXPECT_TRUE(Exists("b.npy"));
  // Another manifest may name some of them.
  WriteBytes(Path("n.json"), json({{"schema", "convgrad-manifest/1"},
                                   {"cases", {Case("b", "b.npy"), Case("c", "sub/c.npy")}}})
                                 .dump());
  EXPECT_EQ(Sh("convgrad prune m.json n.json --delete").out, "");
  WriteBytes(Path("broken.json"), "{");
  EXPECT_EQ(Sh("convgrad prune m.json broken.json --delete").exit_code, 2);
  EXPECT_TRUE(Exists("b.npy"));
  EXPECT_EQ(Sh("convgrad prune m.json --delete").out, unnamed);
  EXPECT_EQ(Sh("find . -name '*.npy*' | sort").out,
            "./other.npy\n./p/d.npy.new\n./p/d.npy.new.golden.json\n./sub/a.npy\n"
            "./sub/a.npy.golden.json\n./x.npy\n");
  EXPECT_EQ(Sh("convgrad prune m.json").out, "");
}

TEST_F(RecordTest, PendingResultsTouchNothingElse) {
  WriteCase();
  const auto refused = [this](const std::string& flags, const std::string& words) {
    const ShellResult result = Sh("unset CI; convgrad batch m.json --write-pending " + flags);
    EXPECT_EQ(result.exit_code, 2) << flags;
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  refused("p --record", "--record makes the results goldens at once");
  refused("p --no-hash", "--no-hash");
  WriteManifest({Case("a", "g.npy"), Case("b", "p/g.npy.new")});
  refused("p", "depends on the order");
  json writes = Case("b", "h.npy");
  writes["output"] = "p/g.npy.new";
  WriteManifest({Case("a", "g.npy"), writes});
  ASSERT_EQ(Sh("mkdir p").exit_code, 0);
  refused("p", "it is where a result is left for review");
}

// A result left for review stays in its directory, whatever links lie there.
TEST_F(RecordTest, PendingResultsFollowNoLinkOut) {
  WriteManifest({Case("a", "golden/a.npy"), Case("b", "b.npy")});
  ASSERT_EQ(Sh("convgrad gen --fill normal --shape 1,6,6,3 --output x.npy").exit_code, 0);
  const std::string run = "convgrad batch m.json --report r.json --write-pending review";
  const std::vector<std::string> links = {
      "mkdir review outside; ln -s ../outside review/golden",
      "mkdir -p review/golden outside; ln -s ../../outside/a review/golden/a.npy.new",
      "mkdir -p review/golden outside; ln -s ../../outside/a review/golden/a.npy.new.golden.json"};
  for (const std::string& link : links) {
    ASSERT_EQ(Sh(link).exit_code, 0);
    const ShellResult result = Sh(run);
    EXPECT_EQ(result.exit_code, 2) << link;
    EXPECT_THAT(result.out + result.err, HasSubstr("a symbolic link leads out of review"));
    EXPECT_TRUE(std::filesystem::is_empty(Path("outside"))) << link;
    const json entries = Report()["benchmarks"];
    EXPECT_EQ(entries[0]["error"]["code"], "pending/outside");
    EXPECT_EQ(entries[1]["pending"]["path"], "review/b.npy.new");
    ASSERT_EQ(Sh("rm -r review outside").exit_code, 0);
  }
  // The directory itself may be a link, and links may stay in it.
  ASSERT_EQ(
      Sh("mkdir -p elsewhere/there; ln -s elsewhere review; ln -s there review/golden; " + run)
          .exit_code,
      1);
  EXPECT_TRUE(Exists("elsewhere/there/a.npy.new"));
}

}  // namespace
}  // namespace convgrad::testing
