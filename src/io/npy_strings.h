// Strings of .npy arrays: fixed-width cells of UCS-4 ('U') or bytes ('S'), padded with NULs.
#pragma once

#include <cstddef>

#include "tessera/tensor.h"

namespace tessera::io {

// A string tensor from cells of `item_bytes` bytes in row-major order; `unit` bytes a character: 4 for 'U' (native byte
// order), 1 for 'S'. Trailing NULs are dropped. Throws Error(invalid_argument) on what is no Unicode character.
Tensor strings_from_npy(const std::byte* cells, const Shape& shape, std::size_t item_bytes, std::size_t unit);

// u32 [elements, longest] of code points, padded with zeros; longest is at least 1.
// Throws Error(invalid_argument) when a string is not UTF-8, and over_budget when the padded cells are beyond 1 GiB.
Tensor to_code_points(const Tensor& strings);

}  // namespace tessera::io
