// Guesses what the user may have meant by shapes that do not fit: tries the usual mistakes one by
// one and names the first that would fit. Runs only on the way to an error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "problem/geometry.h"
#include "problem/window.h"

namespace convgrad {

using IsLegal = std::function<bool(const ConvSpec&)>;

// Mixed-up layouts, swapped operands, another op: a sentence, or "" when none would fit. All
// shapes in `spec` have 4 dimensions.
std::string SuggestOtherMeaning(const ConvSpec& spec, const IsLegal& is_legal);

// Another padding, stride or dilation that gives the wanted output size, or any legal one where
// none is wanted; "" when there is none.
struct WantedWindows {
  Window rows, cols;
  std::optional<int64_t> out_h, out_w;
};
std::string SuggestOtherAttributes(const ConvSpec& spec, const WantedWindows& wanted,
                                   const IsLegal& is_legal);

}  // namespace convgrad
