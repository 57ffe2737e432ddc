// The arguments of the kernels of quantisation.h.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/element_wise/typed_parameters.h"

namespace tessera::cuda {

inline constexpr int kQuantisationThreads = 256;

// The scale of element i, of a tensor [outer, length, inner], is the one at
//   0                                               per_tensor
//   along                                           per_axis
//   [outer, along / block_size, inner]              blocked, of a tensor [outer, blocks, inner]
// Zero points have the scale's layout.
struct ScaleLayout {
  enum class Kind : int { per_tensor, per_axis, blocked } kind;
  std::int64_t length, inner, blocks, block_size;
};

// Quantising: y = saturate(round_half_even(x / scale) + zero_point); not-a-number gives the zero point.
// Dequantising: y = (x - zero_point) × scale.
struct QuantisationParameters {
  const void *x, *scale;
  const void* zero_point;  // of the integers' type; null: 0
  void* y;
  std::int64_t count;
  ScaleLayout layout;
  StoredType real, scale_type, integer;  // of the real operand, of the scale, of the integers
  StoredType precision;                  // that quotients are rounded to: f32, f16 or bf16
};

}  // namespace tessera::cuda
