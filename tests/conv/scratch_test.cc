// A run allocates no more than its plan declares. What allocates (base/memory.h and operator new)
// is replaced here by what counts bytes too, and loops (base/parallel.h) by ones that give every
// thread its part of the pieces, so that each makes the scratch that it may need.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/compute.h"
#include "support/from_environment.h"
#include "support/operands.h"
#include "support/random_problem.h"

namespace {

std::atomic<int64_t> in_use = 0, most_in_use = 0;

void Count(int64_t bytes) {
  const int64_t now = in_use += bytes;
  int64_t most = most_in_use;
  while (most < now && !most_in_use.compare_exchange_weak(most, now)) {
  }
}

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  Count(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) Count(-static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  operator delete(memory);
}

namespace convgrad {

// One vector more than asked for, as the library has it.
std::unique_ptr<std::byte[], FreeAligned> AllocateBytes(size_t bytes) {
  const size_t padded = (bytes / kAlignment + 2) * kAlignment;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, padded));
  if (memory == nullptr) throw std::bad_alloc();
  Count(static_cast<int64_t>(bytes));
  return {memory, FreeAligned{bytes}};
}
void FreeAligned::operator()(void* memory) const {
  Count(-static_cast<int64_t>(block_bytes));
  std::free(memory);
}
int64_t KeptMemoryBytes() {
  return 0;
}
void ReleaseKeptMemory() {}

ScopedFpEnvironment::ScopedFpEnvironment() : saved_(0) {}
ScopedFpEnvironment::~ScopedFpEnvironment() = default;

struct Parallel::Helpers {
  std::atomic<bool> run = false;
};
Parallel::Parallel(int num_threads) : num_threads_(num_threads), helpers_(new Helpers) {}
Parallel::~Parallel() {
  delete helpers_;
}

namespace {
thread_local int thread_index = 0;
}  // namespace

void Parallel::For(int64_t count, const std::function<void(int64_t)>& body) const {
  const auto run = [&](int index, int num_indices) {
    const int before = std::exchange(thread_index, index);
    for (int64_t i = index; i < count; i += num_indices) body(i);
    thread_index = before;
  };
  if (num_threads_ == 1 || count <= 1 || helpers_->run.exchange(true)) return run(0, 1);
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads_; ++i) threads.emplace_back(run, i, num_threads_);
  run(0, num_threads_);
  for (std::thread& thread : threads) thread.join();
  helpers_->run = false;
}

int Parallel::ThreadIndex() {
  return thread_index;
}
const char* ThreadingLibraryVersion() {
  return "none";
}
void RequestStop() {}
bool StopRequested() {
  return false;
}

namespace {

// Lists, and what loops and closures need, for each thread.
constexpr int64_t kSmall = 48 << 10;

void ExpectDeclared(const Problem& problem, const Execution& execution) {
  const testing::Operands operands =
      testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
  const Computation computation(problem, execution);
  Tensor result(problem.dtype, problem.ResultShape());
  computation.Run(operands.first, operands.second, result);  // makes what is made once
  const int64_t before = in_use;
  most_in_use = before;
  computation.Run(operands.first, operands.second, result);
  const RunInfo& info = computation.info();
  EXPECT_LE(most_in_use - before, info.scratch_bytes + info.num_threads * kSmall)
      << info.algorithm << ", " << info.num_threads << " threads, declared " << info.scratch_bytes
      << "\n"
      << problem.ToLine();
}

void ExpectDeclaredByAll(const Problem& problem, int num_threads) {
  for (const Precision precision : kAllPrecisions) {
    for (const Algorithm& algorithm : AlgorithmsOf(problem.op, precision)) {
      Execution execution;
      execution.precision = precision;
      execution.num_threads = num_threads;
      if (!algorithm.can(problem, SupportedKernels().front())) continue;
      if (std::string(algorithm.name) == "reference") continue;
      execution.algorithm = algorithm.name;
      ExpectDeclared(problem, execution);
    }
  }
}

TEST(Scratch, IsWhatPlansDeclare) {
  const uint64_t count = FromEnvironment("CONVGRAD_TEST_PROBLEMS", 300);
  RandomProblemOptions options;
  options.allow_empty = false;
  RandomProblems problems(21, options);
  for (uint64_t i = 0; i < count; ++i) {
    const Problem problem = problems.Next();
    if (problem.HasTerms()) ExpectDeclaredByAll(problem, i % 2 == 0 ? 1 : 3);
  }
}

TEST(Scratch, OfLargerProblems) {
  for (const char* line : {
           // So many taps apart that lists of their segments are not kept.
           "conv2d float32 NHWC in=1,97,97,2 filter=65,65,2,2 strides=1,1 dilations=2,2 "
           "pads=64,64,64,64 padding=SAME",
           // Rows of results that meet few rows of the source, or none.
           "depthwise_conv2d_backprop_input float32 NHWC in=1,4096,8,64 filter=3,3,64,1 "
           "strides=4,4 dilations=1,1 pads=0,0,0,0 padding=SAME",
           // Large sums of a unit.
           "conv2d_backprop_filter float64 NHWC in=2,31,31,7 filter=5,5,7,40 strides=1,1 "
           "dilations=1,1 pads=2,2,2,2 padding=SAME",
       }) {
    ExpectDeclaredByAll(ParseProblem(line), 1);
  }
}

// Calls of many rows, which are kept as long as rows are packed and for later images.
TEST(Scratch, OfDepthwiseCallsOfManyRows) {
  for (const char* line : {
           "depthwise_conv2d float32 NCHW in=1,16,4096,4 filter=3,3,16,1 strides=1,1 dilations=1,1 "
           "pads=1,1,1,1 padding=SAME",
           "depthwise_conv2d float16 NHWC in=1,2048,8,8 filter=5,5,8,2 strides=1,1 dilations=2,2 "
           "pads=4,4,4,4 padding=SAME",
           "depthwise_conv2d_backprop_input float32 NHWC in=1,4096,12,4 filter=7,7,4,3 "
           "strides=3,3 dilations=1,1 pads=3,3,2,2 padding=SAME",
           "depthwise_conv2d_backprop_input float64 NCHW in=1,8,2048,9 filter=3,9,8,40 "
           "strides=1,2 dilations=1,1 pads=1,1,4,4 padding=EXPLICIT",
           "depthwise_conv2d_backprop_filter float32 NCHW in=2,16,4096,64 filter=3,3,16,1 "
           "strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
           "depthwise_conv2d_backprop_filter float32 NHWC in=2,256,1024,16 filter=3,3,16,1 "
           "strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
           "depthwise_conv2d_backprop_filter bfloat16 NHWC in=1,4096,16,5 filter=7,5,5,3 "
           "strides=2,1 dilations=1,1 pads=2,3,2,2 padding=SAME",
       }) {
    for (const int num_threads : {1, 3}) {
      Execution execution;
      execution.num_threads = num_threads;
      execution.algorithm = "direct";
      ExpectDeclared(ParseProblem(line), execution);
    }
  }
}

// Several workers run plans that were made for one thread each.
TEST(Scratch, OfSlabsThatThreadsTakeAlone) {
  for (const char* line :
       {"conv2d float32 NHWC in=64,14,14,640 filter=3,3,640,16 strides=1,1 dilations=1,1 "
        "pads=1,1,1,1 padding=SAME",
        "conv2d_backprop_filter float32 NHWC in=64,32,32,32 filter=1,1,32,32 strides=1,1 "
        "dilations=1,1 pads=0,0,0,0 padding=SAME"}) {
    Execution execution;
    execution.precision = Precision::kExact;
    execution.num_threads = 4;
    ExpectDeclared(ParseProblem(line), execution);
  }
}

}  // namespace
}  // namespace convgrad
