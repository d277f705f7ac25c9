// A case as it is written for another program: its problem, where its operands come from, and the
// command that judges what the other program makes of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/case/case.h"
#include "cli/console/console.h"
#include "files/tensor_path.h"
#include "problem/geometry.h"
#include "verify/truth/fill.h"

namespace convgrad::cli {

struct ExportOperand {
  Role role = Role::kInput;
  Shape shape;                   // as the case has it: a filter in its filter format
  std::optional<FillSpec> fill;  // none: a file
  uint64_t seed = 0;             // of the fill
  TensorPath path = {};
};

struct ExportCase {
  std::string dialect;
  std::string name;
  Problem problem;
  FilterFormat filter_format = FilterFormat::kHWIO;
  std::array<ExportOperand, 2> operands;
  std::string check_line;  // without --actual

  // Throws usage "export/unsupported".
  [[noreturn]] void Refuse(const std::string& why) const;
};

// Reads headers of operands, no more. Throws usage, data and I/O errors.
ExportCase MakeExportCase(const std::string& dialect, const std::string& program,
                          const CaseRequest& request, const Console& console);

// A case in the words of each dialect, as Dialect::write gives it.
std::string WriteBenchdnnLine(const ExportCase& one);
std::string WriteMiopenLine(const ExportCase& one);
std::string WritePyTorchScript(const ExportCase& one);
std::string WriteTensorFlowScript(const ExportCase& one);
std::string WriteJaxScript(const ExportCase& one);
std::string WriteOnnxScript(const ExportCase& one);

}  // namespace convgrad::cli
