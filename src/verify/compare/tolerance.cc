#include "verify/compare/tolerance.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace convgrad {
namespace {

constexpr const char* kForms = "use auto, bits, ulp:N, abs:X, rel:X or rtol:X,atol:Y";

[[noreturn]] void Refuse(std::string_view text, const std::string& why) {
  ThrowUsage("tolerance/syntax", fmt::format("tolerance '{}'", text), why, kForms);
}

// A finite number >= 0, all of `text`.
double ParseAmount(std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    Refuse(whole, fmt::format("'{}' is out of range", text));
  if (error != std::errc() || end != text.data() + text.size()) {
    Refuse(whole, fmt::format("'{}' is not a number", text));
  }
  if (!std::isfinite(value)) Refuse(whole, fmt::format("'{}' is not finite", text));
  if (std::signbit(value)) Refuse(whole, fmt::format("'{}' is negative", text));
  return value;
}

uint64_t ParseUlps(std::string_view text, std::string_view whole) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    Refuse(whole, fmt::format("'{}' is not a whole number of ULPs", text));
  }
  return value;
}

// The text behind `key` and a colon, if it starts with them.
std::optional<std::string_view> After(std::string_view text, std::string_view key) {
  if (text.size() <= key.size() || text.substr(0, key.size()) != key || text[key.size()] != ':') {
    return std::nullopt;
  }
  return text.substr(key.size() + 1);
}

// "rtol:X,atol:Y" in either order, each once.
Tolerance ParseNumpy(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) Refuse(text, "both rtol and atol are needed");
  std::string_view parts[] = {text.substr(0, comma), text.substr(comma + 1)};
  if (After(parts[0], "atol")) std::swap(parts[0], parts[1]);
  const auto relative = After(parts[0], "rtol"), absolute = After(parts[1], "atol");
  if (!relative || !absolute) Refuse(text, "it is not one rtol and one atol");
  Tolerance tolerance;
  tolerance.kind = Tolerance::Kind::kNumpy;
  tolerance.relative = ParseAmount(*relative, text);
  tolerance.absolute = ParseAmount(*absolute, text);
  return tolerance;
}

}  // namespace

std::string Tolerance::ToString() const {
  switch (kind) {
    case Kind::kAuto: return "auto";
    case Kind::kBits: return "bits";
    case Kind::kUlp: return fmt::format("ulp:{}", ulp);
    case Kind::kAbs: return fmt::format("abs:{}", absolute);
    case Kind::kRel: return fmt::format("rel:{}", relative);
    case Kind::kNumpy: return fmt::format("rtol:{},atol:{}", relative, absolute);
  }
  ThrowInternal("unknown kind of tolerance");
}

const char* Tolerance::Measure() const {
  switch (kind) {
    case Kind::kAbs: return "abs";
    case Kind::kRel: return "rel";
    case Kind::kNumpy: return "tolerance";
    case Kind::kAuto:
    case Kind::kBits:
    case Kind::kUlp: break;
  }
  return "ulp";
}

double Tolerance::Limit() const {
  switch (kind) {
    case Kind::kUlp: return static_cast<double>(ulp);
    case Kind::kAbs: return absolute;
    case Kind::kRel: return relative;
    case Kind::kNumpy: return 1;
    case Kind::kAuto:
    case Kind::kBits: break;
  }
  return 0;
}

Tolerance ParseTolerance(std::string_view text) {
  using Kind = Tolerance::Kind;
  Tolerance tolerance;
  if (text == "auto") return tolerance;
  if (text == "bits") {
    tolerance.kind = Kind::kBits;
  } else if (const auto ulp = After(text, "ulp")) {
    tolerance.kind = Kind::kUlp;
    tolerance.ulp = ParseUlps(*ulp, text);
  } else if (const auto absolute = After(text, "abs")) {
    tolerance.kind = Kind::kAbs;
    tolerance.absolute = ParseAmount(*absolute, text);
  } else if (const auto relative = After(text, "rel")) {
    tolerance.kind = Kind::kRel;
    tolerance.relative = ParseAmount(*relative, text);
  } else if (After(text, "rtol") || After(text, "atol")) {
    return ParseNumpy(text);
  } else {
    Refuse(text, "unknown kind of tolerance");
  }
  return tolerance;
}

Accumulator ParseAccumulator(std::string_view text) {
  if (text == "f16") return DType::kFloat16;
  if (text == "bf16") return DType::kBFloat16;
  if (text == "tf32") return {DType::kFloat32, /*tf32=*/true};
  if (text == "f32") return DType::kFloat32;
  if (text == "f64") return DType::kFloat64;
  ThrowUsage("accumulator/unknown", fmt::format("golden accumulator '{}'", text),
             "there is no such type", "use one of: f16, bf16, tf32, f32, f64");
}

}  // namespace convgrad
