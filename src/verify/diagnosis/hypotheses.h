// The usual mistakes of those who write kernels and of those who port models, as a table: for each,
// what its maker would have computed in place of the right result. Must not judge which of them
// explains a golden: diagnosis.h does.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "problem/geometry.h"
#include "tensor/dtype.h"
#include "verify/truth/distance.h"

namespace convgrad {

// Which element of a tensor is seen at a position; -1: none, there is a zero.
using Source = std::function<int64_t(int64_t position)>;
// The place of a result's element that is none: the number there says nothing.
inline constexpr int64_t kAnything = -2;
// Changes the number at an element.
using Change = std::function<double(int64_t element, double value)>;

// The number that has these bits.
template <class Stored>
double FromBits(uint64_t bits) {
  return Widen(std::bit_cast<Stored>(static_cast<BitsOfStored<Stored>>(bits)));
}

// A tensor as somebody saw it.
struct View {
  Source source;  // null: every element where it is
  Change change;  // null: numbers as they are

  double At(int64_t position, const auto* elements) const {
    const int64_t element = source ? source(position) : position;
    const double value = element < 0 ? 0 : Widen(elements[element]);
    return change ? change(element, value) : value;
  }
};

// A number that was added to a sum, as a golden tells it: within `slack` of `value`.
struct Bias {
  double value = 0, slack = 0;
};

// The last step from the exact sum to the number that is stored.
enum class Finish {
  kRounded,     // to nearest
  kTruncated,   // towards zero
  kFlushed,     // to nearest, subnormal numbers to zero
  kRectified,   // to nearest, negative numbers to zero, those beyond the ceiling to it
  kNarrowSums,  // no exact sum: each sum on the way rounded, in an order that is not known
};

// The computation that was done instead.
struct Alternative {
  // The right computation, to be changed in one respect.
  explicit Alternative(const Problem& right) : problem(right), stored(right.dtype) {}

  // Sizes are those of tensors that exist, or of an operand that `source` makes larger; pads,
  // strides and dilations need not fit them.
  Problem problem;
  bool operands_are_swapped = false;
  View first, second;  // of the problem's operands, after swapping
  Source result;       // the element of its result that the golden shows at a position
  // The golden's numbers before they were misread, from their bits; null: as they are.
  std::function<double(uint64_t bits)> golden;
  double factor = 1;                           // of every sum
  std::function<Bias(int64_t position)> bias;  // added to a position's sum; null: none
  int64_t fitted = 0;                          // numbers of the bias, each read from the golden
  Finish finish = Finish::kRounded;
  double ceiling = std::numeric_limits<double>::infinity();  // for kRectified
  // The golden's numbers all are of this type, at most as wide as its own.
  DType stored;
  // Given where it differs from what the golden's maker is said to sum in.
  std::optional<DType> accumulator;
};

struct Hypothesis {
  std::string name;      // "filter-flipped"
  std::string sentence;  // what is the matter and what to do
  Alternative alternative;
};

// All that apply to a problem, simple ones first.
std::vector<Hypothesis> AllHypotheses(const Problem& problem);

// Its parts, in that order.
void AddAttributes(const Problem& problem, std::vector<Hypothesis>& hypotheses);
void AddRearrangements(const Problem& problem, std::vector<Hypothesis>& hypotheses);
void AddRelayoutsAndShifts(const Problem& problem, std::vector<Hypothesis>& hypotheses);
void AddOmissions(const Problem& problem, std::vector<Hypothesis>& hypotheses);
void AddScalings(const Problem& problem, std::vector<Hypothesis>& hypotheses);
void AddActivations(const Problem& problem, std::vector<Hypothesis>& hypotheses);
void AddRoundings(const Problem& problem, std::vector<Hypothesis>& hypotheses);

// Padding as terms, which only shows where an operand is infinite or NaN.
void AddMultipliedPadding(const Problem& problem, std::vector<Hypothesis>& hypotheses);

// Two mistakes at once, of those that often come together.
std::vector<Hypothesis> LikelyPairs(const Problem& problem);

// Where `role` is the result of the problem, the golden is what was mistaken, else an operand.
bool IsResult(const Problem& problem, Role role);
// The operand's view in `alternative`.
View& ViewOf(Alternative& alternative, Role role);

}  // namespace convgrad
