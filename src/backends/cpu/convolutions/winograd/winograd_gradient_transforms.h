// Transforms for the gradient of a convolution's weights by Winograd's F(4 × 4, 3 × 3), the transpose of
// winograd_transforms.h: where a tile of the result is y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A, the gradient of the weights g is
// Gᵀ [Σ (Bᵀ d B) ⊙ (A e Aᵀ)] G, with e the gradient of the tile, summed over all tiles.
#pragma once

#include <cstdint>

#include "backends/cpu/convolutions/winograd/winograd_transforms.h"

namespace tessera::backends::cpu {

// The sums of the 36 parts for some neighbouring inputs and one output, and the destination of the weights' gradient.
struct WinogradSums {
  const float* parts = nullptr;  // part p of input c at parts[p * stride + c]
  std::int64_t stride = 0, inputs = 0;
  float* weights = nullptr;  // tap t < 9 of input c at weights[c * taps + t]
  std::int64_t taps = 9;     // per input, over all axes
};

struct WinogradGradientFunctions {
  // Computes A e Aᵀ of a tile of 4 × 4 elements; `top` and `left` locate its first element in the slice.
  void (*transform_gradient)(const WinogradPatch&);
  void (*collect_weights)(const WinogradSums&);
};

// Returns the functions of the active instruction set.
const WinogradGradientFunctions& winograd_gradient_functions();

}  // namespace tessera::backends::cpu
