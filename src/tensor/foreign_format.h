// Files that people take for a tensor's by mistake.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace convgrad {

constexpr int64_t kForeignBytes = 64;  // of a file's start: enough to tell

// Says what a file that starts so is, and what to do about it; "" where it is unknown.
std::string ForeignFormatOf(std::string_view start);

}  // namespace convgrad
