#include "cli/page/page.h"

#include <cstdint>

#include "base/error.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

constexpr size_t kMostBytes = size_t{2} << 20;

int DigitOf(char letter) {
  return letter <= '9' ? letter - '0' : letter - 'a' + 10;
}

// Base64 of a number in hexadecimal of an even count of digits.
std::string Base64Of(const std::string& hexadecimal) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char letter : hexadecimal) {
    bits = bits << 4 | static_cast<uint32_t>(DigitOf(letter));
    num_bits += 4;
    if (num_bits < 6) continue;
    num_bits -= 6;
    text += kLetters[bits >> num_bits & 63];
  }
  if (num_bits > 0) text += kLetters[bits << (6 - num_bits) & 63];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

// As a browser checks what it runs: whatever a report's text may become, it is no such script.
std::string PolicyHash(std::string_view text) {
  return "'sha256-" + Base64Of(Sha256(text.data(), static_cast<int64_t>(text.size()))) + "'";
}

// `page` with what belongs in the place of each mark.
std::string Filled(std::string_view page,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> parts) {
  std::string text;
  for (const auto& [mark, part] : parts) {
    const size_t at = page.find(mark);
    if (at == std::string_view::npos) ThrowInternal("a mark is missing in the page");
    text.append(page.substr(0, at)).append(part);
    page.remove_prefix(at + mark.size());
  }
  return text.append(page);
}

}  // namespace

std::string RenderPage(const PageData& data) {
  const PageParts& parts = PartsOfPage();
  const size_t own = parts.html.size() + parts.style.size() + parts.script.size() + 1024;
  return Filled(parts.html, {{"{style-hash}", PolicyHash(parts.style)},
                             {"{script-hash}", PolicyHash(parts.script)},
                             {"{style}", parts.style},
                             {"{data}", data.Render(kMostBytes - own)},
                             {"{script}", parts.script}});
}

}  // namespace convgrad::cli
