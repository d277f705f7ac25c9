#include "cli/text/operand_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "files/tensor_path.h"

namespace convgrad::cli {
namespace {

struct Word {
  std::string_view text;
  Role role;
};

// People call the tensors so.
constexpr Word kWords[] = {
    {"input", Role::kInput},      {"inputs", Role::kInput},
    {"image", Role::kInput},      {"images", Role::kInput},
    {"x", Role::kInput},          {"filter", Role::kFilter},
    {"filters", Role::kFilter},   {"weight", Role::kFilter},
    {"weights", Role::kFilter},   {"kernel", Role::kFilter},
    {"w", Role::kFilter},         {"backprop", Role::kOutBackprop},
    {"grad", Role::kOutBackprop}, {"gradient", Role::kOutBackprop},
    {"dout", Role::kOutBackprop}, {"dy", Role::kOutBackprop},
};

// The parts of a file's name between anything but letters, in lower case.
std::vector<std::string> WordsOf(const std::string& path) {
  std::vector<std::string> words(1);
  for (const char letter : path.substr(path.find_last_of('/') + 1)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalpha(byte) != 0) {
      words.back() += static_cast<char>(std::tolower(byte));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

}  // namespace

std::optional<Role> RoleInName(const std::string& text) {
  const TensorPath path = ParseTensorPath(text);
  std::optional<Role> role;
  for (const std::string& word : WordsOf(path.name.value_or(path.file))) {
    const auto* known = std::find_if(std::begin(kWords), std::end(kWords),
                                     [&](const Word& one) { return one.text == word; });
    if (known == std::end(kWords)) continue;
    if (role && *role != known->role) return std::nullopt;
    role = known->role;
  }
  return role;
}

}  // namespace convgrad::cli
