// Text from outside made fit for JSON and terminals.
#pragma once

#include <string>

namespace convgrad::cli {

// `text` as valid UTF-8: bytes that are none, control characters and hidden direction marks become
// \xNN.
std::string ToValidUtf8(const std::string& text);

bool IsValidUtf8(const std::string& text);

}  // namespace convgrad::cli
