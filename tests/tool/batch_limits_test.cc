// Batches at the limits of what they may be given: very many cases, very large manifests, inputs
// that may not be read, other locales, goldens of another algorithm version.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/batch/batch_case.h"
#include "support/batch_testing.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMegabyte = 1 << 20;
constexpr int64_t kProcessItself = 32 * kMegabyte;  // 13 measured
constexpr int64_t kBytesPerCase = 64;               // 27 measured, with 10^7 cases

class BatchLimitsTest : public BatchTest {
 protected:
  // Runs `batch` with these words; `peak_bytes` is the most memory that it had.
  int Batch(std::vector<std::string> words, int64_t& peak_bytes) const {
    words.insert(words.begin(), "batch");
    const pid_t child = Start(words);
    int status = 0;
    struct rusage usage = {};
    wait4(child, &status, 0, &usage);
    peak_bytes = int64_t{usage.ru_maxrss} * 1024;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

// M16, a hundredth of it.
TEST_F(BatchLimitsTest, ManyCasesTakeLittleMemory) {
  constexpr int64_t kCases = 100'000;
  std::ofstream file(Path("m.jsonl"));
  file << R"({"schema": "convgrad-manifest/1", "defaults": {"op": "conv2d", "padding": "SAME",)"
       << R"( "input": {"fill": "ones", "shape": [1, 2, 2, 1]},)"
       << R"( "filter": {"fill": "ones", "shape": [1, 1, 1, 1]}}})" << '\n';
  for (int64_t i = 0; i < kCases; ++i) file << fmt::format("{{\"name\":\"{}\"}}\n", i);
  file.close();
  int64_t peak_bytes = 0;
  EXPECT_EQ(Batch({"m.jsonl", "--match", "none"}, peak_bytes), 6);
  if (!kSanitized) {
    EXPECT_LT(peak_bytes, kProcessItself + kCases * kBytesPerCase);
  }
  // Nobody reads to the end: quiet.
  const ShellResult list = Sh("convgrad batch m.jsonl --list | head -n 1");
  EXPECT_THAT(list.out, HasSubstr("--name 0"));
  EXPECT_EQ(list.err, "");
}

// M60.
TEST_F(BatchLimitsTest, AManifestMayBeLargerThanTheMemoryLimit) {
  std::ofstream file(Path("m.jsonl"));
  file << R"({"schema": "convgrad-manifest/1"})" << '\n';
  for (int i = 0; i < 1000; ++i) {
    file << With(Filled(fmt::format("c{}", i), i, 3), {{"tags", {std::string(60'000, 't')}}}).dump()
         << '\n';
  }
  file.close();
  ASSERT_GT(std::filesystem::file_size(Path("m.jsonl")), 50 * kMegabyte);
  int64_t peak_bytes = 0;
  EXPECT_EQ(Batch({"m.jsonl", "--max-memory", "20MiB", "--quiet"}, peak_bytes), 0);
  if (!kSanitized) {
    EXPECT_LT(peak_bytes, kProcessItself);
  }
}

// Either fits alone, and both together don't.
TEST_F(BatchLimitsTest, LargeCasesDoNotShareTheMemoryLimit) {
  const json large = {{"threads", 1},
                      {"input", {{"fill", "normal"}, {"shape", {1, 2000, 2000, 4}}}},
                      {"filter", {{"fill", "normal"}, {"shape", {1, 1, 4, 4}}}}};
  WriteManifest({With(Filled("a"), large), With(Filled("b"), large)});
  int64_t peak_bytes = 0;
  EXPECT_EQ(Batch({"m.json", "--jobs", "2", "--threads", "2", "--max-memory", "160MiB", "--quiet"},
                  peak_bytes),
            0);
  EXPECT_GT(peak_bytes, 128 * kMegabyte);
  if (!kSanitized) {
    EXPECT_LT(peak_bytes, 160 * kMegabyte + kProcessItself);
  }
}

// M43.
TEST_F(BatchLimitsTest, AnUnreadableInputFailsItsCaseAlone) {
  ASSERT_EQ(Sh("convgrad gen --fill ones --shape 1,6,6,3 --output x.npy; chmod 000 x.npy; "
               "chmod 777 .")
                .exit_code,
            0);
  WriteManifest({With(Filled("secret"), {{"input", "x.npy"}}), Filled("after")});
  std::string as_user;
  if (geteuid() == 0) {  // who may read everything
    as_user = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
    if (Sh(as_user + Binary() + " --version").exit_code != 0) {
      GTEST_SKIP() << "root can't become another user here who may run the binary";
    }
  }
  const ShellResult result = Sh(as_user + Binary() + " batch m.json --report r.json --threads 1");
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const std::map<std::string, json> entries = ByName(Report());
  EXPECT_EQ(entries.at("secret")["error"]["code"], "io/permission");
  EXPECT_EQ(entries.at("after")["status"], "COMPUTED");
}

// M58: a decimal comma changes neither what is read nor what is written.
TEST_F(BatchLimitsTest, TheLocaleChangesNothing) {
  const bool is_made = Sh("localedef -i de_DE -f UTF-8 ./de_DE.UTF-8 2>/dev/null && LOCPATH=. "
                          "LC_ALL=de_DE.UTF-8 locale decimal_point")
                           .out == ",\n";
  WriteManifest({With(Filled("a"), {{"tolerance", "rtol:1e-3,atol:0.5"}}), Filled("b")});
  ASSERT_EQ(Sh("convgrad batch m.json --report plain.json --timeout 1.5min").exit_code, 0);
  ASSERT_EQ(Sh("LOCPATH=. LC_ALL=de_DE.UTF-8 convgrad batch m.json --report german.json "
               "--timeout 1.5min")
                .exit_code,
            0);
  EXPECT_EQ(Comparable(Report("plain.json")), Comparable(Report("german.json")));
  if (!is_made) GTEST_SKIP() << "no German locale can be made here: only its name was tried";
}

// M55: by bits nothing follows from another version's golden, by bound everything else does.
TEST_F(BatchLimitsTest, AGoldenOfAnotherAlgorithmVersionIsHeldToTheBound) {
  WriteManifest(json::array({With(Filled("a"), {{"expect", "g.npy"}})}));
  ASSERT_EQ(Sh("unset CI; convgrad batch m.json --record").exit_code, 0);
  json record = json::parse(ReadBytes(Path("g.npy.golden.json")));
  record["algo"] = "canon-0";
  WriteBytes(Path("g.npy.golden.json"), record.dump());
  ASSERT_EQ(Sh("convgrad batch m.json --report r.json").exit_code, 0);
  EXPECT_NE(Report()["benchmarks"][0]["check"]["policy"], "bits");
  std::filesystem::remove(Path("g.npy"));
  EXPECT_EQ(Sh("convgrad batch m.json --report r.json").exit_code, 1);
  EXPECT_THAT(Report()["benchmarks"][0]["check"]["reason"].get<std::string>(),
              HasSubstr("a hash of algo canon-0, precision standard says nothing"));
}

// The same case of the same manifest, computed by another version: it is computed again.
TEST_F(BatchLimitsTest, ResultsOfAnotherProgramAreNotResumed) {
  WriteManifest(json::array({Filled("a")}));
  const std::string run = "convgrad batch m.json --report r.json --events e.jsonl --resume";
  ASSERT_EQ(Sh(run).exit_code, 0);
  const json context = Report()["context"];
  const std::string event = ReadBytes(Path("e.jsonl"));
  const std::string identity = Events().front()["identity"];
  const cli::Program program = {context["version"], context["commit"], context["convgrad"]["algo"]};
  const cli::ManifestFile file(Path("m.json"));
  const auto identity_under = [&file](const cli::Program& one) {
    cli::ManifestOptions options;
    return cli::JobOf(cli::ManifestReader(file, options).Next().value(), 0, one).identity;
  };
  EXPECT_EQ(identity, identity_under(program));
  cli::Program versions[] = {program, program, program};
  versions[0].version += "0";
  versions[1].commit += "-dirty";
  versions[2].algo += "0";
  for (const cli::Program& other : versions) {
    std::string theirs = event;
    theirs.replace(theirs.find(identity), identity.size(), identity_under(other));
    WriteBytes(Path("e.jsonl"), theirs);
    ASSERT_EQ(Sh(run).exit_code, 0);
    EXPECT_FALSE(Report()["benchmarks"][0].contains("resumed"));
    EXPECT_EQ(Events().size(), 2);
    EXPECT_EQ(Events().back()["identity"], identity);
  }
  ASSERT_EQ(Sh(run).exit_code, 0);
  EXPECT_TRUE(Report()["benchmarks"][0].value("resumed", false));
}

// A widened bfloat16 output is known again by the values that it was made from.
TEST_F(BatchLimitsTest, AWidenedOutputIsResumed) {
  WriteManifest(json::array(
      {With(Filled("a"), {{"dtype", "bfloat16"}, {"bfloat16_as", "f4"}, {"output", "y.npy"}})}));
  const auto is_resumed = [this] {
    EXPECT_EQ(Sh("convgrad batch m.json --report r.json --events e.jsonl --resume").exit_code, 0);
    return Report()["benchmarks"][0].value("resumed", false);
  };
  EXPECT_FALSE(is_resumed());
  EXPECT_TRUE(is_resumed());
  std::vector<float> values = ReadFloats("y.npy");
  const std::vector<float> kept = values;
  values[5] *= 2;
  WriteFloats("y.npy", {1, 6, 6, 4}, values);
  EXPECT_FALSE(is_resumed());
  EXPECT_EQ(ReadFloats("y.npy"), kept);
  values[5] = 1.0001F;  // no bfloat16
  WriteFloats("y.npy", {1, 6, 6, 4}, values);
  EXPECT_FALSE(is_resumed());
}

}  // namespace
}  // namespace convgrad::testing
