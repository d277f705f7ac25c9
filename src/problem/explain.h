// Window arithmetic in words, for error messages and for `plan`.
#pragma once

#include <string>
#include <vector>

#include "problem/geometry.h"
#include "problem/window.h"

namespace convgrad {

// "(56 + pads 0+1 - filter 3 + stride 2) / 2 = 28", or for SAME "ceil(56 / stride 2) = 28, pads
// 0+1".
std::string ExplainOutputSize(const Window& window);

// The input sizes that lead to `out`: "55 to 56", "56", or "" if there are none.
std::string InputSizesInWords(int64_t out, const Window& window);

// How the output's height and width and the pads of a problem come about, a line each:
// "height: ceil(56 / stride 2) = 28, pads 0+1".
std::vector<std::string> ExplainSizes(const Problem& problem);

}  // namespace convgrad
