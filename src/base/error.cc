#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace convgrad {
namespace {

// Bytes of the UTF-8 sequence of a bidirectional control or line separator at `at`, else 0:
// U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069, all E2 80 xx or E2 81 xx.
int HiddenControlBytes(const std::string& text, size_t at) {
  if (at + 2 >= text.size() || static_cast<unsigned char>(text[at]) != 0xE2) return 0;
  const unsigned second = static_cast<unsigned char>(text[at + 1]);
  const unsigned third = static_cast<unsigned char>(text[at + 2]);
  if (second == 0x80 && (third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE)))
    return 3;
  if (second == 0x81 && third >= 0xA6 && third <= 0xA9) return 3;
  return 0;
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
  for (size_t at = 0; at < text.size(); ++at) {
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    const int hidden = HiddenControlBytes(text, at);
    if (byte < 0x20 || byte == 0x7F) {
      escaped += fmt::format("\\x{:02x}", byte);
    } else if (hidden > 0) {
      for (int k = 0; k < hidden; ++k) {
        escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + k]));
      }
      at += hidden - 1;
    } else {
      escaped += text[at];
    }
  }
  return escaped;
}

Error::Error(ExitCode exit_code, std::string code, const std::string& what, const std::string& why,
             const std::string& fix)
    : exit_code_(exit_code), code_(std::move(code)) {
  message_ = fmt::format("{}: {}{}{}", EscapeControls(what), EscapeControls(why),
                         fix.empty() ? "" : "; ", EscapeControls(fix));
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
