#include "base/nearest.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace convgrad {
namespace {

constexpr size_t kMaxCompared = 100;

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  a = a.substr(0, kMaxCompared);
  b = b.substr(0, kMaxCompared);
  // Rows i-2, i-1 and i of the table of distances between prefixes.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
                           Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string_view> Nearest(std::string_view name,
                                        std::span<const std::string_view> candidates) {
  std::optional<std::string_view> nearest;
  size_t best = SIZE_MAX;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  // Farther than a third of its letters, or with none of them in place, it is another word, not a
  // misspelling.
  if (!nearest || best >= name.size()) return {};
  if (best > std::max<size_t>(2, std::max(name.size(), nearest->size()) / 3)) return {};
  return nearest;
}

}  // namespace convgrad
