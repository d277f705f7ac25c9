// Reads what a .npy header's `descr` says about the elements. Must not know files or the rest of
// the header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace convgrad {

// The meaning of a descr, or why it has none for us: then `error_code` is set ("npy/dtype...").
struct DescrMeaning {
  DType dtype = DType::kFloat32;
  bool swapped = false;  // big-endian
  std::string warning;
  std::string error_code;
  std::string why;
  std::string fix;
};

// `descr` is the string of a plain type. `view_as` is what two-byte elements without a
// floating-point type mean.
DescrMeaning InterpretDescr(std::string_view descr, std::optional<DType> view_as);

// A descr that is no string, as text whose syntax has been checked: always an error.
DescrMeaning InterpretComposedDescr(std::string_view value);

}  // namespace convgrad
