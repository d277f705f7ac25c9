// No form reads or writes past the end of a tensor: each lies before a page that may not be
// touched, as a caller's array may, which has no room behind it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <string>

#include "base/checked.h"
#include "conv/compute.h"
#include "conv/plan/algorithm.h"
#include "support/forced_run.h"
#include "support/operands.h"

namespace convgrad {
namespace {

// Memory whose last byte lies just before a page without access.
class EndsAtGuard {
 public:
  explicit EndsAtGuard(int64_t bytes) : page_(sysconf(_SC_PAGESIZE)) {
    const int64_t readable = CeilDiv(bytes, page_) * page_;
    size_ = static_cast<size_t>(readable + page_);
    pages_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(pages_ + readable, static_cast<size_t>(page_), PROT_NONE);
    begin_ = pages_ + readable - bytes;
  }
  explicit EndsAtGuard(const Tensor& tensor) : EndsAtGuard(tensor.num_bytes()) {
    std::memcpy(begin_, tensor.raw(), static_cast<size_t>(tensor.num_bytes()));
  }
  ~EndsAtGuard() { munmap(pages_, size_); }
  EndsAtGuard(const EndsAtGuard&) = delete;
  EndsAtGuard& operator=(const EndsAtGuard&) = delete;

  char* begin() const { return begin_; }

 private:
  const int64_t page_;
  size_t size_;
  char *pages_, *begin_;
};

// Sizes that are no whole vectors, of tensors that are whole lines: 1x1 filters on planes, few
// pixels that read the filter where it lies, padding, strides, groups.
constexpr const char* kConvolutions[] = {
    "NCHW in=1,64,9,7 filter=1,1,64,20 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NCHW in=2,5,13,31 filter=1,1,5,3 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NCHW in=2,32,9,5 filter=1,1,32,96 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NCHW in=2,128,3,3 filter=1,1,16,80 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NHWC in=4,1,1,64 filter=1,1,64,100 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NHWC in=3,9,11,40 filter=1,1,40,52 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NHWC in=2,9,7,64 filter=1,1,64,4 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NHWC in=2,9,7,50 filter=1,1,50,3 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NHWC in=2,9,7,80 filter=1,1,40,8 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NHWC in=1,5,5,32 filter=3,3,32,36 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NHWC in=2,4,4,48 filter=1,1,12,72 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID",
    "NHWC in=2,8,10,16 filter=3,3,16,28 strides=2,2 dilations=1,1 pads=0,1,0,1 padding=SAME",
};

// Rows of a few columns, of less than a vector and of more than one, both strides.
constexpr const char* kDepthwise[] = {
    "NCHW in=2,3,5,1 filter=3,3,3,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NCHW in=1,4,6,2 filter=5,5,4,1 strides=1,1 dilations=1,1 pads=2,2,2,2 padding=SAME",
    "NCHW in=2,2,7,14 filter=3,3,2,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NCHW in=1,2,5,37 filter=5,5,2,1 strides=1,1 dilations=1,1 pads=2,2,2,2 padding=SAME",
    "NCHW in=1,3,3,1 filter=3,3,3,1 strides=2,2 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NCHW in=1,3,2,2 filter=3,3,3,1 strides=2,2 dilations=1,1 pads=0,1,0,1 padding=SAME",
    "NCHW in=2,3,7,7 filter=5,5,3,1 strides=2,2 dilations=1,1 pads=2,2,2,2 padding=SAME",
    "NCHW in=1,2,9,29 filter=3,3,2,1 strides=2,2 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NCHW in=1,1,6,75 filter=5,5,1,1 strides=2,2 dilations=1,1 pads=1,2,2,2 padding=SAME",
    "NCHW in=2,1,5,35 filter=3,3,1,1 strides=1,1 dilations=2,2 pads=2,2,2,2 padding=SAME",
    "NHWC in=1,5,6,20 filter=3,3,20,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NHWC in=1,8,8,36 filter=3,3,36,1 strides=2,2 dilations=1,1 pads=0,1,0,1 padding=SAME",
    "NHWC in=2,5,6,9 filter=3,3,9,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NHWC in=2,9,9,3 filter=3,3,3,1 strides=2,2 dilations=1,1 pads=1,1,1,1 padding=SAME",
    "NHWC in=1,7,8,2 filter=5,7,2,1 strides=1,1 dilations=1,1 pads=2,2,3,3 padding=SAME",
    "NHWC in=3,4,2,5 filter=1,3,5,1 strides=1,1 dilations=1,1 pads=0,0,1,1 padding=SAME",
    "NHWC in=2,9,7,6 filter=3,3,6,1 strides=1,1 dilations=3,3 pads=3,3,3,3 padding=SAME",
};

void ComputeBeforeGuards(const Problem& problem, const testing::Operands& operands,
                         const Tensor& expected, const Algorithm& algorithm,
                         const KernelTable& kernels) {
  const EndsAtGuard first(operands.first), second(operands.second);
  const EndsAtGuard result(problem.ResultBytes());
  testing::RunForced(algorithm, problem, kernels, first.begin(), second.begin(), result.begin(), 1);
  EXPECT_EQ(std::memcmp(result.begin(), expected.raw(), static_cast<size_t>(expected.num_bytes())),
            0)
      << algorithm.name << ' ' << problem.ToLine();
}

TEST(OperandEnds, NoFormGoesPastThem) {
  Execution by_reference;
  by_reference.algorithm = "reference";
  for (const OpInfo& op : AllOps()) {
    const std::span<const char* const> convolutions =
        op.depthwise ? std::span<const char* const>(kDepthwise) : kConvolutions;
    for (const char* dtype : {"float32", "float64", "bfloat16"}) {
      for (const char* convolution : convolutions) {
        const Problem problem =
            ParseProblem(std::string(op.name) + " " + dtype + " " + convolution);
        const testing::Operands operands =
            testing::RandomOperands(problem, 1, testing::Values::kOrdinary);
        const Tensor expected = Compute(problem, operands.first, operands.second, by_reference);
        for (const KernelTable& kernels : SupportedKernels()) {
          for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
            if (!algorithm.can(problem, kernels)) continue;
            SCOPED_TRACE(algorithm.name);
            ComputeBeforeGuards(problem, operands, expected, algorithm, kernels);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace convgrad
