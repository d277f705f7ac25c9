// Why a golden is wrong: tries the usual mistakes one by one and names the one that explains every
// element of the golden, or none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"

namespace convgrad {

// A golden that differs from what it should be.
struct WrongGolden {
  const Problem& problem;
  const Tensor& first;
  const Tensor& second;
  const Tensor& actual;  // the right result
  const Tensor& golden;
  std::optional<DType> accumulator;  // what its maker is said to have summed in
  int64_t max_terms = INT64_MAX;     // of a problem on which a hypothesis may be tried in full
  int64_t spare_bytes = INT64_MAX;   // for a changed copy of the operands
};

struct Diagnosis {
  std::string hypothesis;  // a short name that stays: "filter-flipped"
  bool exactly = false;    // every element is the exact value, rounded once; else within its bound
  std::string sentence;    // what is the matter and what to do
  std::vector<std::string> also;  // names of others that explain it as well
};

// The hypothesis of a golden that is right and differs in the last bits only.
inline constexpr const char* kRightGolden = "summation-order";

// The simplest mistake that explains all elements of the golden while the right result does not;
// none if there is no such, or if so few elements tell them apart that chance could.
// docs/design/error-bound.md has the rules.
std::optional<Diagnosis> Diagnose(const WrongGolden& wrong, const Parallel& parallel);

}  // namespace convgrad
