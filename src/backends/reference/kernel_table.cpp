#include "backends/reference/kernels/kernels.h"
#include "backends/reference/reference_device.h"

namespace tessera::backends {

using namespace reference;

std::span<const KernelEntry> reference_kernel_table() {
  static const KernelEntry table[] = {
      // causal_conv_with_state
      {.op = "CausalConvWithState", .name = "reference_causal_conv_with_state", .function = causal_conv_with_state},
      // conv
      {.op = "Conv", .name = "reference_conv", .function = conv},
      // conv_integer
      {.op = "ConvInteger", .name = "reference_conv_integer", .function = conv_integer},
      {.op = "QLinearConv", .name = "reference_q_linear_conv", .function = q_linear_conv},
      // conv_transpose
      {.op = "ConvTranspose", .name = "reference_conv_transpose", .function = conv_transpose},
      // deform_conv
      {.op = "DeformConv", .name = "reference_deform_conv", .function = deform_conv},
      // pooling
      {.op = "AveragePool", .name = "reference_average_pool", .function = average_pool},
      {.op = "MaxPool", .name = "reference_max_pool", .function = max_pool},
      {.op = "LpPool", .name = "reference_lp_pool", .function = lp_pool},
      {.op = "MaxUnpool", .name = "reference_max_unpool", .function = max_unpool},
      {.op = "GlobalAveragePool", .name = "reference_global_average_pool", .function = global_average_pool},
      {.op = "GlobalMaxPool", .name = "reference_global_max_pool", .function = global_max_pool},
      {.op = "GlobalLpPool", .name = "reference_global_lp_pool", .function = global_lp_pool},
      // recurrent
      {.op = "RNN", .name = "reference_rnn", .function = rnn},
      {.op = "GRU", .name = "reference_gru", .function = gru},
      {.op = "LSTM", .name = "reference_lstm", .function = lstm},
      // attention
      {.op = "Attention", .name = "reference_attention", .function = attention},
      // linear_attention
      {.op = "LinearAttention", .name = "reference_linear_attention", .function = linear_attention},
      // rotary_embedding
      {.op = "RotaryEmbedding", .name = "reference_rotary_embedding", .function = rotary_embedding},
      // training_update
      {.op = "ai.onnx.preview.training::Adagrad", .name = "reference_adagrad", .function = adagrad},
      {.op = "ai.onnx.preview.training::Adam", .name = "reference_adam", .function = adam},
      {.op = "ai.onnx.preview.training::Momentum", .name = "reference_momentum", .function = momentum},
      // element_wise_unary
      {.op = "Relu", .name = "reference_relu", .function = relu},
      {.op = "Sigmoid", .name = "reference_sigmoid", .function = sigmoid},
      // reshape
      {.op = "Reshape", .name = "reference_reshape", .function = reshape},
      {.op = "Flatten", .name = "reference_copy", .function = copy_bytes},
      {.op = "Squeeze", .name = "reference_squeeze", .function = squeeze},
      {.op = "Unsqueeze", .name = "reference_unsqueeze", .function = unsqueeze},
      // concat
      {.op = "Concat", .name = "reference_concat", .function = concat},
      {.op = "Split", .name = "reference_split", .function = split},
      // expand
      {.op = "Expand", .name = "reference_expand", .function = expand},
      {.op = "Tile", .name = "reference_tile", .function = tile},
      // gather
      {.op = "Gather", .name = "reference_gather", .function = gather},
      {.op = "GatherElements", .name = "reference_gather_elements", .function = gather_elements},
      {.op = "GatherND", .name = "reference_gather_nd", .function = gather_nd},
      // generate
      {.op = "ConstantOfShape", .name = "reference_constant_of_shape", .function = constant_of_shape},
      {.op = "Range", .name = "reference_range", .function = range},
      {.op = "EyeLike", .name = "reference_eye_like", .function = eye_like},
      {.op = "OneHot", .name = "reference_one_hot", .function = one_hot},
      // pad
      {.op = "Pad", .name = "reference_pad", .function = pad},
      {.op = "CenterCropPad", .name = "reference_center_crop_pad", .function = center_crop_pad},
      // shape_of
      {.op = "Shape", .name = "reference_shape_of", .function = shape_of},
      {.op = "Size", .name = "reference_size_of", .function = size_of},
      // slice
      {.op = "Slice", .name = "reference_slice", .function = slice},
      // trilu
      {.op = "Trilu", .name = "reference_trilu", .function = trilu},
      // reverse_sequence
      {.op = "ReverseSequence", .name = "reference_reverse_sequence", .function = reverse_sequence},
      // select
      {.op = "Compress", .name = "reference_compress", .function = compress},
      {.op = "NonZero", .name = "reference_non_zero", .function = non_zero},
      {.op = "Unique", .name = "reference_unique", .function = unique},
      {.op = "TopK", .name = "reference_top_k", .function = top_k},
      // scatter
      {.op = "ScatterElements", .name = "reference_scatter_elements", .function = scatter_elements},
      {.op = "ScatterND", .name = "reference_scatter_nd", .function = scatter_nd},
      {.op = "TensorScatter", .name = "reference_tensor_scatter", .function = tensor_scatter},
      // sequence
      {.op = "SequenceConstruct", .name = "reference_sequence_construct", .function = sequence_construct},
      {.op = "SequenceEmpty", .name = "reference_sequence_empty", .function = sequence_empty},
      {.op = "SequenceInsert", .name = "reference_sequence_insert", .function = sequence_insert},
      {.op = "SequenceErase", .name = "reference_sequence_erase", .function = sequence_erase},
      {.op = "SequenceAt", .name = "reference_sequence_at", .function = sequence_at},
      {.op = "SequenceLength", .name = "reference_sequence_length", .function = sequence_length},
      {.op = "SplitToSequence", .name = "reference_split_to_sequence", .function = split_to_sequence},
      {.op = "ConcatFromSequence", .name = "reference_concat_from_sequence", .function = concat_from_sequence},
      // optional
      {.op = "Optional", .name = "reference_optional_of", .function = optional_of},
      {.op = "OptionalHasElement", .name = "reference_optional_has_element", .function = optional_has_element},
      {.op = "OptionalGetElement", .name = "reference_optional_get_element", .function = optional_get_element},
      // transpose
      {.op = "Transpose", .name = "reference_transpose", .function = transpose},
      {.op = "DepthToSpace", .name = "reference_depth_to_space", .function = depth_to_space},
      {.op = "SpaceToDepth", .name = "reference_space_to_depth", .function = space_to_depth},
      // softmax
      {.op = "Softmax", .name = "reference_softmax", .function = softmax},
  };
  return table;
}

}  // namespace tessera::backends
