#include "cli/dialects/dialect.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"

namespace convgrad::cli {
namespace {

constexpr Dialect kDialects[] = {
    {"onednn", "lines that oneDNN prints with ONEDNN_VERBOSE", false, MakeOneDnnReader, nullptr,
     true},
    {"benchdnn", "problem descriptors and command lines of benchdnn --conv", false,
     MakeBenchdnnReader, WriteBenchdnnLine, true},
    {"pytorch", "operator inputs that PyTorch logs; a script", false, MakePyTorchReader,
     WritePyTorchScript, false},
    {"miopen", "command lines of MIOpenDriver", false, MakeMiopenReader, WriteMiopenLine, true},
    {"cudnn", "JSON graphs of cuDNN's frontend with a single convolution", true, MakeCudnnReader,
     nullptr, false},
    {"hipdnn", "JSON graphs of hipDNN with a single convolution", true, MakeHipdnnReader, nullptr,
     false},
    {"tensorflow", "a script", false, nullptr, WriteTensorFlowScript, false},
    {"jax", "a script", false, nullptr, WriteJaxScript, false},
    {"onnx", "a script that runs a model of one node Conv; forward alone", false, nullptr,
     WriteOnnxScript, false},
};

}  // namespace

std::span<const Dialect> AllDialects() {
  return kDialects;
}

const Dialect& FindDialect(const std::string& name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const Dialect& dialect : kDialects) {
    if (name == dialect.name) return dialect;
    names.emplace_back(dialect.name);
    list += (list.empty() ? "" : ", ") + std::string(dialect.name);
  }
  const auto nearest = Nearest(name, names);
  ThrowUsage("dialect/unknown", fmt::format("dialect '{}'", name.substr(0, 100)),
             "there is no such dialect",
             nearest ? fmt::format("did you mean {}?", *nearest) : "the dialects are " + list);
}

}  // namespace convgrad::cli
