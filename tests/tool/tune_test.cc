// `tune`, and what others make of the choices that it keeps.
#include <filesystem>
#include <fstream>
#include <functional>

#include "support/cli_testing.h"

namespace convgrad::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCase =
    "depthwise_conv2d --padding SAME --data-format NCHW --input fill:normal@1,8,7,7 "
    "--filter fill:normal@3,3,8,1 --threads 1 ";
constexpr const char* kLine =
    "depthwise_conv2d float32 NCHW in=1,8,7,7 filter=3,3,8,1 strides=1,1 dilations=1,1 "
    "pads=1,1,1,1 padding=EXPLICIT";

class TuneTest : public CliTest {
 protected:
  ShellResult Tool(const std::string& flags) {
    return Sh("XDG_CACHE_HOME=$PWD/c convgrad " + flags);
  }
  void Tune() {
    std::ofstream(Path("m.jsonl"))
        << R"({"op": "depthwise_conv2d", "name": "one", "padding": "SAME", "data_format": "NCHW",)"
        << R"( "input": {"fill": "normal", "shape": [1, 8, 7, 7]},)"
        << R"( "filter": {"fill": "normal", "shape": [3, 3, 8, 1]}})"
        << "\n";
    const ShellResult result = Tool("tune m.jsonl --threads 1");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("1 of 1 problems measured"));
  }
  std::string File() {
    const std::filesystem::directory_iterator files(Path("c/convgrad"));
    return files->path().string();
  }
  void Edit(const std::function<void(json&)>& change) {
    json kept = json::parse(std::ifstream(File()));
    change(kept);
    std::ofstream(File()) << kept.dump();
  }
  // Keeps an algorithm that the default choice would never be.
  void Pin(const std::string& algorithm) {
    Edit([&](json& kept) { kept["choices"] = {{kLine, algorithm}}; });
  }
  json Run(const std::string& flags, const std::string& output) {
    const ShellResult result =
        Tool("run " + (kCase + flags) + " --output " + output + " --report r.json");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(std::ifstream(Path("r.json")))["benchmarks"][0]["run"];
  }
  std::string Info() { return Tool("info --threads 1").out; }
};

TEST_F(TuneTest, AKeptChoiceIsObeyedAndChangesNoBit) {
  Tune();
  Pin("reference");
  const json tuned = Run("", "tuned.npy");
  EXPECT_EQ(tuned["algorithm"], "reference");
  EXPECT_EQ(tuned["tuned"], true);
  EXPECT_THAT(Info(), HasSubstr("Tuned: 1 choices of "));
  EXPECT_THAT(Tool(std::string("plan ") + kCase).out, HasSubstr("reference: tuned"));
  const json untuned = Run("--no-tuned", "untuned.npy");
  EXPECT_NE(untuned["algorithm"], "reference");
  EXPECT_EQ(untuned["tuned"], false);
  EXPECT_EQ(Run("--algorithm direct", "asked.npy")["algorithm"], "direct");
  EXPECT_EQ(Sh("cmp tuned.npy untuned.npy && cmp tuned.npy asked.npy").exit_code, 0);
  EXPECT_THAT(Tool("tune --threads 1 --forget").out, HasSubstr("forgotten"));
  EXPECT_EQ(Run("", "forgot.npy")["tuned"], false);
  EXPECT_THAT(Tool("tune --threads 1 --forget").out, HasSubstr("nothing to forget"));
}

TEST_F(TuneTest, ChoicesAreOfOneNumberOfThreadsAndPrecision) {
  Tune();
  Pin("reference");
  EXPECT_EQ(Run("--precision double", "double.npy")["tuned"], false);
  const ShellResult result = Tool(
      "plan depthwise_conv2d --padding SAME --data-format NCHW --input fill:normal@1,8,7,7 "
      "--filter fill:normal@3,3,8,1 --threads 3");
  EXPECT_THAT(result.out, Not(HasSubstr("tuned")));
}

TEST_F(TuneTest, AFileThatDoesNotFitIsIgnored) {
  Tune();
  Pin("reference");
  const std::string good = ReadBytes(File());
  const auto ignored = [&](const std::string& why) {
    EXPECT_EQ(Run("", "y.npy")["tuned"], false) << why;
    EXPECT_THAT(Info(), HasSubstr("is ignored: " + why));
    std::ofstream(File()) << good;
  };
  Edit([](json& kept) { kept["program"] = "another"; });
  ignored("another build of this program measured it");
  Edit([](json& kept) { kept["key"] = "another"; });
  ignored("it is of another machine");
  Edit([](json& kept) { kept["schema"] = "convgrad-tuned/0"; });
  ignored("it is of another version");
  Edit([](json& kept) { kept["choices"] = 1; });
  ignored("it is damaged");
  std::ofstream(File()) << good.substr(0, good.size() / 2);
  ignored("it is damaged");
  std::ofstream(File()) << "";
  ignored("it is damaged");
  Pin("none-such");
  EXPECT_EQ(Run("", "y.npy")["tuned"], false);
}

TEST_F(TuneTest, AManifestsFlagsNeedOne) {
  for (const std::string flags : {"--match '*'", "--tag small", "--allow-empty"}) {
    const ShellResult result = Tool("tune --threads 1 --seconds 1ms " + flags);
    EXPECT_EQ(result.exit_code, 2) << flags;
    EXPECT_THAT(result.err, HasSubstr("needs a manifest")) << flags;
  }
  EXPECT_EQ(Tool(std::string("plan --allow-empty ") + kCase).exit_code, 2);
}

TEST_F(TuneTest, WhatCannotBeKeptIsAnErrorAndHarmsNothing) {
  EXPECT_EQ(Sh("HOME= XDG_CACHE_HOME= convgrad tune --threads 1 --seconds 1ms").exit_code, 4);
  EXPECT_EQ(Sh("XDG_CACHE_HOME=/dev/null convgrad tune --threads 1 --seconds 1ms").exit_code, 4);
  Tune();
  Pin("reference");
  const std::string before = ReadBytes(File());
  EXPECT_NE(Sh("ulimit -f 0; XDG_CACHE_HOME=$PWD/c convgrad tune m.jsonl --threads 1").exit_code,
            0);
  EXPECT_EQ(ReadBytes(File()), before);
  EXPECT_NE(Sh("XDG_CACHE_HOME=$PWD/c timeout -s INT 0.5 convgrad tune --threads 1").exit_code, 0);
  EXPECT_EQ(ReadBytes(File()), before);
}

}  // namespace
}  // namespace convgrad::testing
