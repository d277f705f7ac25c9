// A convolution that is planned, and the data that it is run on. Planning decides everything that
// can be decided before the data are seen; running is arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "base/parallel.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

// One computation: elements in C order of the problem's shapes and type. Of the three tensors the
// operation's direction names the result; `result` is it and its operand pointer is null.
struct ConvArgs {
  const Problem& problem;
  const void* input;
  const void* filter;
  const void* out_backprop;
  void* result;
  const KernelTable& kernels;
  const Parallel& parallel;

  const void* OperandOf(Role role) const {
    return role == Role::kInput ? input : role == Role::kFilter ? filter : out_backprop;
  }
  // The operand that a sum over taps reads beside the filter.
  const void* Source(bool forward) const { return forward ? input : out_backprop; }
};

// Made for one problem, table of kernels and number of threads, and run with these, any number of
// times, by one caller at a time or by several.
class Plan {
 public:
  Plan() = default;
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Bytes that Run allocates besides operands and result, at most.
  virtual int64_t ScratchBytes() const = 0;
  // The work of Run, for the cost model.
  virtual Work CountWork() const { return {}; }
  // The tiles and blocks for people, e.g. "6x64 pixels x channels, 3 blocks".
  virtual std::string Tiles() const = 0;
  // Writes every element of the result. False where the data forbid this form (an infinity that
  // would meet padding): another form has to compute, and writes every element anew.
  virtual bool Run(const ConvArgs& args) const = 0;
};

}  // namespace convgrad
