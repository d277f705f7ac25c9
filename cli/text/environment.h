// Variables of the environment.
#pragma once

#include <string>

namespace convgrad::cli {

// The variable's value, or null where it is not set.
const char* FindVariable(const char* name);

// The same, empty where it is not set.
std::string Variable(const char* name);

}  // namespace convgrad::cli
