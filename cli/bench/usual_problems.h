// Problems that stand for what networks have, two of each operation, layout and type that most
// have: what `tune` measures without a manifest.
#pragma once

#include <span>

namespace convgrad::cli {

// Lines that ParseProblem takes.
std::span<const char* const> UsualProblems();

}  // namespace convgrad::cli
