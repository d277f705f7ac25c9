#include "cli/text/unicode.h"

#include <fmt/format.h>

#include "base/error.h"

namespace convgrad::cli {
namespace {

int SequenceBytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

// Neither overlong, nor a surrogate, nor beyond U+10FFFF.
bool IsLegalSecond(unsigned char lead, unsigned char second) {
  switch (lead) {
    case 0xE0: return second >= 0xA0;
    case 0xED: return second < 0xA0;
    case 0xF0: return second >= 0x90;
    case 0xF4: return second < 0x90;
    default: return true;
  }
}

// Bytes of the valid sequence at `at`, else 0.
int ValidBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[at + k]); };
  const int count = SequenceBytes(byte(0));
  if (count == 0 || at + count > text.size()) return 0;
  for (int k = 1; k < count; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return 0;
  }
  return count == 1 || IsLegalSecond(byte(0), byte(1)) ? count : 0;
}

}  // namespace

std::string ToValidUtf8(const std::string& text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) {
    const int count = ValidBytes(text, at);
    if (count > 0) {
      valid.append(text, at, count);
      at += count;
    } else {
      valid += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at++]));
    }
  }
  return EscapeControls(valid);
}

bool IsValidUtf8(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const int count = ValidBytes(text, at);
    if (count == 0) return false;
    at += count;
  }
  return true;
}

}  // namespace convgrad::cli
