// Sizes of tile registers (tile_product.h), and the rows of A that they load. Self-contained, as indirect_product_s8.h.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileBytes = 64;               // of a row
inline constexpr std::int64_t kTileGroups = kTileBytes / 4;  // groups of a row of A, rows of B
inline constexpr std::int64_t kProductRows = 2 * kTileRows;  // of a product, at most
inline constexpr std::int64_t kPanelColumns = 32;

// The rows of a tile of A, a constant distance apart; in bytes.
struct TileRowsAt {
  const std::uint8_t* data;
  std::int64_t stride;
};

// The rows of both tiles in one segment, or in all segments if copies put them side by side.
struct TileRun {
  TileRowsAt at[2];
};

}  // namespace tessera::backends::cpu
