// Numbers that tests of any folder name.
#pragma once

#include <limits>

namespace convgrad::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace convgrad::testing
