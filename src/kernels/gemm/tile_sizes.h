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

// A tile of each size, in their order. A column of a size is kNumbers columns of the tile.
template <class Tile, template <class, int, int> class Kernel, class Element, const auto& kSizes,
          int kNumbers = 1>
std::span<const Tile> TilesOfSizes() {
  static constexpr auto kTiles = []<size_t... i>(std::index_sequence<i...>) {
    return std::array{Tile{kSizes[i].rows, kSizes[i].cols * kNumbers,
                           Kernel<Element, kSizes[i].rows, kSizes[i].cols>::Run}...};
  }
  (std::make_index_sequence<std::size(kSizes)>());
  return kTiles;
}

}  // namespace convgrad
