// One case as the user described it: operation, attributes, where operands come from, and how to
// run it. Checked word by word; whether the parts fit together is MakeProblem's business.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/arguments.h"
#include "cli/options/commands.h"
#include "cli/options/flag_values.h"
#include "conv/compute.h"
#include "problem/geometry.h"
#include "tensor/npy.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

// A case as it was asked for, by a command line or by a manifest.
struct CaseRequest {
  CommandId command = CommandId::kRun;  // or kCheck, kPlan: which flags have an effect
  std::string op;
  Place op_place;
  FlagValues flags;
};

struct CaseSpec {
  ConvSpec conv;  // op and attributes; types and shapes follow from the operands
  std::optional<DType> dtype;
  // A path, "-" or fill:SPEC for each of InfoOf(op).operands.
  std::array<std::string, 2> operands;
  // Tensors instead, of a caller in this process; `operands` is then what messages call them.
  std::array<std::optional<Tensor>, 2> operands_in_memory;
  std::string sizes;  // inline or a path; empty for an op without
  uint64_t seed = 0;
  bool allow_trailing = false;
  std::optional<bool> use_cudnn_on_gpu;
  std::string name;  // empty: the problem's own line
  Execution execution;

  std::optional<std::string> images;  // --images as given
  std::optional<std::string> output;  // a path or "-"
  NpyWriteOptions write;

  bool is_checked = false;            // the command is `check`
  std::optional<std::string> actual;  // a path or "-": what is under test instead of our result
  std::optional<Tensor> actual_in_memory;  // `actual` is then what messages call it
  std::vector<std::string> actual_parts;   // paths: the same for some images each; none: not given
  std::optional<std::string> expect;       // a path or sha256:HASH; neither: the built-in reference
  // Not a hash.
  bool NamesGoldenFile() const;
  std::string golden_name;  // `expect` as its manifest has it, relative to the manifest
  CompareOptions compare;
  bool probe = false;
  bool invariance = false;  // with or without actual_parts
  bool allow_suspect = false;
};

// The case of a command that takes OP.
CaseRequest RequestOf(const Arguments& arguments);

// Throws usage errors that name the flag, and its place in a manifest.
CaseSpec ParseCase(const CaseRequest& request);

// Throws as ParseCase.
Op ParseOpOf(const CaseRequest& request);

// Throws the usage error `code` about `what` for a name that is empty, too long or has control
// characters.
void CheckCaseName(const std::string& code, const std::string& what, const std::string& name);

// True if the operation takes its operand or sizes from this flag, and for every other flag.
bool TakesFlag(Op op, FlagId id);

// "--out-backprop".
std::string FlagOf(Role role);

}  // namespace convgrad::cli
