// tessera::AveragePoolGradient, the transpose of AveragePool, and the gradients of pooling that are built with it.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

struct WindowAxis;

extern const OpDef average_pool_gradient;

// The elements that the average of output position `o` of an axis divides by: those within the input, or with
// count_include_pad those within the padded input.
std::int64_t averaged_taps(const WindowAxis& axis, std::int64_t o, bool include_padding);

void average_gradient(GradientContext& context);     // of AveragePool
void lp_pool_gradient(GradientContext& context);     // of LpPool
void global_lp_gradient(GradientContext& context);   // of GlobalLpPool
void max_unpool_gradient(GradientContext& context);  // of MaxUnpool

}  // namespace tessera::ops
