#include "cli/text/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/text/trim.h"

namespace convgrad::cli {
namespace {

std::string Given(const std::string& flag, std::string_view text) {
  return fmt::format("{} '{}'", flag, text.substr(0, 100));
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

enum class Fault { kNone, kSyntax, kRange };

Fault ReadInteger(std::string_view text, int64_t& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) return Fault::kRange;
  return error == std::errc() && stop == end ? Fault::kNone : Fault::kSyntax;
}

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kMemoryUnits[] = {
    {"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
};
constexpr Unit kPercentUnits[] = {{"%", 0.01}};
constexpr Unit kTimeUnits[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"min", 60}};

// A decimal number with one of the units after it.
std::optional<double> ReadAmount(const std::string& text, std::span<const Unit> units) {
  double amount = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, amount, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view name = Trim({stop, static_cast<size_t>(end - stop)});
  for (const Unit& unit : units) {
    if (name == unit.name) return amount * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

int64_t ParseInteger(const std::string& flag, std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  const Fault fault = ReadInteger(text, value);
  if (fault == Fault::kSyntax) {
    ThrowUsage("flag/value", Given(flag, text), "is not a whole number");
  }
  if (fault == Fault::kRange || value < low || value > high) {
    ThrowUsage("flag/value", Given(flag, text), "is out of range",
               fmt::format("give a number from {} to {}", low, high));
  }
  return value;
}

int64_t ParseMemory(const std::string& flag, const std::string& text) {
  const std::optional<double> bytes = ReadAmount(text, kMemoryUnits);
  if (!bytes) {
    ThrowUsage("flag/value", Given(flag, text), "is no size of memory", "give e.g. 8GiB or 500MB");
  }
  if (!(*bytes >= 1 && *bytes < 0x1p62)) {
    ThrowUsage("flag/value", Given(flag, text), "is out of range",
               "give at least one byte, and less than 4194304TiB");
  }
  return static_cast<int64_t>(*bytes);
}

double ParsePercent(const std::string& flag, const std::string& text, double low, double high) {
  const std::optional<double> part = ReadAmount(text, kPercentUnits);
  if (!part) ThrowUsage("flag/value", Given(flag, text), "is no percentage", "give e.g. 5%");
  if (!(*part >= low && *part <= high)) {
    ThrowUsage("flag/value", Given(flag, text), "is out of range",
               fmt::format("give {}% to {}%", 100 * low, 100 * high));
  }
  return *part;
}

double ParseSeconds(const std::string& flag, const std::string& text, double low, double high) {
  const std::optional<double> seconds = ReadAmount(text, kTimeUnits);
  if (!seconds) {
    ThrowUsage("flag/value", Given(flag, text), "is no time", "give e.g. 2s, 0.5 or 500ms");
  }
  if (!(*seconds >= low && *seconds <= high)) {
    ThrowUsage("flag/value", Given(flag, text), "is out of range",
               fmt::format("give {} to {} seconds", low, high));
  }
  return *seconds;
}

bool IsSameWord(std::string_view first, std::string_view second) {
  return Lower(first) == Lower(second);
}

size_t ParseChoice(const std::string& flag, const std::string& text,
                   std::span<const std::string_view> choices) {
  for (size_t i = 0; i < choices.size(); ++i) {
    if (IsSameWord(text, choices[i])) return i;
  }
  const auto nearest = Nearest(text, choices);
  const std::string list = fmt::format("{}", fmt::join(choices, ", "));
  ThrowUsage("flag/value", Given(flag, text), "is no choice",
             nearest ? fmt::format("did you mean {}? The choices: {}", *nearest, list)
                     : fmt::format("use one of: {}", list));
}

DType ParseFloatType(const std::string& flag, const std::string& text) {
  struct Alias {
    std::string_view name;
    DType dtype;
  };
  constexpr Alias kAliases[] = {
      {"half", DType::kFloat16},  {"f16", DType::kFloat16},    {"fp16", DType::kFloat16},
      {"bf16", DType::kBFloat16}, {"float", DType::kFloat32},  {"f32", DType::kFloat32},
      {"fp32", DType::kFloat32},  {"double", DType::kFloat64}, {"f64", DType::kFloat64},
      {"fp64", DType::kFloat64},
  };
  std::string bare = Lower(text);
  for (const std::string_view prefix : {"torch.", "tf.", "np.", "numpy.", "jnp.", "ml_dtypes."}) {
    if (bare.starts_with(prefix)) bare.erase(0, prefix.size());
  }
  for (const Alias& alias : kAliases) {
    if (bare == alias.name) return alias.dtype;
  }
  std::vector<std::string_view> names;
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.is_float) names.push_back(info.name);
  }
  return *ParseDType(names[ParseChoice(flag, bare, names)]);
}

std::string Plural(int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string FormatValue(double value, DType dtype) {
  const bool is_narrow = InfoOf(dtype).is_float && dtype != DType::kFloat64;
  return is_narrow ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

}  // namespace convgrad::cli
