// The nearest of some names to a misspelt one, for error messages. Knows nothing of what is named.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace convgrad {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, letter case
// ignored. At most about 100 characters of each count, so that a hostile name costs nothing.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, if it is near enough to be what was meant; the first of equals.
std::optional<std::string_view> Nearest(std::string_view name,
                                        std::span<const std::string_view> candidates);

}  // namespace convgrad
