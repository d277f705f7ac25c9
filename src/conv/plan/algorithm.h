// What an algorithm is, and the ordered lists to choose from.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/parallel.h"
#include "kernels/kernel_table.h"
#include "problem/geometry.h"
#include "problem/precision.h"

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
};

// All algorithms of one precision give the same bits for the problems they accept (at standard
// precision those of the canonical order), on every table and any number of threads. An algorithm
// writes every element of the result.
struct Algorithm {
  const char* name;
  const char* summary;  // one line for people: when it is the right one
  bool (*accepts)(const Problem& problem, const KernelTable& kernels);
  // A rough count of what a run takes, for one thread, of a problem that is accepted and has terms.
  // Null: it is the choice wherever it is the first that accepts.
  double (*cycles)(const Problem& problem, const KernelTable& kernels) = nullptr;
  // Bytes it allocates besides operands and result, at most.
  int64_t (*scratch_bytes)(const Problem& problem, const KernelTable& kernels, int num_threads);
  // Tiles and blocks it would use, for `plan`, e.g. "6x64 pixels x channels, 3 blocks".
  std::string (*tiles)(const Problem& problem, const KernelTable& kernels);
  void (*run)(const ConvArgs& args);
};

// Best first, but for neighbours that count cycles. The last, "reference", accepts everything.
std::span<const Algorithm> AlgorithmsOf(Op op, Precision precision = Precision::kStandard);

// The first that accepts a problem on a table; if it counts cycles, the one that counts fewest of
// those that do.
const Algorithm& BestAlgorithm(const Problem& problem, const KernelTable& kernels,
                               Precision precision = Precision::kStandard);

// Whether there is anything to add up. Without elements on all three sides there isn't, and an
// empty sum is +0.
bool HasTerms(const Problem& problem);

}  // namespace convgrad
