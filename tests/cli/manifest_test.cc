// Manifests: what each bad one is refused with (the cases M01 to M60 of the project's list of bad
// input, as far as the text itself is wrong), and what a good one means.
#include "cli/manifest/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/manifest/manifest_plan.h"
#include "support/file_testing.h"

namespace convgrad::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kA =
    R"({"name": "a", "op": "conv2d", "padding": "SAME", "input": "x.npy", "filter": "w.npy"})";

class ManifestTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    WriteBytes(scratch_ / name, text);
    return scratch_ / name;
  }

  static std::vector<ManifestCase> ReadAll(const std::string& path,
                                           const ManifestOptions& options = {}) {
    const ManifestFile file(path);
    PlanManifest(file, options, [](const ManifestCase&) { return true; }, {});
    ManifestReader reader(file, options);
    std::vector<ManifestCase> cases;
    while (std::optional<ManifestCase> one = reader.Next()) cases.push_back(*one);
    return cases;
  }

  // Each case as a command line, with the scratch directory left out.
  std::vector<std::string> Lines(const std::string& path, const ManifestOptions& options = {}) {
    std::vector<std::string> lines;
    for (const ManifestCase& one : ReadAll(path, options)) {
      std::vector<std::string> words = FlagWords(one.request.flags, true);
      words.insert(words.begin(), {InfoOf(one.request.command).name, one.request.op});
      std::string line = ShellLine(words);
      for (size_t at; (at = line.find(scratch_.path() + "/")) != std::string::npos;) {
        line.erase(at, scratch_.path().size() + 1);
      }
      lines.push_back(line);
    }
    return lines;
  }

  // `text` is refused with exit code 2, at `place`, with `words`.
  void ExpectRefused(const std::string& text, const std::string& place, const std::string& words,
                     const std::string& name = "m.json") {
    SCOPED_TRACE(text.substr(0, 300));
    const std::string path = Write(name, text);
    const std::optional<Error> error = CaughtError([&] { ReadAll(path); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->exit_code(), ExitCode::kUsage);
    EXPECT_THAT(error->message(), ::testing::StartsWith(fmt::format("{}:{}: ", path, place)));
    EXPECT_THAT(error->message(), HasSubstr(words));
  }
  // A case with the keys of kA and `keys`, in a manifest of its own; they begin on line 3.
  static std::string With(const std::string& keys) {
    return fmt::format(
        "{{\"schema\": \"convgrad-manifest/1\", \"cases\": [\n"
        "{{\"name\": \"a\", \"op\": \"conv2d\", \"input\": \"x.npy\", "
        "\"filter\": \"w.npy\", \"padding\": \"SAME\",\n{}}}]}}",
        keys);
  }
  static std::string Cases(const std::string& cases) {
    return fmt::format("{{\"schema\": \"convgrad-manifest/1\",\n\"cases\": [\n{}]}}", cases);
  }

  ScratchDirectory scratch_;
};

struct BadText {
  const char* id;
  std::string text;
  const char* place;
  const char* words;
};

TEST_F(ManifestTest, TextsThatAreNoManifest) {
  const std::string whole = Cases(kA);
  const BadText kTexts[] = {
      {"M01", "", "1:1", "there is nothing in it"},
      {"M02", " \n\t\n ", "3:2", "there is nothing in it"},
      {"M04", std::string("\xFF\xFE{\0}\0", 6), "1:1", "UTF-16"},
      {"M04", std::string("\0{\0}", 4), "1:1", "UTF-16"},
      {"M05", With("\"isa\": \"\xC3\x28\""), "3:8", "not valid UTF-8"},
      {"M05", "{\xC3\xA4: 1}", "1:2", "a key in double quotes is expected"},
      {"M06", With("\"isa\": \"\xC0\xAF\""), "3:8", "not valid UTF-8"},
      {"M06", With("\"isa\": \"\xED\xA0\x80\""), "3:8", "not valid UTF-8"},
      {"M06", With(R"("isa": "\ud800")"), "3:9", "surrogate"},
      {"M06", With(R"("isa": "\ud800\u0041")"), "3:9", "surrogate"},
      {"M07", With(std::string("\"isa\": \"a\0b\"", 12)), "3:10", "0x00"},
      {"M07", std::string("{\"schema\": \0 1}", 15), "1:12", "0x00"},
      {"M08", whole.substr(0, 60), "3:15", "ends inside"},
      {"M08", whole.substr(0, 50), "3:2", "ends inside this string"},
      {"M08", whole.substr(0, whole.size() - 1), "3:87", "ends inside an object"},
      {"M09", Cases(std::string(kA) + ","), "3:86", "a comma before ']'"},
      {"M09", With("\"isa\": \"avx2\","), "3:14", "a comma before '}'"},
      {"M10", "// cases\n" + whole, "1:1", "no comments"},
      {"M10", Cases(std::string("# first\n") + kA), "3:1", "no comments"},
      {"M11", whole + " x", "3:89", "the end of the file is expected, not 'x'"},
      {"M12", whole + whole, "3:88", "the end of the file is expected"},
      {"M13", "[1, 2]", "1:1", "a manifest is an object, not an array"},
      {"M13", "7", "1:1", "a manifest is an object, not a number"},
      {"M14", std::string(100000, '['), "1:1", "a manifest is an object"},
      {"M14", "{\"cases\": " + std::string(100000, '['), "1:74", "nested more than 64 deep"},
      {"M14", With("\"strides\": " + std::string(100000, '[')), "3:73", "nested more than 64 deep"},
      {"M15", With("\"isa\": \"" + std::string(1 << 20, 'a') + "\""), "3:8", "more than 65536"},
      {"M15", With("\"seed\": " + std::string(1 << 20, '1')), "3:9", "more than 400 digits"},
      {"M24", With("\"seed\": NaN"), "3:9", "JSON has no NaN"},
      {"M24", With("\"seed\": Infinity"), "3:9", "JSON has no NaN"},
      {"M24", With("\"seed\": -Infinity"), "3:9", "'-Infinity' is no JSON number"},
      {"", With("'isa': 1"), "3:1", "double quotes"},
      {"", With("\"isa\" 1"), "3:7", "':' after the key 'isa'"},
      {"", With("\"seed\": 01"), "3:9", "'01' is no JSON number"},
      {"", With("\"seed\": +1"), "3:9", "a value is expected, not '+'"},
      {"", With("\"seed\": 1."), "3:9", "'1.' is no JSON number"},
      {"", With("\"isa\": \"a\nb\""), "3:10", "close it before the end of the line"},
      {"", With(R"("isa": "\x41")"), "3:9", "no such escape"},
      {"", With(R"("isa": "\u12G4")"), "3:9", "four hexadecimal digits"},
      {"", With("\"allow_suspect\": True"), "3:18", "'True' is no JSON value"},
  };
  for (const BadText& bad : kTexts) {
    SCOPED_TRACE(bad.id);
    ExpectRefused(bad.text, bad.place, bad.words);
  }
}

TEST_F(ManifestTest, KeysAndValuesThatAreRefused) {
  const BadText kTexts[] = {
      {"M17", With("\"isa\": \"auto\", \"isa\": \"avx2\""), "3:16", "isa: the key is given more"},
      {"M17", With("\"op\": \"conv2d\""), "3:1", "op: the key is given more than once"},
      {"M17", Cases(kA).replace(0, 1, "{\"schema\": \"convgrad-manifest/1\","), "1:34", "schema"},
      {"M18", Cases(fmt::format("{},\n{}", kA, kA)), "4:10", "'a' names the case at line 3 too"},
      {"M19", Cases(R"({"name": "a\nb", "op": "conv2d"})"), "3:10", "a control character"},
      {"M19", Cases(R"({"name": "\u001b[31m", "op": "conv2d"})"), "3:10", "a control character"},
      {"M19", Cases("{\"name\": \"" + std::string(5000, 'n') + "\"}"), "3:10", "has 5000 bytes"},
      {"M20", With("\"stride\": [1,1]"), "3:1", "did you mean strides?"},
      {"M20", With("\"out_backprob\": \"y.npy\""), "3:1", "did you mean out_backprop?"},
      {"M20", With("\"report\": \"r.json\""), "3:1", "a case has no such key"},
      {"M20", Cases(kA).replace(1, 0, "\"case\": [],"), "1:2", "did you mean cases?"},
      {"M20", With(R"("input_sizes": {"fil": "ones"})"), "3:16", "not an object"},
      {"M21", Cases(R"({"op": "conv2d"})"), "3:1", "no key name"},
      {"M21", Cases(R"({"name": "a", "input": "x.npy"})"), "3:1", "no key op"},
      {"M21", Cases(R"({"name": "a", "op": "conv2d", "input": "x.npy"})"), "3:1",
       "filter: conv2d needs it; give input, filter"},
      {"M21", R"({"schema": "convgrad-manifest/1"})", "1:1", "no key cases"},
      {"M22", With("\"strides\": \"2\""), "3:12", "not a string"},
      {"M22", With("\"strides\": [1, \"2\"]"), "3:16", "not a string"},
      {"M22", Cases("{\"dtype\": 1}"), "3:11", "dtype: wants a string, not a number"},
      {"M22", With("\"allow_suspect\": 1"), "3:18", "wants true or false"},
      {"M22", With("\"expect\": [1]"), "3:11", "a path or an object with the key sha256"},
      {"M22", With("\"tags\": \"smoke\""), "3:9", "an array of strings"},
      {"M22", Cases("7"), "3:1", "an object is wanted here, not a number"},
      {"M22", R"({"schema": "convgrad-manifest/1", "cases": {}})", "1:44", "wants an array"},
      {"M23", With("\"strides\": 2.0"), "3:12", "2.0 is not a whole number"},
      {"M23", With("\"strides\": [1, 2.5]"), "3:16", "2.5 is not a whole number"},
      {"M24", With("\"seed\": 1e400"), "3:9", "1e400 is not a whole number"},
      {"M25", With("\"seed\": 9223372036854775808"), "3:9", "out of range"},
      {"M26", With("\"strides\": [1, -0]"), "3:16", "write 0"},
      {"M28", With("\"strides\": [1, 1, 1]"), "3:12", "has 3 values"},
      {"M29", With("\"strides\": null"), "3:12", "not null"},
      {"M29", With("\"output\": null"), "3:11", "not null"},
      {"M31", With("\"output\": \"/dev/null\""), "3:11", "may not leave"},
      {"M32", With("\"output\": \"a/../../y.npy\""), "3:11", "may not leave"},
      {"M32", With("\"output\": \"../y.npy\""), "3:11", "--output-root"},
      {"M34", With(R"("output": "y\u0000.npy")"), "3:11", "NUL"},
      {"M34", With(R"("isa": "\u0000")"), "3:8", "NUL"},
      {"M35", With("\"output\": \"\""), "3:11", "empty"},
      {"M36", With("\"output\": \"" + std::string(5000, 'y') + "\""), "3:11", "bytes"},
      {"M48", Cases(kA).replace(1, 0, "\"include\": \"m.json\","), "1:2", "no such key"},
      {"M49", R"({"schema": "convgrad-manifest/2", "cases": []})", "1:12", "this version reads"},
      {"M49", R"({"schema": 1, "cases": []})", "1:12", "wants a string"},
      {"M49", R"({"cases": []})", "1:1", "no key schema"},
      {"M56", With("\"tolerance\": \"abs:-1\""), "3:14", "negative"},
      {"M56", With("\"tolerance\": \"rel:nan\""), "3:14", "not finite"},
      {"M56", With("\"tolerance\": \"abs:inf\""), "3:14", "not finite"},
      {"M56", With("\"tolerance\": -1"), "3:14", "wants a string"},
      {"M57", With("\"threads\": 0"), "3:12", "give a number from 1"},
      {"M57", With("\"threads\": -1"), "3:12", "out of range"},
      {"M57", With("\"threads\": 1000000000"), "3:12", "out of range"},
      {"M59", With("\"output\": \"-\""), "3:11", "standard stream"},
      {"", Cases(std::string(kA).replace(46, 0, "X")), "3:42", "did you mean SAME?"},
      {"", With("\"out_backprop\": \"y.npy\""), "3:17", "has no effect on conv2d"},
      {"", Cases(R"({"name": "a", "op": "conv3d", "input": "x", "filter": "w"})"), "3:21",
       "conv2d"},
      {"", Cases(R"({"name": "a", "op": "conv2d", "filter": "w",
"input": {"fill": "sevens"}})"),
       "4:10", "there is no fill 'sevens'"},
      {"", Cases(R"({"name": "a", "op": "conv2d", "filter": "w",
"input": {"shape": [1]}})"),
       "4:10", "no key fill"},
      {"", Cases(R"({"name": "a", "op": "conv2d", "filter": "w",
"input": {"fill": "ones", "sead": 1}})"),
       "4:27", "did you mean seed?"},
      {"", With("\"expect\": {\"sha256\": \"12\"}"), "3:11", "64"},
      {"", With("\"tolerance\": \"ulp:4\", \"expect\": \"sha256:" + std::string(64, '0') + "\""),
       "3:14", "tolerance ulp:4: a hash can only be compared by bits"},
      {"", R"({"schema": "convgrad-manifest/1", "defaults": {"output": "y"}, "cases": []})", "1:58",
       "can't be the same for all cases"},
      {"", Cases(kA).replace(1, 0, "\"defaults\": {\"stride\": 1},"), "1:15", "strides?"},
  };
  for (const BadText& bad : kTexts) {
    SCOPED_TRACE(bad.id);
    ExpectRefused(bad.text, bad.place, bad.words);
  }
}

// Nothing is known of the operands here, which are not there.
TEST_F(ManifestTest, APaddingMustBeNamed) {
  const std::string bare = R"({"name": "a", "op": "conv2d", "input": "x.npy", "filter": "w.npy")";
  ExpectRefused(Cases(bare + "}"), "3:1", "padding: it has no default; give SAME, VALID or");
  ExpectRefused(Cases(bare + R"(, "explicit_paddings": [0, 1, 0, 1]})"), "3:1",
                "padding: explicit_paddings needs it; give EXPLICIT");
  ExpectRefused(Cases(R"({"name": "a", "op": "conv2d", "input": "fill:ones@1,4,4,2",
"filter": "fill:ones@3,3,2,2"})"),
                "3:1", "both SAME and VALID fit the shapes");
}

TEST_F(ManifestTest, LinesThatAreRefused) {
  const std::string line = kA;
  const auto refused = [this](const std::string& text, const char* place, const char* words) {
    ExpectRefused(text, place, words, "m.jsonl");
  };
  refused("", "1:1", "there is nothing in it");
  refused("\n\n", "3:1", "there is nothing in it");
  refused(line + "\n{\"name\":\n\"b\"}", "2:9", "not the end of the line");
  refused(line + " " + line, "1:87", "the end of the line is expected");
  refused(line + "\n" + line, "2:10", "names the case at line 1 too");
  refused("{\"schema\": \"convgrad-manifest/9\"}\n" + line, "1:12", "this version reads");
  refused("{\"default\": {}}\n" + line, "1:2", "did you mean defaults?");
  refused(line + "\n{\"defaults\": {}}", "2:2", "a case has no such key");
  refused("[" + line + "]", "1:1", "an object is wanted here, not an array");
}

TEST_F(ManifestTest, FilesThatClash) {
  const auto cases = [](const std::string& a, const std::string& b) {
    return Cases(fmt::format(
        R"({{"name": "a", "op": "conv2d", "filter": "w.npy", {}, "padding": "SAME"}},
{{"name": "b", "op": "conv2d", "filter": "w.npy", {}, "padding": "SAME"}})",
        a, b));
  };
  ExpectRefused(
      cases(R"("input": "x.npy", "output": "y.npy")", R"("input": "x.npy", "output": "./y.npy")"),
      "4:78", "the case 'a' writes this file too");  // M40
  ExpectRefused(cases(R"("input": "x.npy", "output": "y.npy")", R"("input": "y.npy")"), "4:59",
                "depends on the order");  // M41
  ExpectRefused(cases(R"("input": "y.npy")", R"("input": "x.npy", "output": "y.npy")"), "3:59",
                "depends on the order");
  ExpectRefused(cases(R"("input": "x.npy", "expect": "g.npy")",
                      R"("input": "x.npy", "output": "g.npy.golden.json")"),
                "3:78", "depends on the order");
  Write("x.npy", "");
  ASSERT_EQ(link((scratch_ / "x.npy").c_str(), (scratch_ / "hard.npy").c_str()), 0);
  ASSERT_EQ(symlink("x.npy", (scratch_ / "soft.npy").c_str()), 0);
  for (const char* output : {"hard.npy", "soft.npy", "x.npy"}) {
    ExpectRefused(
        cases(R"("input": "x.npy")", fmt::format(R"("input": "z.npy", "output": "{}")", output)),
        "3:59", "depends on the order");
  }
}

TEST_F(ManifestTest, OutputsStayBeneathTheRoot) {
  std::filesystem::create_directories(scratch_ / "in/sub");
  ASSERT_EQ(symlink("..", (scratch_ / "in/up").c_str()), 0);
  ASSERT_EQ(symlink("../nowhere.npy", (scratch_ / "in/dangling.npy").c_str()), 0);
  ASSERT_EQ(symlink("sub", (scratch_ / "in/inside").c_str()), 0);
  const auto manifest = [](const std::string& output) {
    return With(fmt::format("\"output\": \"{}\"", output));
  };
  for (const char* output : {"up/y.npy", "dangling.npy", "sub/../../y.npy"}) {  // M33
    ExpectRefused(manifest(output), "3:11", "may not leave", "in/m.json");
    ManifestOptions options;
    options.paths.allow_outside = true;
    EXPECT_EQ(ReadAll(scratch_ / "in/m.json", options).size(), 1);
  }
  for (const char* output : {"y.npy", "sub/y.npy", "inside/y.npy", "missing/y.npy", "~/y.npy"}) {
    EXPECT_EQ(ReadAll(Write("in/m.json", manifest(output))).size(), 1) << output;  // M38
  }
  ManifestOptions options;
  options.paths.output_root = scratch_ / "in/sub";
  EXPECT_THAT(Lines(Write("in/m.json", manifest("y*.npy")), options),  // M39
              ElementsAre("run conv2d --input in/x.npy --filter in/w.npy --padding SAME --name a "
                          "--output 'in/sub/y*.npy'"));
}

TEST_F(ManifestTest, ACaseIsACommandLine) {
  const std::string cases = R"({"schema": "convgrad-manifest/1",
 "defaults": {"padding": "SAME", "strides": [1, 2, 2, 1], "probe": true, "isa": "scalar",
              "tolerance": "abs:1",
              "tags": ["all"], "filter_sizes": [3, 3, 1, 1]},
 "cases": [
   {"name": "block1/dw", "op": "depthwise_conv2d_backprop_filter", "tags": ["smoke"],
    "input": "block 1/x.npy", "filter_sizes": [3, 3, 32, 1], "out_backprop": "/abs/dy.npy",
    "output": "dw.npy", "expect": "golden/dw.npy", "tolerance": "ulp:4", "strides": 1},
   {"name": "probe", "op": "conv2d_backprop_input", "input_sizes": "sizes.npy", "allow_suspect": false,
    "filter": {"fill": "integer", "shape": [3, 3, 128, 128], "seed": 1}, "seed": 9,
    "out_backprop": {"fill": "uniform:-1:1"}, "isa": "auto", "max_memory": "1GiB", "threads": 2},
   {"name": "hash", "op": "conv2d", "input": "-x", "filter": "fill:ones", "probe": false,
    "expect": {"sha256": "0000000000000000000000000000000000000000000000000000000000000000"}}]})";
  const std::vector<std::string> expected = {
      "check depthwise_conv2d_backprop_filter --input 'block 1/x.npy' --out-backprop /abs/dy.npy "
      "--filter-sizes 3,3,32,1 --strides 1 --padding SAME --name block1/dw --output dw.npy "
      "--isa scalar --expect golden/dw.npy --tolerance ulp:4 --probe",
      "run conv2d_backprop_input --filter 'fill:integer@3,3,128,128#1' "
      "--out-backprop fill:uniform:-1:1 --input-sizes sizes.npy --strides 1,2,2,1 --padding SAME "
      "--name probe --seed 9 --threads 2 --isa auto --max-memory 1GiB",
      "check conv2d --input -x --filter fill:ones --strides 1,2,2,1 --padding SAME --name hash "
      "--isa scalar --expect sha256:"
      "0000000000000000000000000000000000000000000000000000000000000000"};
  EXPECT_EQ(Lines(Write("m.json", cases)), expected);
  // The same with keys in Python's sorted order, CRLF and a byte order mark (M03, M50), and as
  // lines.
  const auto json = nlohmann::json::parse(cases);
  std::string sorted = "\xEF\xBB\xBF" + json.dump(1);
  for (size_t at = 0; (at = sorted.find('\n', at)) != std::string::npos; at += 2) {
    sorted.replace(at, 1, "\r\n");
  }
  EXPECT_EQ(Lines(Write("m.json", sorted)), expected);
  std::string lines = nlohmann::json{{"defaults", json["defaults"]}}.dump() + "\r\n\n";
  for (const auto& one : json["cases"]) lines += one.dump() + "\n";
  EXPECT_EQ(Lines(Write("m.jsonl", lines)), expected);
  const std::vector<ManifestCase> read = ReadAll(scratch_ / "m.jsonl");
  EXPECT_THAT(read[0].tags, ElementsAre("smoke"));
  EXPECT_THAT(read[1].tags, ElementsAre("all"));
}

TEST_F(ManifestTest, LegalOddities) {
  EXPECT_EQ(ReadAll(Write("m.json", Cases(""))).size(), 0);  // M30
  EXPECT_EQ(ReadAll(Write("m.jsonl", "{\"schema\": \"convgrad-manifest/1\"}")).size(), 0);
  EXPECT_EQ(ReadAll(Write("m.json", With("\"strides\": [1]"))).size(), 1);  // M27
  const std::string name(4096, 'n');                                        // M19
  EXPECT_EQ(ReadAll(Write("m.json", Cases("{\"name\": \"a/../" + name.substr(5) +
                                          "\", \"op\": \"conv2d\", \"input\": \"x\", "
                                          "\"padding\": \"SAME\", \"filter\": \"../../w\"}")))
                .size(),
            1);
  EXPECT_EQ(
      ReadAll(Write("m.json", With(R"("algorithm": "\u00e9\ud83d\ude00")")))[0].request.flags.Get(
          FlagId::kAlgorithm, ""),
      "\xC3\xA9\xF0\x9F\x98\x80");
}

TEST_F(ManifestTest, AnIdentityDependsOnWhatIsComputedAlone) {
  const auto identity = [this](const std::string& file, const std::string& keys) {
    return ReadAll(Write(file, With(keys)))[0].Identity();
  };
  std::filesystem::create_directory(scratch_ / "sub");
  const std::string plain = identity("m.json", "\"seed\": 1");
  EXPECT_EQ(identity("sub/m.json", "\"seed\": 1"), plain);
  EXPECT_EQ(identity("m.json", "\"seed\": 1, \"threads\": 1, \"isa\": \"scalar\""), plain);
  EXPECT_NE(identity("m.json", "\"seed\": 2"), plain);
  EXPECT_NE(identity("m.json", "\"seed\": 1, \"output\": \"y.npy\""), plain);
  EXPECT_NE(identity("m.json", "\"seed\": 1, \"tags\": [\"t\"]"), plain);
}

}  // namespace
}  // namespace convgrad::cli
