// The functions, factories and reject rules that convolutions/kernel_table.cpp lists, grouped by the stem of the file
// that defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// conv_f32, conv_bf16, conv_s8
std::string reject_conv_f32(const ops::NodeView& view);
KernelPointer make_conv_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_conv_bf16(const ops::NodeView& view);
KernelPointer make_conv_bf16(const ops::NodeView& view, WeightStore& weights);
std::string reject_conv_s8(const ops::NodeView& view);
KernelPointer make_conv_s8(const ops::NodeView& view, WeightStore& weights);

// conv_integer_s8
std::string reject_conv_integer(const ops::NodeView& view);
KernelPointer make_conv_integer(const ops::NodeView& view, WeightStore& weights);

// pointwise_f32
std::string reject_pointwise_f32(const ops::NodeView& view);
KernelPointer make_pointwise_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_pointwise_transpose_f32(const ops::NodeView& view);
KernelPointer make_pointwise_transpose_f32(const ops::NodeView& view, WeightStore& weights);

// depthwise_f32, depthwise_bf16, depthwise_s8
std::string reject_depthwise_f32(const ops::NodeView& view);
KernelPointer make_depthwise_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_unit_stride_depthwise_transpose_f32(const ops::NodeView& view);
KernelPointer make_unit_stride_depthwise_transpose_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_depthwise_bf16(const ops::NodeView& view);
KernelPointer make_depthwise_bf16(const ops::NodeView& view, WeightStore& weights);
std::string reject_depthwise_s8(const ops::NodeView& view);
KernelPointer make_depthwise_s8(const ops::NodeView& view, WeightStore& weights);

// winograd_choice, winograd
std::string reject_winograd_f32(const ops::NodeView& view);
std::string avoid_winograd_f32(const ops::NodeView& view);
std::string reject_winograd_bf16(const ops::NodeView& view);
std::string avoid_winograd_bf16(const ops::NodeView& view);
KernelPointer make_winograd(const ops::NodeView& view, WeightStore& weights);
std::string reject_turned_winograd_f32(const ops::NodeView& view);
std::string avoid_turned_winograd_f32(const ops::NodeView& view);
KernelPointer make_turned_winograd(const ops::NodeView& view, WeightStore& weights);

// conv_transpose_f32
std::string reject_conv_transpose_f32(const ops::NodeView& view);
KernelPointer make_conv_transpose_f32(const ops::NodeView& view, WeightStore& weights);

// conv_transpose_phases_f32
std::string reject_conv_transpose_phases_f32(const ops::NodeView& view);
KernelPointer make_conv_transpose_phases_f32(const ops::NodeView& view, WeightStore& weights);

// depthwise_gradient_f32
std::string reject_depthwise_transpose_f32(const ops::NodeView& view);
KernelPointer make_depthwise_transpose_f32(const ops::NodeView& view, WeightStore& weights);

// conv_transpose_bf16
std::string reject_conv_transpose_bf16(const ops::NodeView& view);
std::string avoid_conv_transpose_bf16(const ops::NodeView& view);
KernelPointer make_conv_transpose_bf16(const ops::NodeView& view, WeightStore& weights);

// conv_weight_gradient_bf16
std::string reject_conv_weight_gradient_bf16(const ops::NodeView& view);
std::string avoid_conv_weight_gradient_bf16(const ops::NodeView& view);
KernelPointer make_conv_weight_gradient_bf16(const ops::NodeView& view, WeightStore& weights);

// conv_weight_gradient_f32
std::string reject_conv_weight_gradient_f32(const ops::NodeView& view);
KernelPointer make_conv_weight_gradient_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_winograd_weight_gradient_f32(const ops::NodeView& view);
std::string avoid_winograd_weight_gradient_f32(const ops::NodeView& view);
KernelPointer make_winograd_weight_gradient_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_depthwise_weight_gradient_f32(const ops::NodeView& view);
KernelPointer make_depthwise_weight_gradient_f32(const ops::NodeView& view, WeightStore& weights);

// conv_chain
std::string reject_conv_chain(const ops::NodeView& view);
KernelPointer make_conv_chain(const ops::NodeView& view, WeightStore& weights);

// dictionary_conv_f32
std::string reject_dictionary_conv_f32(const ops::NodeView& view);
std::string avoid_dictionary_conv_f32(const ops::NodeView& view);
KernelPointer make_dictionary_conv_f32(const ops::NodeView& view, WeightStore& weights);

// channels_first_conv_f32
KernelPointer make_channels_first_conv_f32(const ops::NodeView& view, WeightStore& weights);

// channels_first_depthwise_f32
std::string reject_channels_first_depthwise_f32(const ops::NodeView& view);
KernelPointer make_channels_first_depthwise_f32(const ops::NodeView& view, WeightStore& weights);

// channels_first_conv_transpose_f32
std::string reject_channels_first_conv_transpose_f32(const ops::NodeView& view);
KernelPointer make_channels_first_conv_transpose_f32(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
