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
  // The golden before it was rounded to the problem's type; null where it has that type.
  const Tensor* as_given = nullptr;
};

struct Diagnosis {
  std::string hypothesis;  // a short name that stays: "filter-flipped"
  bool exactly = false;    // every element is the exact value, rounded once; else within its bound
  std::string sentence;    // what is the matter and what to do
  std::vector<std::string> also;  // names of others that explain it as well
  bool bit_for_bit = false;       // an arithmetic is known that gives its numbers
  bool looks = false;             // an arithmetic is known whose errors look like its own
  bool is_mistake = true;  // else arithmetic that may be meant: only its precision is another
};

// "bit for bit", "exactly", "within its bound" or "by its looks".
const char* ExplainsHow(const Diagnosis& diagnosis);

// The hypothesis of a golden that is right and differs in the last bits only.
inline constexpr const char* kRightGolden = "summation-order";

// The simplest mistake that explains all elements of the golden while the right result does not;
// none if there is no such, or if so few elements tell them apart that chance could.
// docs/design/error-bound.md has the rules.
//
// Where none of the usual mistakes explains it, or only one of arithmetic within its bound, the
// arithmetic itself is looked for (verify/arithmetic/search.h). `untried`, if given, is set to a
// sentence where that search had to leave models out.
std::optional<Diagnosis> Diagnose(const WrongGolden& wrong, const Parallel& parallel,
                                  std::string* untried = nullptr);

// A sentence about a golden, said to the one who made the tensor: "yours has the larger pad".
std::string ToItsMaker(std::string sentence);

}  // namespace convgrad
