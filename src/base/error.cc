#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace convgrad {
namespace {

// Bytes of the control at `at`, 0 if there is none: of an ASCII one; in UTF-8, of U+0080 to U+009F
// (U+009B is an escape with a bracket), of a bidirectional control (U+061C, U+200E, U+200F, U+202A
// to U+202E, U+2066 to U+2069) or of a line separator (U+2028, U+2029).
int ControlBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t k) -> unsigned {
    return at + k < text.size() ? static_cast<unsigned char>(text[at + k]) : 0;
  };
  const auto is_from = [](unsigned value, unsigned low, unsigned high) {
    return value >= low && value <= high;
  };
  if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
  if (byte(0) == 0xC2 && is_from(byte(1), 0x80, 0x9F)) return 2;
  if (byte(0) == 0xD8 && byte(1) == 0x9C) return 2;
  if (byte(0) != 0xE2) return 0;
  if (byte(1) == 0x80 && (is_from(byte(2), 0x8E, 0x8F) || is_from(byte(2), 0xA8, 0xAE))) return 3;
  return byte(1) == 0x81 && is_from(byte(2), 0xA6, 0xA9) ? 3 : 0;
}

}  // namespace

ExitCode Worse(ExitCode a, ExitCode b) {
  using enum ExitCode;
  if (static_cast<int>(a) > 128 || static_cast<int>(b) > 128) return std::max(a, b);
  for (const ExitCode code : {kInternal, kIo, kData, kUsage, kWrong, kNothingRan, kSlow}) {
    if (a == code || b == code) return code;
  }
  return kOk;
}

std::optional<ExitCode> ToExitCode(int64_t number) {
  constexpr int64_t kMost = 255;  // that a process can give
  if (number < 0 || number > kMost) return std::nullopt;
  const auto code = static_cast<ExitCode>(number);
  if (Worse(ExitCode::kOk, code) != code) return std::nullopt;
  return code;
}

std::string EscapeControls(const std::string& text) {
  std::string escaped;
  for (size_t at = 0; at < text.size();) {
    const int control = ControlBytes(text, at);
    if (control == 0) escaped += text[at++];
    for (int k = 0; k < control; ++k) {
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at++]));
    }
  }
  return escaped;
}

Error::Error(ExitCode exit_code, std::string code, const std::string& what, const std::string& why,
             const std::string& fix)
    : exit_code_(exit_code), code_(std::move(code)), fix_(EscapeControls(fix)) {
  message_ = fmt::format("{}: {}{}{}", EscapeControls(what), EscapeControls(why),
                         fix_.empty() ? "" : "; ", fix_);
}

void ThrowUsage(const std::string& code, const std::string& what, const std::string& why,
                const std::string& fix) {
  throw Error(ExitCode::kUsage, code, what, why, fix);
}

void ThrowData(const std::string& code, const std::string& what, const std::string& why,
               const std::string& fix) {
  throw Error(ExitCode::kData, code, what, why, fix);
}

void ThrowIo(const std::string& code, const std::string& what, const std::string& why,
             const std::string& fix) {
  throw Error(ExitCode::kIo, code, what, why, fix);
}

void ThrowInternal(const std::string& why) {
  throw Error(ExitCode::kInternal, "internal", "internal error", why,
              "please report it with the command line");
}

}  // namespace convgrad
