// Creates the convolutions that can be stages of a chain (conv_chain.cpp). They also serve as kernels of whole layers.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cpu/products/line_kernel.h"

namespace tessera::backends::cpu {

std::unique_ptr<LineKernel> make_line_conv_f32(const ops::NodeView& view, WeightStore& weights);
std::unique_ptr<LineKernel> make_line_conv_bf16(const ops::NodeView& view, WeightStore& weights);
std::unique_ptr<LineKernel> make_line_depthwise_f32(const ops::NodeView& view, WeightStore& weights);
// For data that is stored in bfloat16.
std::unique_ptr<LineKernel> make_line_depthwise_bf16(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
