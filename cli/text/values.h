// Values of flags: numbers, lists, sizes of memory, choices. Independent of the locale; every
// refusal names the flag and what would do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace convgrad::cli {

// A whole number in [low, high].
int64_t ParseInteger(const std::string& flag, std::string_view text, int64_t low, int64_t high);

// "8GiB", "500MB", "1.5GiB" or a number of bytes; at least 1.
int64_t ParseMemory(const std::string& flag, const std::string& text);

// "5%", "0.5 %": the part, 0.05 or 0.005, in [low, high].
double ParsePercent(const std::string& flag, const std::string& text, double low, double high);

// "2", "0.5s", "500ms", "1min": seconds, in [low, high].
double ParseSeconds(const std::string& flag, const std::string& text, double low, double high);

// The same whatever the letter case, of ASCII letters.
bool IsSameWord(std::string_view first, std::string_view second);

// The index of `text` in `choices`, whatever the letter case.
size_t ParseChoice(const std::string& flag, const std::string& text,
                   std::span<const std::string_view> choices);

// "float32", or a name that other programs have for a type: float, f32, torch.float32. Must name
// one with a point.
DType ParseFloatType(const std::string& flag, const std::string& text);

// "1 case", "3 cases".
std::string Plural(int64_t count, std::string_view word);

// The fewest digits that `dtype` reads back as the same value.
std::string FormatValue(double value, DType dtype);

}  // namespace convgrad::cli
