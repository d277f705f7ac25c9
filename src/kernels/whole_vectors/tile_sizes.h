// The tables of tiles, made from lists of their sizes.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

namespace convgrad {

struct TileSize {
  int rows, cols;
};

// A tile of each size, in their order.
template <class Tile, template <class, int, int> class Kernel, class Element, const auto& kSizes>
std::span<const Tile> TilesOfSizes() {
  static constexpr auto kTiles = []<size_t... i>(std::index_sequence<i...>) {
    return std::array{Tile{kSizes[i].rows, kSizes[i].cols,
                           Kernel<Element, kSizes[i].rows, kSizes[i].cols>::Run}...};
  }
  (std::make_index_sequence<std::size(kSizes)>());
  return kTiles;
}

}  // namespace convgrad
