// Parts of one result end to end: `run --partial`, `run --images` and `reduce`. Cuts, trees, every
// refusal, files that are cut, flipped or foreign, operands that changed, full disks, kills.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <random>
#include <thread>

#include "files/part_file.h"
#include "support/cli_testing.h"
#include "support/from_environment.h"

namespace convgrad::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr const char* kSum =
    "conv2d_backprop_filter --padding SAME --input x.npy --filter-sizes 3,3,4,6 --out-backprop "
    "g.npy "
    "--precision exact";

class PartsTest : public CliTest {
 protected:
  void SetUp() override { MakeOperands("float32", 1); }

  void MakeOperands(const std::string& dtype, int seed) {
    Ok(fmt::format(
        "convgrad gen --fill normal --shape 8,12,12,4 --dtype {} --seed {} --output x.npy", dtype,
        seed));
    Ok(
        fmt::format("convgrad gen --fill normal --shape 8,12,12,6 --dtype {} --role out_backprop "
                    "--seed {} --output g.npy",
                    dtype, seed));
  }
  std::string Ok(const std::string& command) const {
    const ShellResult result = Sh(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    return result.out;
  }
  // Writes the part of these images of the sum.
  void Part(const std::string& images, const std::string& name, const std::string& more = "") {
    Ok(fmt::format("convgrad run {} --images {} --partial {} {}", kSum, images, name, more));
  }
  // One line that names what is wrong, exit code 3 and this code.
  void Refused(const std::string& command, const std::string& code, const std::string& words,
               int exit_code = 3) {
    const ShellResult result = Sh("convgrad " + command + " --report r.json");
    EXPECT_EQ(result.exit_code, exit_code) << command << "\n" << result.out;
    EXPECT_THAT(result.err, IsOneErrorLine());
    EXPECT_THAT(result.err, HasSubstr(words)) << command;
    nlohmann::json report = Report();
    const nlohmann::json error =
        report["benchmarks"].empty() ? report["error"] : report["benchmarks"][0]["error"];
    EXPECT_EQ(error.value("code", ""), code) << result.err;
  }
  void ExpectSame(const std::string& a, const std::string& b) {
    EXPECT_TRUE(ReadBytes(Path(a)) == ReadBytes(Path(b))) << a << " and " << b;
  }
};

TEST_F(PartsTest, AnyTreeOfAnyTypeHasTheBitsOfOneRun) {
  for (const std::string dtype : {"float16", "bfloat16", "float32", "float64"}) {
    MakeOperands(dtype, 3);
    const std::string type = dtype == "bfloat16" ? " --dtype bfloat16" : "";
    Ok(fmt::format("convgrad run {}{} --output whole.npy", kSum, type));
    Part("1/3", "1.cgp", type);
    Part("2/3", "2.cgp", type + " --threads 2");
    Part("3/3", "3.cgp", type + " --isa scalar");
    Ok("convgrad reduce 3.cgp 1.cgp --partial 31.cgp");
    Ok("convgrad reduce 31.cgp 2.cgp --output tree.npy");
    Ok("convgrad reduce 2.cgp 3.cgp 1.cgp --output flat.npy --max-memory 1MiB");
    ExpectSame("tree.npy", "whole.npy");
    ExpectSame("flat.npy", "whole.npy");
  }
}

// A part's bytes follow from the images and their cut alone.
TEST_F(PartsTest, APartHasTheSameBytesHoweverItCameAbout) {
  Part("0:4", "a.cgp", "--threads 1");
  Part("0:4", "b.cgp", "--threads 2 --isa scalar");
  ExpectSame("a.cgp", "b.cgp");
  Part("4:6", "c.cgp");
  Part("6:", "d.cgp");
  Ok("convgrad reduce a.cgp c.cgp --partial ac.cgp && convgrad reduce ac.cgp d.cgp --partial "
     "1.cgp");
  Ok("convgrad reduce d.cgp c.cgp --partial dc.cgp && convgrad reduce dc.cgp a.cgp --partial "
     "2.cgp");
  ExpectSame("1.cgp", "2.cgp");
  Ok("convgrad reduce 1.cgp --partial 3.cgp");
  ExpectSame("1.cgp", "3.cgp");
}

TEST_F(PartsTest, ReportsAndPlansSayWhatAPartIs) {
  Part("2:5", "a.cgp", "--report r.json");
  const nlohmann::json entry = Report()["benchmarks"][0];
  EXPECT_EQ(entry["part"]["images"], nlohmann::json({{2, 5}}));
  EXPECT_EQ(entry["part"]["bytes"], std::ssize(ReadBytes(Path("a.cgp"))));
  EXPECT_EQ(entry["problem"]["input"][0], 3);
  Ok("convgrad reduce a.cgp --images 2:5 --output f.npy --report r.json");
  const nlohmann::json reduced = Report()["benchmarks"][0];
  EXPECT_EQ(reduced["inputs"][0]["sha256"], entry["part"]["sha256"]);
  EXPECT_EQ(reduced["status"], "COMPUTED");
  const std::string plan = Ok(fmt::format("convgrad plan {} --shards 3", kSum));
  EXPECT_THAT(plan, HasSubstr("at most 17280 bytes"));  // 216 elements of 10 words
  EXPECT_THAT(plan, HasSubstr("--images 3/3  5:8"));
}

TEST_F(PartsTest, ImagesOfOneRunAreThoseOfTheWhole) {
  for (const std::string op :
       {"conv2d --padding SAME --input x.npy --filter fill:normal@3,3,4,6",
        "conv2d_backprop_input --padding SAME --input-sizes 8,12,12,4 --filter fill:normal@3,3,4,6 "
        "--out-backprop g.npy --filter-format HWIO"}) {
    Ok(fmt::format("convgrad run {} --output whole.npy", op));
    Ok(fmt::format("convgrad run {} --images 0:3 --partial a.cgp", op));
    Ok(fmt::format("convgrad run {} --images 3:8 --partial b.cgp", op));
    Ok("convgrad reduce b.cgp a.cgp --partial ba.cgp && convgrad reduce ba.cgp --output y.npy");
    ExpectSame("y.npy", "whole.npy");
    Ok(fmt::format("convgrad run {} --images 3:8 --precision double --partial d.cgp", op));
    Refused("reduce a.cgp d.cgp --output n.npy", "part/other-precision", "d.cgp");
    Refused("reduce b.cgp --output n.npy", "part/missing", "0:3");
  }
}

// Infinite and NaN terms make of a sum what they make of it in one run.
TEST_F(PartsTest, SpecialNumbersPassThroughParts) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  WriteFloats("x.npy", {4, 1, 1, 4},
              {kInfinity, 1, kInfinity, 1,    //
               1, -kInfinity, -kInfinity, 1,  //
               1, 1, 1, NAN,                  //
               1, 1, 1, 1});
  WriteFloats("g.npy", {4, 1, 1, 2}, {1, 2, 1, 2, 1, 2, 1, 0});
  const std::string run =
      "convgrad run conv2d_backprop_filter --padding SAME --input x.npy --filter-sizes 1,1,4,2 "
      "--out-backprop g.npy --precision exact ";
  Ok(run + "--output whole.npy");
  for (int image = 0; image < 4; ++image) {
    Ok(fmt::format("{} --images {}:{} --partial {}.cgp", run, image, image + 1, image));
  }
  Ok("convgrad reduce 1.cgp 3.cgp --partial 13.cgp && convgrad reduce 2.cgp 13.cgp 0.cgp -o f.npy");
  ExpectSame("f.npy", "whole.npy");
  EXPECT_EQ(ReadFloats("f.npy")[0], kInfinity);
}

// Each process has its own files, and says which images they are.
TEST_F(PartsTest, PiecesOfABatchInFilesOfTheirOwn) {
  Ok(fmt::format("convgrad run {} --output whole.npy", kSum));
  const std::vector<float> x = ReadFloats("x.npy"), g = ReadFloats("g.npy");
  const auto half = [](const std::vector<float>& all, int which) {
    const auto size = static_cast<std::ptrdiff_t>(all.size() / 2);
    return std::vector<float>(all.begin() + which * size, all.begin() + (which + 1) * size);
  };
  for (int which = 0; which < 2; ++which) {
    WriteFloats("x.npy", {4, 12, 12, 4}, half(x, which));
    WriteFloats("g.npy", {4, 12, 12, 6}, half(g, which));
    Ok(fmt::format("convgrad run {} --first-image {} --partial {}.cgp", kSum, 4 * which, which));
  }
  Ok("convgrad reduce 0.cgp 1.cgp --output f.npy");
  ExpectSame("f.npy", "whole.npy");
  Refused("reduce 1.cgp --output n.npy", "part/missing", "0:4");
  Refused("reduce 0.cgp --images 0:8 --output n.npy", "part/missing", "4:8");
  MakeOperands("float32", 1);
  Part("0:4", "known.cgp");
  Refused("reduce known.cgp 1.cgp --output n.npy", "part/other-batch", "1.cgp");
}

TEST_F(PartsTest, WhatMakesNoWholeIsRefusedByName) {
  Part("0:4", "a.cgp");
  Part("4:8", "b.cgp");
  Part("3:5", "c.cgp");
  Refused("reduce a.cgp --output n.npy", "part/missing", "4:8");
  Refused("reduce a.cgp b.cgp c.cgp --output n.npy", "part/duplicate", "c.cgp");
  Refused("reduce a.cgp a.cgp --partial n.cgp", "part/duplicate", "0:4");
  Refused("reduce a.cgp b.cgp --images 0:4 --output n.npy", "part/beyond", "b.cgp");
  Ok("convgrad gen --fill normal --shape 8,12,12,4 --seed 9 --output x.npy");
  Part("4:8", "other.cgp");
  Refused("reduce a.cgp other.cgp --output n.npy", "part/other-operand", "input");
  Ok(fmt::format("convgrad run {} --strides 1 --dilations 2 --images 4:8 --partial problem.cgp",
                 kSum));
  Refused("reduce a.cgp problem.cgp --output n.npy", "part/other-problem", "dilations=2,2");
  MakeOperands("float64", 1);
  Part("4:8", "type.cgp");
  Refused("reduce a.cgp type.cgp --output n.npy", "part/other-type", "float64");
  Refused("reduce x.npy --output n.npy", "part/not-a-part", "x.npy");
  Refused("reduce none.cgp --output n.npy", "io/not-found", "none.cgp", 4);
  EXPECT_FALSE(Exists("n.npy"));
  EXPECT_FALSE(Exists("n.cgp"));
}

TEST_F(PartsTest, WhatHasNoEffectOrNoSenseIsRefused) {
  const std::string op =
      "conv2d_backprop_filter --padding SAME --input x.npy --filter-sizes 3,3,4,6 "
      "--out-backprop g.npy ";
  Refused("run " + op + "--partial n.cgp", "part/precision", "--precision exact", 2);
  Refused(fmt::format("run {} --partial n.cgp --output n.npy", kSum), "flag/conflict", "--output",
          2);
  Refused(fmt::format("run {} --first-image 3", kSum), "flag/no-effect", "--first-image", 2);
  Refused(fmt::format("run {} --images 8:9", kSum), "images/range", "8 images", 2);
  Refused(fmt::format("run {} --images 4:4", kSum), "images/range", "4:4", 2);
  Refused(fmt::format("run {} --images 3", kSum), "images/syntax", "A:B", 2);
  Refused(fmt::format("run {} --images 9/16 --partial n.cgp --max-memory 1", kSum), "images/range",
          "none of 8", 2);
  Refused(fmt::format("run {} --partial n.cgp --max-memory 40kB", kSum), "memory/limit", "sums", 4);
  Refused(fmt::format("run {} --partial n.cgp --algorithm certified", kSum), "algorithm/refused",
          "certified", 2);
  EXPECT_FALSE(Exists("n.cgp"));
}

// A part is held against the operands as they are now.
TEST_F(PartsTest, AnOperandThatChangedSinceIsNamed) {
  Part("0:4", "a.cgp");
  Part("4:8", "b.cgp");
  const std::string operands = "--input x.npy --out-backprop g.npy";
  Ok("convgrad reduce a.cgp b.cgp --output f.npy " + operands);
  std::string bytes = ReadBytes(Path("g.npy"));
  bytes[bytes.size() - 3] ^= 1;
  WriteBytes(Path("g.npy"), bytes);
  Refused("reduce a.cgp b.cgp --output n.npy " + operands, "part/operand-changed",
          "b.cgp: its images 4:8 of out_backprop");
  Ok("convgrad reduce a.cgp b.cgp --output f.npy");  // not asked
  Refused("reduce a.cgp b.cgp --output n.npy --input g.npy", "operand/mismatch", "g.npy");
  Refused("reduce a.cgp b.cgp --output n.npy --filter g.npy", "operand/unexpected", "--filter", 2);
  EXPECT_FALSE(Exists("n.npy"));
}

TEST_F(PartsTest, CutFlippedAndLongerFilesAreRefused) {
  Part("0:4", "a.cgp");
  Part("4:8", "b.cgp");
  const std::string good = ReadBytes(Path("b.cgp"));
  const auto try_bytes = [&](const std::string& bytes) {
    WriteBytes(Path("b.cgp"), bytes);
    const ShellResult result = Sh("convgrad reduce a.cgp b.cgp --output n.npy");
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.err, IsOneErrorLine());
    EXPECT_THAT(result.err, HasSubstr("b.cgp"));
    EXPECT_FALSE(Exists("n.npy"));
    return result.err;
  };
  for (const size_t size : {size_t{0}, size_t{4}, size_t{15}, size_t{16}, size_t{300},
                            good.size() - 65, good.size() - 1}) {
    try_bytes(good.substr(0, size));
  }
  EXPECT_THAT(try_bytes(good + "x"), HasSubstr("1 bytes follow"));
  for (size_t at = 0; at < good.size(); at += 1 + good.size() / 60) {
    std::string flipped = good;
    flipped[at] ^= 0x10;
    try_bytes(flipped);
  }
}

TEST_F(PartsTest, AFullDiskKeepsTheOldPart) {
  Part("0:4", "a.cgp");
  Part("4:8", "b.cgp");
  const std::string old = ReadBytes(Path("a.cgp"));
  const std::vector<std::string> commands = {fmt::format("run {} --partial a.cgp", kSum),
                                             "reduce a.cgp b.cgp --partial a2.cgp"};
  for (const std::string& command : commands) {
    const ShellResult result = Sh("ulimit -f 2; convgrad " + command);
    EXPECT_EQ(result.exit_code, 4) << command;
    EXPECT_THAT(result.err, IsOneErrorLine());
    EXPECT_EQ(ReadBytes(Path("a.cgp")), old);
  }
  EXPECT_THAT(Files(), ElementsAre("a.cgp", "b.cgp", "g.npy", "x.npy"));
}

TEST_F(PartsTest, KilledAtAnyMomentItIsOldOrComplete) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const int num_rounds = Rounds(static_cast<int>(FromEnvironment("CONVGRAD_TEST_PROBLEMS", 100)));
  Part("0:4", "a.cgp");
  Part("4:8", "b.cgp");
  std::vector<std::string> run = {"run"};
  for (const char* word : {"conv2d_backprop_filter", "--padding", "SAME", "--input", "x.npy",
                           "--filter-sizes", "3,3,4,6", "--out-backprop", "g.npy", "--precision",
                           "exact", "--partial", "out.cgp", "--quiet"}) {
    run.emplace_back(word);
  }
  const std::vector<std::string> reduce = {"reduce",    "a.cgp",   "b.cgp",
                                           "--partial", "out.cgp", "--quiet"};
  for (const auto& arguments : {run, reduce}) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(ExitCodeOf(Start(arguments)), 0);
    KillMoments moments(seed, std::chrono::steady_clock::now() - begin);
    const std::string complete = ReadBytes(Path("out.cgp"));
    for (int round = 0; round < num_rounds; ++round) {
      WriteBytes(Path("out.cgp"), "old");
      const int signal = round % 2 == 0 ? SIGKILL : SIGTERM;
      const auto delay = moments.Next();
      const pid_t child = Start(arguments);
      std::this_thread::sleep_for(delay);
      kill(child, signal);
      const int exit_code = ExitCodeOf(child);
      ASSERT_THAT(exit_code, AnyOf(0, 128 + signal));
      moments.Learn(exit_code != 0);
      ASSERT_TRUE(ReadBytes(Path("out.cgp")) == "old" || ReadBytes(Path("out.cgp")) == complete)
          << "killed after " << delay.count() << " us";
    }
    EXPECT_GT(moments.met(), num_rounds / 5);
    ASSERT_EQ(ExitCodeOf(Start(arguments)), 0);
    EXPECT_THAT(Files(), ElementsAre("a.cgp", "b.cgp", "g.npy", "out.cgp", "x.npy"));
  }
}

}  // namespace
}  // namespace convgrad::testing
