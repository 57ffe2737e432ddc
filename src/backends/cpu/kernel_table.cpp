#include "backends/cpu/kernel_table.h"

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> kernel_table() {
  initialise_simd();
  // One line an entry, whatever its width.
  // clang-format off
  static const KernelEntry table[] = {
      // arg_max
      {.op = "ArgMax", .name = "cpu_arg_max", .reject = reject_arg_max, .create = make_arg_max},
      {.op = "ArgMin", .name = "cpu_arg_min", .reject = reject_arg_max, .create = make_arg_max},
      // attention
      {.op = "Attention", .name = "cpu_attention", .reject = reject_attention, .create = make_attention},
      {.op = "Attention", .name = "cpu_attention_bf16", .reject = reject_bf16_attention, .create = make_bf16_attention},
      // cast
      {.op = "Cast", .name = "cpu_cast", .reject = reject_cast, .create = make_cast},
      {.op = "CastLike", .name = "cpu_cast_like", .reject = reject_cast, .create = make_cast},
      // bf16_product
      {.op = "tessera::ChannelsLastConv", .name = "cpu_bf16_winograd", .reject = reject_bf16_winograd, .avoid = avoid_bf16_winograd, .create = make_channels_last_winograd, .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv", .name = "cpu_bf16_conv", .reject = reject_bf16_conv, .create = make_bf16_conv, .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv", .name = "cpu_bf16_depthwise", .reject = reject_bf16_depthwise, .create = make_bf16_depthwise, .in_place_inputs = 1 << 3},
      {.op = "tessera::Linear", .name = "cpu_bf16_linear", .reject = reject_bf16_linear, .create = make_bf16_linear, .in_place_inputs = 1 << 3},
      // channels_last_conv
      {.op = "tessera::ChannelsLastConv", .name = "cpu_channels_last_depthwise", .reject = reject_channels_last_depthwise, .create = make_channels_last_depthwise, .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv", .name = "cpu_channels_last_winograd", .reject = reject_channels_last_winograd, .avoid = avoid_channels_last_winograd, .create = make_channels_last_winograd, .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv", .name = "cpu_channels_last_conv", .reject = reject_channels_last_conv, .create = make_channels_last_conv, .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv", .name = "cpu_channels_last_pointwise", .reject = reject_channels_last_pointwise, .create = make_channels_last_pointwise},
      // conv_chain
      {.op = "tessera::ConvChain", .name = "cpu_conv_chain", .reject = reject_conv_chain, .create = make_conv_chain},
      // channels_last_conv_transpose
      {.op = "tessera::ChannelsLastConvTranspose", .name = "cpu_channels_last_conv_transpose", .reject = reject_channels_last_conv_transpose, .create = make_channels_last_conv_transpose},
      // channels_last_window
      {.op = "tessera::ChannelsLastMaxPool", .name = "cpu_channels_last_max_pool", .reject = reject_channels_last_pool, .create = make_channels_last_max_pool},
      {.op = "tessera::ChannelsLastAveragePool", .name = "cpu_channels_last_average_pool", .reject = reject_channels_last_pool, .create = make_channels_last_average_pool},
      // quantised_add
      {.op = "com.microsoft::QLinearAdd", .name = "cpu_quantised_add", .reject = reject_quantised_add, .function = quantised_add, .in_place_inputs = 1 | 8},
      // quantised_conv
      {.op = "tessera::QuantisedConv", .name = "cpu_quantised_depthwise", .reject = reject_quantised_depthwise, .create = make_quantised_depthwise},
      {.op = "tessera::QuantisedConv", .name = "cpu_quantised_conv", .reject = reject_quantised_conv, .create = make_quantised_conv, .in_place_inputs = 1 << 8},
      {.op = "tessera::QuantisedLinear", .name = "cpu_quantised_linear", .reject = reject_quantised_linear, .create = make_quantised_linear, .in_place_inputs = 1 << 8},
      // max_pool_rows
      {.op = "tessera::ChannelsLastMaxPool", .name = "cpu_max_pool_bytes", .reject = reject_max_pool_bytes, .create = make_max_pool_bytes},
      {.op = "tessera::ChannelsLastMaxPool", .name = "cpu_max_pool_bf16", .reject = reject_max_pool_bf16, .create = make_max_pool_bf16},
      // linear
      {.op = "tessera::Linear", .name = "cpu_linear_of_few_rows", .reject = reject_linear_of_few_rows, .avoid = avoid_linear_of_few_rows, .create = make_linear_of_few_rows},
      {.op = "tessera::Linear", .name = "cpu_linear", .reject = reject_linear, .create = make_linear},
      {.op = "tessera::Linear", .name = "cpu_indirect_linear", .reject = reject_indirect_linear, .create = make_indirect_linear, .in_place_inputs = 1 << 3},
      // comparison
      {.op = "Equal", .name = "cpu_equal", .reject = reject_comparison, .create = make_comparison},
      {.op = "Greater", .name = "cpu_greater", .reject = reject_comparison, .create = make_comparison},
      {.op = "GreaterOrEqual", .name = "cpu_greater_or_equal", .reject = reject_comparison, .create = make_comparison},
      {.op = "Less", .name = "cpu_less", .reject = reject_comparison, .create = make_comparison},
      {.op = "LessOrEqual", .name = "cpu_less_or_equal", .reject = reject_comparison, .create = make_comparison},
      {.op = "And", .name = "cpu_and", .reject = reject_comparison, .create = make_comparison},
      {.op = "Or", .name = "cpu_or", .reject = reject_comparison, .create = make_comparison},
      {.op = "Xor", .name = "cpu_xor", .reject = reject_comparison, .create = make_comparison},
      {.op = "Not", .name = "cpu_not", .function = logical_not, .in_place_inputs = 1},
      // cumulative
      {.op = "CumSum", .name = "cpu_cum_sum", .reject = reject_cum_sum, .function = cum_sum},
      // dft
      {.op = "DFT", .name = "cpu_dft_f32", .reject = reject_dft, .function = dft},
      // element_wise_binary
      {.op = "Add", .name = "cpu_add", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
      {.op = "Sub", .name = "cpu_sub", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
      {.op = "Mul", .name = "cpu_mul", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
      {.op = "Div", .name = "cpu_div", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
      {.op = "Mod", .name = "cpu_mod", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
      {.op = "Max", .name = "cpu_max", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 1},
      {.op = "Min", .name = "cpu_min", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 1},
      {.op = "Sum", .name = "cpu_sum", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 1},
      {.op = "PRelu", .name = "cpu_p_relu", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
      {.op = "Pow", .name = "cpu_pow", .reject = reject_pow, .create = make_pow, .in_place_inputs = 1},
      {.op = "Where", .name = "cpu_where", .reject = reject_where, .create = make_where, .in_place_inputs = 6},
      // element_wise_program
      {.op = "tessera::ElementWise", .name = "cpu_element_wise_f32", .reject = reject_element_wise_f32, .create = make_element_wise, .in_place_inputs = 0xff},
      {.op = "tessera::ElementWise", .name = "cpu_element_wise", .reject = reject_element_wise, .create = make_element_wise},
      // element_wise_unary
      {.op = "Abs", .name = "cpu_abs", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Acos", .name = "cpu_acos", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Acosh", .name = "cpu_acosh", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Asin", .name = "cpu_asin", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Asinh", .name = "cpu_asinh", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Atan", .name = "cpu_atan", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Atanh", .name = "cpu_atanh", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Ceil", .name = "cpu_ceil", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Celu", .name = "cpu_celu", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Cos", .name = "cpu_cos", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Cosh", .name = "cpu_cosh", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Elu", .name = "cpu_elu", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Erf", .name = "cpu_erf", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Exp", .name = "cpu_exp", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Floor", .name = "cpu_floor", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "HardSigmoid", .name = "cpu_hard_sigmoid", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "HardSwish", .name = "cpu_hard_swish", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "LeakyRelu", .name = "cpu_leaky_relu", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Log", .name = "cpu_log", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Mish", .name = "cpu_mish", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Neg", .name = "cpu_neg", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Reciprocal", .name = "cpu_reciprocal", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Relu", .name = "cpu_relu", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Round", .name = "cpu_round", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Selu", .name = "cpu_selu", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Sigmoid", .name = "cpu_sigmoid", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Sign", .name = "cpu_sign", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Sin", .name = "cpu_sin", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Sinh", .name = "cpu_sinh", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Softplus", .name = "cpu_softplus", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Softsign", .name = "cpu_softsign", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Sqrt", .name = "cpu_sqrt", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Swish", .name = "cpu_swish", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Tan", .name = "cpu_tan", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Tanh", .name = "cpu_tanh", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "ThresholdedRelu", .name = "cpu_thresholded_relu", .reject = reject_unless_f32, .create = make_element_wise_unary, .in_place_inputs = 1},
      {.op = "Clip", .name = "cpu_clip", .reject = reject_unless_f32, .create = make_clip, .in_place_inputs = 1},
      {.op = "Gelu", .name = "cpu_gelu", .reject = reject_unless_f32, .create = make_gelu, .in_place_inputs = 1},
      // conv_depthwise
      {.op = "Conv", .name = "cpu_depthwise_conv_f32", .reject = reject_depthwise_conv, .create = make_depthwise_conv},
      // conv
      {.op = "Conv", .name = "cpu_conv_f32", .reject = reject_unless_f32, .create = make_conv},
      // conv_transpose
      {.op = "ConvTranspose", .name = "cpu_conv_transpose_f32", .reject = reject_conv_transpose, .create = make_conv_transpose},
      // matmul
      {.op = "MatMul", .name = "cpu_matmul_f32", .reject = reject_unless_f32, .create = make_matmul},
      {.op = "tessera::TransposedMatMul", .name = "cpu_transposed_matmul_f32", .reject = reject_unless_f32, .create = make_matmul},
      {.op = "Gemm", .name = "cpu_gemm_f32", .reject = reject_unless_f32, .create = make_gemm},
      // matmul_integer
      {.op = "MatMulInteger", .name = "cpu_matmul_integer", .reject = reject_matmul_integer, .create = make_matmul_integer},
      {.op = "QLinearMatMul", .name = "cpu_qlinear_matmul", .reject = reject_qlinear_matmul, .create = make_matmul_integer},
      // matmul_n_bits
      {.op = "com.microsoft::MatMulNBits", .name = "cpu_matmul_n_bits", .reject = reject_matmul_n_bits, .create = make_matmul_n_bits},
      // pooling
      {.op = "MaxPool", .name = "cpu_max_pool_f32", .reject = reject_pool, .create = make_max_pool},
      {.op = "AveragePool", .name = "cpu_average_pool_f32", .reject = reject_pool, .create = make_average_pool},
      {.op = "GlobalAveragePool", .name = "cpu_global_average_pool_f32", .reject = reject_global_pool, .function = global_average_pool},
      {.op = "GlobalMaxPool", .name = "cpu_global_max_pool_f32", .reject = reject_global_pool, .function = global_max_pool},
      // recurrent
      {.op = "LSTM", .name = "cpu_lstm_f32", .reject = reject_recurrent, .create = make_recurrent},
      {.op = "GRU", .name = "cpu_gru_f32", .reject = reject_recurrent, .create = make_recurrent},
      {.op = "LSTM", .name = "cpu_bf16_lstm", .reject = reject_bf16_recurrent, .create = make_bf16_recurrent},
      {.op = "GRU", .name = "cpu_bf16_gru", .reject = reject_bf16_recurrent, .create = make_bf16_recurrent},
      // concat
      {.op = "Concat", .name = "cpu_concat", .reject = reject_unless_bytes, .function = concat},
      {.op = "Split", .name = "cpu_split", .reject = reject_unless_bytes, .function = split},
      // expand
      {.op = "Expand", .name = "cpu_expand", .reject = reject_unless_bytes, .create = make_expand},
      {.op = "Tile", .name = "cpu_tile", .reject = reject_unless_bytes, .create = make_tile},
      // gather
      {.op = "Gather", .name = "cpu_gather", .reject = reject_gather, .create = make_gather},
      {.op = "GatherElements", .name = "cpu_gather_elements", .reject = reject_gather_elements, .function = gather_elements},
      // normalisation
      {.op = "BatchNormalization", .name = "cpu_batch_normalization", .reject = reject_channel_normalisation, .create = make_batch_normalisation, .in_place_inputs = 1},
      {.op = "GroupNormalization", .name = "cpu_group_normalization", .reject = reject_channel_normalisation, .create = make_group_normalisation, .in_place_inputs = 1},
      {.op = "InstanceNormalization", .name = "cpu_instance_normalization", .reject = reject_channel_normalisation, .create = make_group_normalisation, .in_place_inputs = 1},
      {.op = "LayerNormalization", .name = "cpu_layer_normalization", .reject = reject_row_normalisation, .create = make_row_normalisation, .in_place_inputs = 1},
      {.op = "RMSNormalization", .name = "cpu_rms_normalization", .reject = reject_row_normalisation, .create = make_row_normalisation, .in_place_inputs = 1},
      // skip_normalisation
      {.op = "com.microsoft::EmbedLayerNormalization", .name = "cpu_embed_layer_normalization", .reject = reject_embedding, .create = make_embedding},
      {.op = "com.microsoft::SkipLayerNormalization", .name = "cpu_skip_layer_normalization", .reject = reject_skip_normalisation, .create = make_skip_normalisation, .in_place_inputs = 3},
      {.op = "com.microsoft::SkipSimplifiedLayerNormalization", .name = "cpu_skip_simplified_layer_normalization", .reject = reject_skip_normalisation, .create = make_skip_normalisation, .in_place_inputs = 3},
      // pad
      {.op = "Pad", .name = "cpu_pad", .reject = reject_pad, .create = make_pad},
      // quantisation
      {.op = "DequantizeLinear", .name = "cpu_dequantize_linear", .reject = reject_quantisation, .create = make_quantisation},
      {.op = "DynamicQuantizeLinear", .name = "cpu_dynamic_quantize_linear", .create = make_dynamic_quantisation},
      {.op = "QuantizeLinear", .name = "cpu_quantize_linear", .reject = reject_quantisation, .create = make_quantisation},
      // reduction
      {.op = "ReduceL1", .name = "cpu_reduce_l1", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceL2", .name = "cpu_reduce_l2", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceLogSum", .name = "cpu_reduce_log_sum", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceMax", .name = "cpu_reduce_max", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceMean", .name = "cpu_reduce_mean", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceMin", .name = "cpu_reduce_min", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceProd", .name = "cpu_reduce_prod", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceSum", .name = "cpu_reduce_sum", .reject = reject_reduction, .create = make_reduction},
      {.op = "ReduceSumSquare", .name = "cpu_reduce_sum_square", .reject = reject_reduction, .create = make_reduction},
      // resize
      {.op = "Resize", .name = "cpu_resize", .reject = reject_resize, .create = make_resize},
      // slice
      {.op = "Slice", .name = "cpu_slice", .reject = reject_unless_bytes, .create = make_slice},
      // softmax
      {.op = "LogSoftmax", .name = "cpu_log_softmax", .reject = reject_unless_f32, .create = make_softmax, .in_place_inputs = 1},
      {.op = "Softmax", .name = "cpu_softmax", .reject = reject_unless_f32, .create = make_softmax, .in_place_inputs = 1},
      // transpose
      {.op = "Transpose", .name = "cpu_transpose", .reject = reject_unless_bytes, .create = make_transpose},
      {.op = "DepthToSpace", .name = "cpu_depth_to_space", .reject = reject_unless_bytes, .create = make_depth_to_space},
      {.op = "SpaceToDepth", .name = "cpu_space_to_depth", .reject = reject_unless_bytes, .create = make_space_to_depth},
  };
  // clang-format on
  return table;
}

}  // namespace tessera::backends::cpu
