// Kernels of layers as indirect products of their windows (window_plan.h), with bias, addend and activation:
// convolutions as well as products with a matrix of weights. The operands of the layer's node are in the order of
// ChannelsLastConv and Linear, or of QuantisedConv and QuantisedLinear.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/backend.h"
#include "backends/cpu/products/line_kernel.h"
#include "backends/cpu/products/windows/window_plan.h"

namespace tessera::backends::cpu {

// Weights and bias may be variables, except for run_lines. `packing` names the layout that the layer's strides lead to.
std::unique_ptr<LineKernel> make_window_product_f32(const ops::NodeView& view, WeightStore& store,
                                                    const WindowLayer& layer, std::string_view packing);

// Data and weights are rounded to bfloat16 (ops/products/rounded_product.h).
std::unique_ptr<LineKernel> make_window_product_bf16(const ops::NodeView& view, WeightStore& store,
                                                     const WindowLayer& layer);
// Returns "" or why no kernel that rounds to bfloat16 takes the layer's operands.
std::string reject_operands_bf16(const ops::NodeView& view);

// 8-bit data and int8 weights with integer sums. Operands must pass reject_operands_s8 (result_s8.h).
KernelPointer make_window_product_s8(const ops::NodeView& view, WeightStore& store, const WindowLayer& layer);

}  // namespace tessera::backends::cpu
