// One way to compute one problem, ready to be run again and again: what the programs here time.
// Must not know which problems, nor how the times are presented.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conv/compute.h"

namespace convgrad::peers {

class Contestant {
 public:
  virtual ~Contestant() = default;
  // From operands to result, both plain tensors of the problem's shapes: the part that is timed.
  virtual void Run() = 0;
  // The result of the last Run.
  virtual const Tensor& Result() const = 0;
  // Which algorithm or formats, in a few words.
  virtual std::string How() const = 0;
};

// The operands must outlive what these return.
std::unique_ptr<Contestant> MakeConvgrad(const Problem& problem, const Tensor& first,
                                         const Tensor& second, const Execution& execution);

// Every way that oneDNN offers: plain formats throughout, its own format for the filter, its own
// for all tensors (reordered inside Run). Primitives and scratch are made here, once. Empty, with
// the reason in `refusal`, where it has none, or where the program was built without it.
std::vector<std::unique_ptr<Contestant>> MakeOneDnn(const Problem& problem, const Tensor& first,
                                                    const Tensor& second, int num_threads,
                                                    std::string& refusal);

// "oneDNN 2.6.3"; empty where the program was built without it.
std::string OneDnnName();

// Milliseconds of single runs, at least one, until `seconds` have gone by.
std::vector<double> TimeRuns(Contestant& contestant, double seconds);

double Median(std::vector<double> values);

// The largest difference, in units of the largest magnitude of `expected`. Operands of small
// integers have sums that every order and every accumulator of 32 bits holds exactly: then it is 0,
// or one rounding of a 16-bit type.
double WorstDifference(const Tensor& actual, const Tensor& expected);

// WorstDifference may be as large as this: a wrong stride, pad or transposed filter is far beyond.
double AllowedDifference(DType dtype);

}  // namespace convgrad::peers
