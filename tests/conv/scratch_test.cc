// A run allocates no more than its plan declares. The library's own allocation (base/memory.h) and
// operator new are replaced here by ones that count bytes.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "base/memory.h"
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

namespace {

// Lists, and what loops and closures need, for each thread.
constexpr int64_t kSmall = 24 << 10;

void ExpectDeclared(const Problem& problem, const Execution& execution) {
  const testing::Operands operands =
      testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
  const Computation computation(problem, execution);
  Tensor result(problem.dtype, problem.ResultShape());
  computation.Run(operands.first, operands.second, result);  // starts threads
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
           // Dilated taps of many columns: lists of segments that are not kept.
           "conv2d float32 NHWC in=2,97,97,3 filter=15,15,3,3 strides=1,1 dilations=3,3 "
           "pads=21,21,21,21 padding=SAME",
           // Rows of results that meet bands of few rows of the source.
           "depthwise_conv2d_backprop_input float32 NHWC in=2,512,640,32 filter=3,3,32,1 "
           "strides=4,4 dilations=1,1 pads=0,0,0,0 padding=SAME",
           // Tiles of a unit's sums.
           "conv2d_backprop_filter float32 NHWC in=2,31,31,7 filter=5,5,7,20 strides=1,1 "
           "dilations=1,1 pads=2,2,2,2 padding=SAME",
       }) {
    ExpectDeclaredByAll(ParseProblem(line), 2);
  }
}

// Several workers run plans that were made for one thread each.
TEST(Scratch, OfSlabsThatThreadsTakeAlone) {
  for (const char* line :
       {"conv2d float32 NHWC in=32,32,32,64 filter=1,1,64,64 strides=1,1 dilations=1,1 "
        "pads=0,0,0,0 padding=SAME",
        "conv2d float64 NHWC in=32,32,32,64 filter=1,1,64,64 strides=1,1 dilations=1,1 "
        "pads=0,0,0,0 padding=SAME",
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
