// JSON as the tool writes it: objects keep the order of their keys. The library's parser and writer
// are templates of which each file would compile its own: text is read and written here alone.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace convgrad::cli {

using Json = nlohmann::ordered_json;

// How deeply values may be nested: what compares and writes them calls itself for each level.
inline constexpr int kMaxJsonDepth = 64;

// Throws Json::exception unless `text` is one JSON value, nested no deeper.
Json ParseJson(std::string_view text);
// Likewise, but gives a discarded value instead.
Json TryParseJson(std::string_view text);

// The words of an exception of the library, without its number.
std::string WhyOf(const Json::exception& exception);

// On one line; with an `indent` on many, each ended.
std::string DumpJson(const Json& json);
std::string DumpJson(const Json& json, int indent);

}  // namespace convgrad::cli
