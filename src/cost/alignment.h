// The utilisation of a device's matrix units by a matrix product: alignment of its operands, partial tiles at its
// edges, and waves of tiles (a product is computed in tiles of the result, one tile per multiprocessor in each wave).
// Rules of alignment: NVIDIA, "Matrix Multiplication Background User's Guide" and "Tips for Optimizing GPU Performance
// Using Tensor Cores".
#pragma once

#include <string>
#include <vector>

#include "cost/profile.h"
#include "cost/work.h"

namespace tessera::cost {

struct AlignmentPadding {
  const char* dimension = "";  // "M", "N", "K", "input channels", "output channels"
  std::int64_t from = 0, to = 0;
};

struct Alignment {
  bool applies = false;               // a product that matrix units compute
  bool aligned = false;               // M, N and K (of a convolution: the channels) are multiples of `multiple`
  std::int64_t multiple = 0;          // elements in 16 bytes: 8 of 16 bits, 16 of 8 bits, 4 of tf32
  std::int64_t best_multiple = 0;     // elements in 128 bytes
  Tile tile;                          // that such a product runs with, predicted
  std::int64_t tiles = 0, waves = 0;  // with the slices of K that fill the first wave
  double tile_utilisation = 1;        // of the tiles' area, what lies within the result
  double wave_utilisation = 1;        // of the multiprocessors' turns, those that have a tile
  double aligned_share = 1;           // the device's misaligned_share where N or K is misaligned, else 1
  double utilisation() const { return tile_utilisation * wave_utilisation * aligned_share; }
  std::vector<AlignmentPadding> misaligned;  // with the next multiple of each
};

// Elements that a dimension should be a multiple of: of 16 bytes, or of `bytes`.
std::int64_t alignment_multiple(Precision precision, std::int64_t bytes = 16);

Alignment align(const Work& work, const DeviceProfile& device);

// The work with the model's own dimensions (those of weights) padded to multiples; nothing when they are already.
// Padding costs arithmetic and bytes.
std::optional<Work> padded(const Work& work, std::int64_t multiple);

}  // namespace tessera::cost
