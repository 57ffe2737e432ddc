// The emulation's form of a TensorMap, and the checks that the driver makes when it encodes one.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/number_types.h"

namespace tessera::emulation {

// A row-major matrix in global memory of which boxes are copied. Elements outside it are read as zero.
struct TiledMatrix {
  std::uint64_t base = 0;               // the address, a multiple of 16
  std::uint64_t width = 0, height = 0;  // in elements
  std::uint64_t stride_bytes = 0;       // from row to row, a multiple of 16
  std::uint32_t element_bytes = 0;
  std::uint32_t box_width = 0, box_height = 0;  // in elements, at most 256; a row of the box is a multiple of 16 bytes
  std::uint32_t swizzle_bytes = 0;              // 0, 32, 64 or 128: the span in which 16-byte units are exchanged
};

// Throws std::invalid_argument with the rule that the matrix breaks.
cuda::TensorMap encode_tensor_map(const TiledMatrix& matrix);
TiledMatrix decode_tensor_map(const cuda::TensorMap& map);

// The place of byte `offset` of shared memory under a swizzle: within spans of 128, 64 or 32 bytes, the number of a
// 16-byte unit is combined by exclusive or with the number of the 128-byte row (of which there are 8, 4 or 2).
std::uint32_t swizzled(std::uint32_t offset, unsigned swizzle_bytes);

}  // namespace tessera::emulation
