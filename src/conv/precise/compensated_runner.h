// The sums of all elements in twice double's precision, with how large their terms were: of every
// type, operation, layout and stride alike. Operands are packed, a few of their numbers at a time,
// into small matrices of doubles that the kernel of kernels/gemm/compensated.h multiplies; so
// memory is bounded and everything about convolutions is in the packing. Must not know what the
// sums are for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "conv/plan/algorithm.h"

namespace convgrad {

// high + low is the sum r of an element's products but for 2 * ((K+4) * 2^-53)^2 * S, and (K+1) *
// 2^-1074 if products have underflowed; infinite or NaN where the data are, or a sum left double's
// range, and in some elements beside such data. A chain of compensated additions (algorithm Dot2 of
// Ogita, Rump and Oishi) in the order of order/compensated_chain.h; their propositions 5.5 and 5.7.
struct ElementSum {
  double high, low;
  double magnitude;  // S: sum of |x*y|
  double squares;    // sum of (x*y)^2
  int64_t terms;     // K: products on the input
};

class CompensatedRunner {
 public:
  CompensatedRunner(const Problem& problem, const KernelTable& kernels);
  // With the best kernels of this machine.
  explicit CompensatedRunner(const Problem& problem)
      : CompensatedRunner(problem, SupportedKernels().front()) {}

  // visit(begin, sums) for pieces [begin, begin + sums.size()) that cover all elements of the
  // result once, from several threads at once. `first` and `second` are the operands in the order
  // of InfoOf(problem.op).operands.
  using Visit = std::function<void(int64_t begin, std::span<const ElementSum> sums)>;
  void ForEachPiece(const void* first, const void* second, const Parallel& parallel,
                    const Visit& visit) const;

  static int64_t ScratchBytes(int num_threads);
  // "64x256 sums, 128 terms at a time".
  static std::string DescribeTiles(const Problem& problem);

 private:
  const Problem problem_;
  const KernelTable& kernels_;
};

}  // namespace convgrad
