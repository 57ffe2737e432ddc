// Architectures: 75 80 86 89 90a 100 120
// Gate: quantize_linear registers 64 shared 0 instruction FRND
// Gate: dequantize_linear registers 64 shared 0 instruction STG
#include <math.h>

#include "backends/cuda/kernels/quantisation/quantisation.h"

namespace tessera::cuda {
namespace {

__device__ __forceinline__ std::int64_t scale_of(const ScaleLayout& layout, std::int64_t element) {
  if (layout.kind == ScaleLayout::Kind::per_tensor) return 0;
  const std::int64_t row = element / layout.inner, along = row % layout.length;
  if (layout.kind == ScaleLayout::Kind::per_axis) return along;
  return (row / layout.length * layout.blocks + along / layout.block_size) * layout.inner + element % layout.inner;
}

__device__ __forceinline__ float real_at(const void* x, StoredType type, std::int64_t at) {
  if (type == StoredType::f16) return to_float(static_cast<const Float16*>(x)[at]);
  if (type == StoredType::bf16) return to_float(static_cast<const Bfloat16*>(x)[at]);
  return static_cast<const float*>(x)[at];
}

__device__ __forceinline__ void store_real(void* y, StoredType type, std::int64_t at, float value) {
  if (type == StoredType::f16) static_cast<Float16*>(y)[at] = from_float<Float16>(value);
  else if (type == StoredType::bf16) static_cast<Bfloat16*>(y)[at] = from_float<Bfloat16>(value);
  else static_cast<float*>(y)[at] = value;
}

__device__ __forceinline__ std::int64_t quantised_at(const void* x, StoredType type, std::int64_t at) {
  if (type == StoredType::i8) return static_cast<const std::int8_t*>(x)[at];
  if (type == StoredType::u8) return static_cast<const std::uint8_t*>(x)[at];
  if (type == StoredType::i16) return static_cast<const std::int16_t*>(x)[at];
  if (type == StoredType::u16) return static_cast<const std::uint16_t*>(x)[at];
  return static_cast<const std::int32_t*>(x)[at];
}

__device__ __forceinline__ float rounded_to(StoredType type, float value) {
  if (type == StoredType::f16) return to_float(from_float<Float16>(value));
  return type == StoredType::bf16 ? to_float(from_float<Bfloat16>(value)) : value;
}

// Stores a whole number after limiting it to the range of an integer of 8 or 16 bits.
__device__ __forceinline__ void store_saturated(void* y, StoredType type, std::int64_t at, float value) {
  const bool is_signed = type == StoredType::i8 || type == StoredType::i16;
  const bool is_byte = type == StoredType::i8 || type == StoredType::u8;
  const float range = is_byte ? 256.0f : 65536.0f, low = is_signed ? -range / 2 : 0.0f;
  const int limited = static_cast<int>(fminf(fmaxf(value, low), low + range - 1));
  if (is_byte) static_cast<std::uint8_t*>(y)[at] = static_cast<std::uint8_t>(limited);
  else static_cast<std::uint16_t*>(y)[at] = static_cast<std::uint16_t>(limited);
}

__device__ __forceinline__ std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * kQuantisationThreads + threadIdx.x;
}
__device__ __forceinline__ std::int64_t elements_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * kQuantisationThreads;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kQuantisationThreads)
    quantize_linear(const __grid_constant__ QuantisationParameters p) {
  for (std::int64_t i = first_element(); i < p.count; i += elements_of_grid()) {
    const std::int64_t at = scale_of(p.layout, i);
    const float quotient = rounded_to(p.precision, real_at(p.x, p.real, i) / real_at(p.scale, p.scale_type, at));
    const float zero = p.zero_point != nullptr ? static_cast<float>(quantised_at(p.zero_point, p.integer, at)) : 0.0f;
    store_saturated(p.y, p.integer, i, quotient == quotient ? rintf(quotient) + zero : zero);
  }
}

extern "C" __global__ void __launch_bounds__(kQuantisationThreads)
    dequantize_linear(const __grid_constant__ QuantisationParameters p) {
  for (std::int64_t i = first_element(); i < p.count; i += elements_of_grid()) {
    const std::int64_t at = scale_of(p.layout, i);
    const std::int64_t zero = p.zero_point != nullptr ? quantised_at(p.zero_point, p.integer, at) : 0;
    const std::int64_t steps = quantised_at(p.x, p.integer, i) - zero;
    const float scale = real_at(p.scale, p.scale_type, at);
    // Differences of 32-bit integers are not exact in float.
    const float value = p.integer == StoredType::i32 ? static_cast<float>(static_cast<double>(steps) * scale)
                                                     : static_cast<float>(steps) * scale;
    store_real(p.y, p.real, i, value);
  }
}

}  // namespace tessera::cuda
