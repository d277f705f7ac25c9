// A case as a function's call: tensors of the caller's memory go in, a tensor or a verdict comes
// out. Attributes are read by the tables of the command line. Must not know who calls.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/report/report.h"
#include "tensor/tensor.h"

namespace convgrad::cli {

struct Call {
  std::string op;
  // Flags by their keys, with values as a command line has them: {"strides", "1,2,2,1"}.
  std::vector<std::pair<std::string, std::string>> arguments;
  // Tensors by the keys of the flags that would name their files: "out_backprop", "actual".
  std::vector<std::pair<std::string, Tensor>> tensors;
};

// Computes what the command `run` would write. Throws usage, data and I/O errors.
Tensor ComputeCall(const Call& call);

struct CallVerdict {
  CaseRecord entry;  // with what the command `check` would report
  std::string text;  // for people: what it would print
};

// The verdict on the tensor `actual`. `keep_errors`: with CheckResult::errors. Throws as above.
CallVerdict CheckCall(const Call& call, bool keep_errors);

// Text of an error that names flags, with arguments in their places: "max_memory" for
// "--max-memory".
std::string NameArguments(const std::string& text);

}  // namespace convgrad::cli
