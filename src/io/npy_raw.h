// Element types that NumPy lacks, in .npy arrays of raw bytes ('V'), as the package ml_dtypes writes them: bfloat16 in
// two bytes; 8-bit floats, and one float or integer of 4 or 2 bits (low bits of the byte), in one. Such a header does
// not say which type of its size it is: two bytes are bfloat16, the others need a word from whoever reads them.
#pragma once

#include <string_view>

#include "tessera/tensor.h"

namespace tessera::io {

// The name of the type in ml_dtypes ("bfloat16"); empty for types that NumPy has itself.
std::string_view ml_dtypes_name(DType type);
inline bool is_raw_type(DType type) {
  return !ml_dtypes_name(type).empty();
}

// One byte an element -> a tensor of `type`, which is_raw_type and has at most 8 bits, packed as Tensor packs it.
// Negative integers may be extended with their sign. Throws Error(invalid_argument) for a byte that is none of its
// values.
Tensor from_raw_bytes(const Tensor& bytes, DType type);

// The inverse: one byte an element, zero above its bits. A tensor of another type is returned as it is.
Tensor to_raw_bytes(const Tensor& tensor);

}  // namespace tessera::io
