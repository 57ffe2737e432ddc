// The header of an .npy array: a Python dictionary literal with the keys 'descr', 'fortran_order' and 'shape'.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/tensor.h"

namespace tessera::io {

struct NpyHeader {
  DType dtype = DType::undefined;  // string for 'U' and 'S'; of raw bytes ('V') bf16 for two, u8 for one
  char kind = 0;                   // numpy's kind: one of "biufcUSV"
  std::int64_t item_bytes = 0;     // bytes of one element in the file
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

// Parses the dictionary (padding and newline included). Throws Error(invalid_argument) with what was found.
NpyHeader parse_npy_header(std::string_view text);

}  // namespace tessera::io
