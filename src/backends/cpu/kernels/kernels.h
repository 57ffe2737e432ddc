// What kernel_table.cpp lists: for each kernel file its functions, factories and reject rules, under the file's stem.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

using KernelPointer = std::unique_ptr<Kernel>;

// arg_max
std::string reject_arg_max(const ops::NodeView& view);
KernelPointer make_arg_max(const ops::NodeView& view, WeightStore& weights);

// attention
std::string reject_attention(const ops::NodeView& view);
KernelPointer make_attention(const ops::NodeView& view, WeightStore& weights);
std::string reject_bf16_attention(const ops::NodeView& view);
KernelPointer make_bf16_attention(const ops::NodeView& view, WeightStore& weights);

// cast
std::string reject_cast(const ops::NodeView& view);
KernelPointer make_cast(const ops::NodeView& view, WeightStore& weights);

// comparison
std::string reject_comparison(const ops::NodeView& view);
KernelPointer make_comparison(const ops::NodeView& view, WeightStore& weights);
void logical_not(KernelContext& context);

// cumulative
std::string reject_cum_sum(const ops::NodeView& view);
void cum_sum(KernelContext& context);

// dft
std::string reject_dft(const ops::NodeView&);
void dft(KernelContext&);

// element_wise_binary
std::string reject_arithmetic(const ops::NodeView& view);
KernelPointer make_arithmetic(const ops::NodeView& view, WeightStore& weights);
std::string reject_pow(const ops::NodeView& view);
KernelPointer make_pow(const ops::NodeView& view, WeightStore& weights);
std::string reject_where(const ops::NodeView& view);
KernelPointer make_where(const ops::NodeView& view, WeightStore& weights);

// element_wise_program
std::string reject_element_wise(const ops::NodeView& view);
std::string reject_element_wise_f32(const ops::NodeView& view);
KernelPointer make_element_wise(const ops::NodeView& view, WeightStore& weights);

// element_wise_unary
std::string reject_unless_f32(const ops::NodeView& view);  // looks at input 0
KernelPointer make_element_wise_unary(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_clip(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gelu(const ops::NodeView& view, WeightStore& weights);

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
// bf16_depthwise
std::string reject_bf16_depthwise(const ops::NodeView& view);
KernelPointer make_bf16_depthwise(const ops::NodeView& view, WeightStore& weights);

// quantised_add
std::string reject_quantised_add(const ops::NodeView& view);
void quantised_add(KernelContext& context);

// quantised_conv
std::string reject_quantised_conv(const ops::NodeView& view);
KernelPointer make_quantised_conv(const ops::NodeView& view, WeightStore& weights);
std::string reject_quantised_linear(const ops::NodeView& view);
KernelPointer make_quantised_linear(const ops::NodeView& view, WeightStore& weights);

// quantised_depthwise
std::string reject_quantised_depthwise(const ops::NodeView& view);
KernelPointer make_quantised_depthwise(const ops::NodeView& view, WeightStore& weights);

// max_pool_rows
std::string reject_max_pool_bytes(const ops::NodeView& view);
KernelPointer make_max_pool_bytes(const ops::NodeView& view, WeightStore& weights);
std::string reject_max_pool_bf16(const ops::NodeView& view);
KernelPointer make_max_pool_bf16(const ops::NodeView& view, WeightStore& weights);

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

// linear
std::string reject_linear(const ops::NodeView& view);
KernelPointer make_linear(const ops::NodeView& view, WeightStore& weights);
std::string reject_linear_of_few_rows(const ops::NodeView& view);
std::string avoid_linear_of_few_rows(const ops::NodeView& view);
KernelPointer make_linear_of_few_rows(const ops::NodeView& view, WeightStore& weights);
std::string reject_channels_last_pointwise(const ops::NodeView& view);
KernelPointer make_channels_last_pointwise(const ops::NodeView& view, WeightStore& weights);

// matmul
KernelPointer make_matmul(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gemm(const ops::NodeView& view, WeightStore& weights);

// matmul_integer
std::string reject_matmul_integer(const ops::NodeView& view);
std::string reject_qlinear_matmul(const ops::NodeView& view);
KernelPointer make_matmul_integer(const ops::NodeView& view, WeightStore& weights);

// matmul_n_bits
std::string reject_matmul_n_bits(const ops::NodeView& view);
KernelPointer make_matmul_n_bits(const ops::NodeView& view, WeightStore& weights);

// pooling
std::string reject_pool(const ops::NodeView& view);
std::string reject_global_pool(const ops::NodeView& view);
KernelPointer make_max_pool(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_average_pool(const ops::NodeView& view, WeightStore& weights);
void global_average_pool(KernelContext& context);
void global_max_pool(KernelContext& context);

// recurrent
std::string reject_recurrent(const ops::NodeView& view);
KernelPointer make_recurrent(const ops::NodeView& view, WeightStore& weights);
std::string reject_bf16_recurrent(const ops::NodeView& view);

// bf16_recurrent
KernelPointer make_bf16_recurrent(const ops::NodeView& view, WeightStore& weights);

// concat
void concat(KernelContext& context);
void split(KernelContext& context);

// expand
KernelPointer make_expand(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_tile(const ops::NodeView& view, WeightStore& weights);

// gather
KernelPointer make_gather(const ops::NodeView& view, WeightStore& weights);
std::string reject_gather(const ops::NodeView& view);
std::string reject_gather_elements(const ops::NodeView& view);
void gather_elements(KernelContext& context);

// movement
std::string reject_unless_bytes(const ops::NodeView& view);  // looks at input 0

// normalisation
std::string reject_row_normalisation(const ops::NodeView& view);
KernelPointer make_row_normalisation(const ops::NodeView& view, WeightStore& weights);
std::string reject_channel_normalisation(const ops::NodeView& view);
KernelPointer make_group_normalisation(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_batch_normalisation(const ops::NodeView& view, WeightStore& weights);
// skip_normalisation
std::string reject_skip_normalisation(const ops::NodeView& view);
KernelPointer make_skip_normalisation(const ops::NodeView& view, WeightStore& weights);
std::string reject_embedding(const ops::NodeView& view);
KernelPointer make_embedding(const ops::NodeView& view, WeightStore& weights);

// pad
std::string reject_pad(const ops::NodeView& view);
KernelPointer make_pad(const ops::NodeView& view, WeightStore& weights);

// quantisation
std::string reject_quantisation(const ops::NodeView& view);
KernelPointer make_quantisation(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_dynamic_quantisation(const ops::NodeView& view, WeightStore& weights);

// reduction
std::string reject_reduction(const ops::NodeView& view);
KernelPointer make_reduction(const ops::NodeView& view, WeightStore& weights);

// resize
std::string reject_resize(const ops::NodeView& view);
KernelPointer make_resize(const ops::NodeView& view, WeightStore& weights);

// slice
KernelPointer make_slice(const ops::NodeView& view, WeightStore& weights);

// softmax
KernelPointer make_softmax(const ops::NodeView& view, WeightStore& weights);

// transpose
KernelPointer make_transpose(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_depth_to_space(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_space_to_depth(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
