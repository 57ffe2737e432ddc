// What convolutions/kernel_table.cpp lists: for each kernel file its functions, factories and reject rules, under the
// file's stem.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// conv
KernelPointer make_conv(const ops::NodeView& view, WeightStore& weights);

// conv_depthwise
std::string reject_depthwise_conv(const ops::NodeView& view);
KernelPointer make_depthwise_conv(const ops::NodeView& view, WeightStore& weights);

// conv_transpose
std::string reject_conv_transpose(const ops::NodeView& view);
KernelPointer make_conv_transpose(const ops::NodeView& view, WeightStore& weights);

// channels_last_conv
std::string reject_channels_last_conv(const ops::NodeView& view);
KernelPointer make_channels_last_conv(const ops::NodeView& view, WeightStore& weights);
std::string reject_channels_last_depthwise(const ops::NodeView& view);
std::string reject_indirect_linear(const ops::NodeView& view);
KernelPointer make_indirect_linear(const ops::NodeView& view, WeightStore& weights);

// bf16_product
std::string reject_bf16_operands(const ops::NodeView& view);  // what all of them need
std::string reject_bf16_conv(const ops::NodeView& view);
KernelPointer make_bf16_conv(const ops::NodeView& view, WeightStore& weights);
std::string reject_bf16_linear(const ops::NodeView& view);
KernelPointer make_bf16_linear(const ops::NodeView& view, WeightStore& weights);

// conv_depthwise_bf16
std::string reject_bf16_depthwise(const ops::NodeView& view);
KernelPointer make_bf16_depthwise(const ops::NodeView& view, WeightStore& weights);

// conv_s8
std::string reject_quantised_conv(const ops::NodeView& view);
KernelPointer make_quantised_conv(const ops::NodeView& view, WeightStore& weights);
std::string reject_quantised_linear(const ops::NodeView& view);
KernelPointer make_quantised_linear(const ops::NodeView& view, WeightStore& weights);

// conv_depthwise_s8
std::string reject_quantised_depthwise(const ops::NodeView& view);
KernelPointer make_quantised_depthwise(const ops::NodeView& view, WeightStore& weights);

// channels_last_conv_transpose
std::string reject_channels_last_conv_transpose(const ops::NodeView& view);
KernelPointer make_channels_last_conv_transpose(const ops::NodeView& view, WeightStore& weights);

// channels_last_winograd
std::string reject_channels_last_winograd(const ops::NodeView& view);
std::string avoid_channels_last_winograd(const ops::NodeView& view);
std::string reject_bf16_winograd(const ops::NodeView& view);
std::string avoid_bf16_winograd(const ops::NodeView& view);
KernelPointer make_channels_last_winograd(const ops::NodeView& view, WeightStore& weights);

// conv_chain
std::string reject_conv_chain(const ops::NodeView& view);
KernelPointer make_conv_chain(const ops::NodeView& view, WeightStore& weights);

// channels_last_window
KernelPointer make_channels_last_depthwise(const ops::NodeView& view, WeightStore& weights);
std::string reject_channels_last_pool(const ops::NodeView& view);
KernelPointer make_channels_last_max_pool(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_channels_last_average_pool(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
