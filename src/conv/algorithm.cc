#include "conv/algorithm.h"

#include <vector>

#include "conv/reference.h"

namespace convgrad {

std::span<const Algorithm> AlgorithmsOf(Op /*op*/) {
  static const std::vector<Algorithm> algorithms = {kReferenceAlgorithm};
  return algorithms;
}

}  // namespace convgrad
