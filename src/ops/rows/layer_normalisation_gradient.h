// Gradients of LayerNormalization and RMSNormalization, which recompute the statistics of each row while it is in the
// cache.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// tessera::LayerNormalizationGradient(dY, X, Scale) → dX, dScale, dB. Rows are all axes from `axis` on, and Scale has
// their shape. With x̂ = (X − mean) / sqrt(variance + epsilon), g = dY Scale and means over a row:
//   dX = (g − mean g − x̂ mean(g x̂)) / sqrt(variance + epsilon); dScale = Σ dY x̂ and dB = Σ dY over all rows.
// X and dY have one shape; what is computed in between is never narrower than float32.
extern const OpDef layer_normalization_gradient;

// tessera::RMSNormalizationGradient(dY, X, Scale) → dX, dScale: the same for x̂ = X / sqrt(mean X² + epsilon), with
//   dX = (g − x̂ mean(g x̂)) / sqrt(mean X² + epsilon).
extern const OpDef rms_normalization_gradient;

// Sets the gradients of a LayerNormalization or RMSNormalization to these operators. Returns false and sets nothing if
// the scale or the bias has another shape than the rows, or the element types differ.
bool set_row_gradients(GradientContext& context);

}  // namespace tessera::ops
