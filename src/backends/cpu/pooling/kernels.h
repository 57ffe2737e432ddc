// The functions, factories and reject rules that pooling/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// pool_f32
std::string reject_pool_f32(const ops::NodeView& view);
KernelPointer make_max_pool_f32(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_average_pool_f32(const ops::NodeView& view, WeightStore& weights);

// max_pool_rows
std::string reject_max_pool_bytes(const ops::NodeView& view);
KernelPointer make_max_pool_bytes(const ops::NodeView& view, WeightStore& weights);
std::string reject_max_pool_bf16(const ops::NodeView& view);
KernelPointer make_max_pool_bf16(const ops::NodeView& view, WeightStore& weights);

// max_pool_gradient_f32
std::string reject_max_pool_gradient_f32(const ops::NodeView& view);
KernelPointer make_max_pool_gradient_f32(const ops::NodeView& view, WeightStore& weights);

// average_pool_gradient_f32
std::string reject_average_pool_gradient_f32(const ops::NodeView& view);
KernelPointer make_average_pool_gradient_f32(const ops::NodeView& view, WeightStore& weights);

// channels_first_pool_f32
std::string reject_channels_first_pool_f32(const ops::NodeView& view);
std::string reject_channels_first_global_pool_f32(const ops::NodeView& view);
KernelPointer make_channels_first_max_pool_f32(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_channels_first_average_pool_f32(const ops::NodeView& view, WeightStore& weights);
void channels_first_global_average_pool_f32(KernelContext& context);
void channels_first_global_max_pool_f32(KernelContext& context);

}  // namespace tessera::backends::cpu
