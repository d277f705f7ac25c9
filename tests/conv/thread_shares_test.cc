// One computation can fill many threads, also where it is one image, one block of channels
// or one tap. The loops of base/parallel.h are replaced here: they claim as many threads as they
// are asked for, run one piece after the other and time each, so that the test sees what a machine
// with as many cores would, on any machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>

#include "base/parallel.h"
#include "conv/compute.h"
#include "support/operands.h"

namespace convgrad {
namespace {

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The seconds of all loops since they were last cleared: the work in them, and what they would take
// at least on the threads they claimed.
struct LoopTimes {
  double work = 0, shared = 0;
} loop_times;

}  // namespace

ScopedFpEnvironment::ScopedFpEnvironment() : saved_(0) {}
ScopedFpEnvironment::~ScopedFpEnvironment() = default;

Parallel::Parallel(int num_threads) : num_threads_(num_threads) {}
Parallel::~Parallel() = default;

void Parallel::For(int64_t count, const std::function<void(int64_t)>& body) const {
  double work = 0, longest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double begin = CpuSeconds();
    body(i);
    const double piece = CpuSeconds() - begin;
    work += piece;
    longest = std::max(longest, piece);
  }
  loop_times.work += work;
  loop_times.shared += std::max(longest, work / num_threads_);
}

int Parallel::ThreadIndex() {
  return 0;
}
const char* ThreadingLibraryVersion() {
  return "none";
}
void RequestStop() {}
bool StopRequested() {
  return false;
}

namespace {

// How many times as fast `num_threads` are at best; the best of some runs, since what disturbs them
// can only make a piece longer.
double Speedup(const Problem& problem, int num_threads) {
  const testing::Operands operands =
      testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
  Execution execution;
  execution.num_threads = num_threads;
  const Computation computation(problem, execution);
  Tensor result(problem.dtype, problem.ResultShape());
  double best = 0;
  for (int run = 0; run < 8; ++run) {
    loop_times = {};
    const double begin = CpuSeconds();
    computation.Run(operands.first, operands.second, result);
    const double whole = CpuSeconds() - begin;
    best = std::max(best, whole / (whole - loop_times.work + loop_times.shared));
  }
  return best;
}

constexpr const char* kConv2D[] = {
    // One block of channels, one tap, many channels of few pixels, few channels.
    "NHWC in=1,112,112,16 filter=3,3,16,16 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NHWC in=1,112,112,64 filter=1,1,64,16 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=SAME",
    "NHWC in=1,7,7,512 filter=3,3,512,512 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NHWC in=1,224,224,3 filter=7,7,3,16 strides=2,2 dilations=1,1 pads=2,3,2,3 padding=SAME",
    "NCHW in=1,64,112,112 filter=1,1,64,16 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=SAME",
};
constexpr const char* kDepthwise[] = {
    "NHWC in=1,224,224,16 filter=3,3,16,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NHWC in=1,112,112,64 filter=1,1,64,1 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=SAME",
    "NHWC in=1,448,448,1 filter=3,3,1,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NCHW in=1,1,448,448 filter=3,3,1,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NCHW in=1,16,112,112 filter=3,3,16,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
};

TEST(ThreadShares, OfOneImageOneBlockOfChannelsOrOneTap) {
  for (const OpInfo& op : AllOps()) {
    for (const char* line : op.depthwise ? kDepthwise : kConv2D) {
      const Problem problem = ParseProblem(std::string(op.name) + " float32 " + line);
      for (const int threads : {2, 4}) {
        const double speedup = Speedup(problem, threads);
        EXPECT_GT(speedup, 1 + 0.25 * threads) << threads << " threads, " << problem.ToLine();
      }
    }
  }
}

}  // namespace
}  // namespace convgrad
