// Number formats as kernels keep them in memory. Arithmetic is done in float or int32; ptx.h converts.
#pragma once

#include <cstdint>

namespace tessera::cuda {

struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};
// 4 bits of exponent, 3 of mantissa; no infinities, not-a-number is S.1111.111.
struct Float8E4M3 {
  std::uint8_t bits;
};
// 5 bits of exponent, 2 of mantissa, as IEEE 754.
struct Float8E5M2 {
  std::uint8_t bits;
};

// Describes a matrix in global memory to the tensor memory accelerator. The driver fills it (cuTensorMapEncodeTiled),
// or the emulation.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

}  // namespace tessera::cuda
