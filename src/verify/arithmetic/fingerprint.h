// The description of an arithmetic that was recognised.
#pragma once

#include <optional>
#include <string>

#include "verify/arithmetic/model.h"

namespace convgrad {

struct Fingerprint {
  std::string words;  // "All 256 elements: 64 partials in bfloat16, in order"
  ModelKind kind;
  bool bit_for_bit = true;     // else its errors look like it
  std::optional<Model> model;  // none for what is no sum of the definition's terms
};

}  // namespace convgrad
