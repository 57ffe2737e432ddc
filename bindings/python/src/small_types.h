// Element types of less than a byte: Tessera packs them, low bits first; ml_dtypes keeps one in each byte.
#pragma once

#include "tessera/tensor.h"

namespace tessera::python {

// `bytes`: u8, one element in the low bits of each.
Tensor packed(const Tensor& bytes, DType dtype);
// u8, one element in each, with the sign of signed integers in the upper bits.
Tensor unpacked(const Tensor& tensor);

}  // namespace tessera::python
