// Conversions between float32 and the 16-bit floats, rounding to nearest even. NaN stays NaN, and what is too large
// becomes infinity. f16: IEEE 754-2019 binary16. bf16: the upper half of binary32.
#pragma once

#include <span>

#include "tessera/export.h"
#include "tessera/tensor.h"

namespace tessera {

TESSERA_API float to_float(f16_t value);
TESSERA_API float to_float(bf16_t value);
TESSERA_API f16_t to_f16(float value);
TESSERA_API bf16_t to_bf16(float value);

// Convert all elements of a span. Throw Error(invalid_argument) when the spans differ in length.
TESSERA_API void to_float(std::span<const f16_t> from, std::span<float> to);
TESSERA_API void to_float(std::span<const bf16_t> from, std::span<float> to);
TESSERA_API void to_f16(std::span<const float> from, std::span<f16_t> to);
TESSERA_API void to_bf16(std::span<const float> from, std::span<bf16_t> to);

}  // namespace tessera
