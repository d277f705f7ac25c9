// Values of flags: numbers, lists, sizes of memory, choices. Independent of the locale; every
// refusal names the flag and what would do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace convgrad::cli {

// A whole number in [low, high].
int64_t ParseInteger(const std::string& flag, std::string_view text, int64_t low, int64_t high);

// "1,2,2,1"; blanks around the numbers are fine, an empty text is an empty list.
std::vector<int64_t> ParseIntegers(const std::string& flag, std::string_view text);

// "8GiB", "500MB", "1.5GiB" or a number of bytes; at least 1.
int64_t ParseMemory(const std::string& flag, const std::string& text);

// "5%", "0.5 %": the part, 0.05 or 0.005, in [low, high].
double ParsePercent(const std::string& flag, const std::string& text, double low, double high);

// "2", "0.5s", "500ms", "1min": seconds, in [low, high].
double ParseSeconds(const std::string& flag, const std::string& text, double low, double high);

// The index of `text` in `choices`, letter case counting.
size_t ParseChoice(const std::string& flag, const std::string& text,
                   std::span<const std::string_view> choices);

// The fewest digits that `dtype` reads back as the same value.
std::string FormatValue(double value, DType dtype);

}  // namespace convgrad::cli
