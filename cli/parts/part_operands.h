// Parts held against the operands that they are said to be of.
#pragma once

#include <string>

#include "cli/case/operands.h"
#include "cli/parts/part_list.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"

namespace convgrad::cli {

// The operand of that role with all its images, or the filter in our order, which `path` names:
// reads those images of it that the parts have. Throws data "part/operand-changed" naming the part
// whose images, or filter, are others; "operand/mismatch" for another type or shape.
void CheckOperand(const PartList& parts, Role role, const std::string& path, const Tensor& tensor);

// Says whether a part has what these operands, which are loaded, give a new one for their images:
// the hashes of the images, and of samples of all.
bool IsPartOf(const PartHeader& header, const Operands& operands);

}  // namespace convgrad::cli
