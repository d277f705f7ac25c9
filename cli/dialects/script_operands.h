// The part that all exported Python scripts share: NumPy that makes or loads the operands, and
// saves the result.
#pragma once

#include <string>

#include "cli/dialects/export_case.h"

namespace convgrad::cli {

// Imports, `imports` of the framework among them, and functions, then a line for each operand,
// which is called as its role. A bfloat16 one is a float32 array with bfloat16 values.
std::string ScriptHead(const ExportCase& one, const std::string& imports);

// Saves `result`, a NumPy array, and prints the command that judges it.
std::string ScriptTail(const ExportCase& one);

// A text as a literal of Python.
std::string PythonString(const std::string& text);
// "(2, 3)".
std::string PythonTuple(const Shape& shape);

}  // namespace convgrad::cli
