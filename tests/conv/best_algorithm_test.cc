// Which algorithm is chosen: the one whose planned work the cost model counts cheapest. What it
// chooses for the shipped workloads stands in a file, so that a change of model or plans shows what
// it moves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "conv/plan/algorithm.h"
#include "kernels/kernel_table.h"
#include "problem/geometry.h"
#include "support/random_problem.h"
#include "support/workloads.h"

namespace convgrad::testing {
namespace {

double CyclesOfPlan(const Algorithm& algorithm, const Problem& problem,
                    const KernelTable& kernels) {
  return CyclesOf(algorithm.plan(problem, kernels, 1)->CountWork(), kernels.vector_bytes);
}

TEST(BestAlgorithm, CountsFewestCycles) {
  int compared = 0;
  for (const OpInfo& op : AllOps()) {
    RandomProblemOptions options;
    options.op = op.op;
    options.allow_empty = false;
    RandomProblems problems(5, options);
    for (int i = 0; i < 100; ++i) {
      const Problem problem = problems.Next();
      if (!problem.HasTerms()) continue;
      for (const KernelTable& kernels : SupportedKernels()) {
        const Planned best = Planned::Best(problem, kernels, 1);
        ASSERT_TRUE(best.algorithm().can(problem, kernels));
        const double least = CyclesOfPlan(best.algorithm(), problem, kernels);
        ASSERT_TRUE(std::isfinite(least) && least > 0) << problem.ToLine();
        for (const Algorithm& other : AlgorithmsOf(op.op)) {
          const bool is_form = other.name != std::string("reference");
          if (!is_form || !other.can(problem, kernels)) continue;
          ASSERT_LE(least, CyclesOfPlan(other, problem, kernels)) << problem.ToLine() << other.name;
          compared += &other != &best.algorithm() ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
}

// A problem of a microsecond runs on the caller alone, whatever number of threads it may use.
TEST(BestAlgorithm, SharesNoWorkThatIsSoonDone) {
  const auto tiles = [](const std::string& sizes, int num_threads) {
    const Problem problem =
        ParseProblem("conv2d float32 NHWC " + sizes +
                     " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    return Planned::Best(problem, SupportedKernels().front(), num_threads).Tiles();
  };
  const std::string small = "in=1,4,4,8 filter=1,1,8,8", large = "in=8,64,64,64 filter=1,1,64,64";
  EXPECT_EQ(tiles(small, 4), tiles(small, 1) + ", on one thread");
  EXPECT_EQ(tiles(large, 4).find("one thread"), std::string::npos);
}

// The parts of a long sum, which one thread takes one after the other, and the classes of pixels
// that are one share are tasks of one thread: the others don't make this form any quicker.
TEST(BestAlgorithm, CountsTheTasksThatThreadsHaveAtOnce) {
  const auto at_once = [](const std::string& sizes, const KernelTable& kernels) {
    const Problem problem = ParseProblem("conv2d float32 NHWC " + sizes +
                                         " strides=1,1 dilations=1,1 padding=EXPLICIT");
    const auto algorithms = AlgorithmsOf(problem.op);
    const auto form = std::ranges::find_if(
        algorithms, [](const auto& one) { return one.name == std::string("channel-lanes"); });
    const Work work = form->plan(problem, kernels, 2)->CountWork();
    EXPECT_GT(work.Of(WorkKind::kTask), work.TasksAtOnce());
    return work.TasksAtOnce();
  };
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.vector_bytes < 32) continue;  // panels of one number have no long sums
    const std::string out_c = std::to_string(kernels.gemm_f32.lanes);
    EXPECT_EQ(at_once("in=2,10,10,400 filter=10,10,400," + out_c + " pads=0,0,0,0", kernels), 1);
    EXPECT_EQ(at_once("in=1,3,3,8 filter=3,3,8," + out_c + " pads=1,1,1,1", kernels), 1);
  }
}

// Choices for vectors of 32 bytes, whose coefficients are the same on every machine: a line a
// workload with its name, pass, layout and algorithm. CONVGRAD_WRITE_CHOICES=FILE writes what they
// should be.
TEST(BestAlgorithm, ChoosesForWorkloadsWhatTheFileSays) {
  const KernelTable* kernels = FindKernels(Isa::kAvx2);
  if (kernels == nullptr) GTEST_SKIP() << "the choices written down are of AVX2";
  std::vector<std::string> choices;
  for (const auto& workload : ReadWorkloads()) {
    for (const auto& [direction, pass] : kPasses) {
      for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
        const Problem problem = MakeProblem(SpecOf(workload, direction, format, DType::kFloat32));
        choices.push_back(workload.at("name").get<std::string>() + " " + pass + " " +
                          NameOf(format) + " " +
                          Planned::Best(problem, *kernels, 1).algorithm().name);
      }
    }
  }
  if (const char* path = std::getenv("CONVGRAD_WRITE_CHOICES")) {
    std::ofstream file(path);
    for (const std::string& choice : choices) file << choice << "\n";
  }
  std::ifstream file(CONVGRAD_SOURCE_DIR "/data/perf/choices.txt");
  for (const std::string& choice : choices) {
    std::string expected;
    std::getline(file, expected);
    EXPECT_EQ(choice, expected);
  }
}

}  // namespace
}  // namespace convgrad::testing
