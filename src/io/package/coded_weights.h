// The codec of weights that are mostly zero and otherwise have few different values (Han et al., arXiv:1510.00149,
// section 4): per tensor a codebook, and Huffman codes of each nonzero weight's index in it and of the number of zeros
// before it. Decoding restores the exact bits. docs/package.md has the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::io {

// The data of a tensor at their offset in the raw section.
struct WeightPiece {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  int element_bytes = 0;  // 1 or 4: of elements that may share values; 0: the bytes are kept as they are
};

// Encodes pieces, which must be in ascending order and not overlap. A piece with more than 256 different values besides
// zero, or that would not become smaller, is stored unchanged.
std::vector<std::byte> encode_weights(const std::vector<WeightPiece>& pieces);

// Decodes the raw section of `raw_bytes` bytes, with zeros between the pieces, 64-byte aligned. Decodes on all idle
// cores. Throws Error: invalid_model (truncated, impossible codes, indices out of range), over_budget.
Tensor decode_weights(std::span<const std::byte> stored, std::uint64_t raw_bytes);

}  // namespace tessera::io
