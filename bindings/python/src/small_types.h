// Converts element types of less than a byte: Tessera packs them, low bits first; ml_dtypes stores one per byte.
#pragma once

#include "tessera/tensor.h"

namespace tessera::python {

// `bytes` is u8 with one element in the low bits of each byte.
Tensor packed(const Tensor& bytes, DType dtype);
// A u8 tensor with one element per byte; signed integers are sign-extended.
Tensor unpacked(const Tensor& tensor);

}  // namespace tessera::python
