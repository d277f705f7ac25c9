// Lists of whole numbers as people write them, and as Python prints them: 1,2,2,1 or [1, 2, 2, 1]
// or (1, 1), and lists of pairs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convgrad::cli {

struct NumberList {
  std::vector<int64_t> values;
  bool in_pairs = false;  // [[0,0],[1,1]]: then an even number of values
};

// Blanks are fine, an empty text is an empty list. Throws usage "flag/value" that names the flag.
NumberList ParseNumberList(const std::string& flag, std::string_view text);

// The same where pairs have no meaning.
std::vector<int64_t> ParseIntegers(const std::string& flag, std::string_view text);

// True if the text of a flag that takes words or numbers is meant to be numbers.
bool LooksLikeNumbers(std::string_view text);

}  // namespace convgrad::cli
