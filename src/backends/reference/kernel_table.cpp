#include "backends/reference/kernels/kernels.h"
#include "backends/reference/reference_device.h"
#include "ops/training/optimiser_step.h"
#include "ops/training/row_optimiser_step.h"

namespace tessera::backends {

using namespace reference;

namespace {

// The optimisers' inputs are a rate, a count and then `groups` lists of tensors: parameters, gradients and states.
// Their outputs are the lists without the gradients, each of which may be written over its own input.
template <std::size_t groups>
bool updates_operand(const ir::Node& node, std::size_t output, std::size_t input) {
  const std::size_t count = (node.inputs.size() - 2) / groups;
  const std::size_t skipped = output < count ? 2 : 2 + count;
  return input == output + skipped;
}

}  // namespace

// Length: one table, a line each entry.
std::span<const KernelEntry> reference_kernel_table() {
  static const KernelEntry table[] = {
      // determinant
      {.op = "Det", .name = "reference_det", .function = det},
      {.op = "tessera::DetGradient", .name = "reference_det_gradient", .function = det_gradient},
      // inverse
      {.op = "com.microsoft::Inverse", .name = "reference_inverse", .function = inverse},
      // einsum
      {.op = "Einsum", .name = "reference_einsum", .function = einsum},
      // loss
      {.op = "NegativeLogLikelihoodLoss",
       .name = "reference_negative_log_likelihood_loss",
       .function = negative_log_likelihood_loss},
      {.op = "SoftmaxCrossEntropyLoss",
       .name = "reference_softmax_cross_entropy_loss",
       .function = softmax_cross_entropy_loss},
      // matrix_product
      {.op = "MatMul", .name = "reference_matmul", .function = matmul},
      {.op = "Gemm", .name = "reference_gemm", .function = gemm},
      {.op = "MatMulInteger", .name = "reference_matmul_integer", .function = matmul_integer},
      {.op = "QLinearMatMul", .name = "reference_qlinear_matmul", .function = qlinear_matmul},
      // layer_normalisation_gradient
      {.op = "tessera::LayerNormalizationGradient",
       .name = "reference_layer_normalization_gradient",
       .function = layer_normalization_gradient},
      {.op = "tessera::RMSNormalizationGradient",
       .name = "reference_rms_normalization_gradient",
       .function = rms_normalization_gradient},
      // max_pool_gradient
      {.op = "tessera::MaxPoolGradient", .name = "reference_max_pool_gradient", .function = max_pool_gradient},
      // ctc_loss
      {.op = "tessera::CtcLoss", .name = "reference_ctc_loss", .function = ctc_loss},
      // softmax_cross_entropy
      {.op = "tessera::SoftmaxCrossEntropy",
       .name = "reference_softmax_cross_entropy",
       .function = softmax_cross_entropy},
      {.op = "tessera::SoftmaxCrossEntropyGradient",
       .name = "reference_softmax_cross_entropy_gradient",
       .function = softmax_cross_entropy_gradient},
      // batch_norm_training
      {.op = "tessera::BatchNormTraining", .name = "reference_batch_norm_training", .function = batch_norm_training},
      {.op = "tessera::BatchNormTrainingGradient",
       .name = "reference_batch_norm_training_gradient",
       .function = batch_norm_training_gradient},
      // normalisation
      {.op = "BatchNormalization", .name = "reference_batch_normalization", .function = batch_normalization},
      {.op = "LayerNormalization", .name = "reference_layer_normalization", .function = layer_normalization},
      {.op = "RMSNormalization", .name = "reference_rms_normalization", .function = rms_normalization},
      {.op = "GroupNormalization", .name = "reference_group_normalization", .function = group_normalization},
      {.op = "InstanceNormalization", .name = "reference_instance_normalization", .function = instance_normalization},
      {.op = "LpNormalization", .name = "reference_lp_normalization", .function = lp_normalization},
      {.op = "MeanVarianceNormalization",
       .name = "reference_mean_variance_normalization",
       .function = mean_variance_normalization},
      {.op = "LRN", .name = "reference_lrn", .function = lrn},
      // quantisation
      {.op = "QuantizeLinear", .name = "reference_quantize_linear", .function = quantize_linear},
      {.op = "DequantizeLinear", .name = "reference_dequantize_linear", .function = dequantize_linear},
      {.op = "DynamicQuantizeLinear", .name = "reference_dynamic_quantize_linear", .function = dynamic_quantize_linear},
      // causal_conv_with_state
      {.op = "CausalConvWithState", .name = "reference_causal_conv_with_state", .function = causal_conv_with_state},
      // conv
      {.op = "Conv", .name = "reference_conv", .function = conv},
      // map
      {.op = "ai.onnx.ml::ZipMap", .name = "reference_zip_map", .function = zip_map},
      {.op = "ai.onnx.ml::DictVectorizer", .name = "reference_dict_vectorizer", .function = dict_vectorizer},
      {.op = "ai.onnx.ml::CastMap", .name = "reference_cast_map", .function = cast_map},
      // image_decoder
      {.op = "ImageDecoder", .name = "reference_image_decoder", .function = image_decoder},
      // conv_integer
      {.op = "ConvInteger", .name = "reference_conv_integer", .function = conv_integer},
      {.op = "QLinearConv", .name = "reference_q_linear_conv", .function = q_linear_conv},
      // conv_transpose
      {.op = "ConvTranspose", .name = "reference_conv_transpose", .function = conv_transpose},
      // deform_conv
      {.op = "DeformConv", .name = "reference_deform_conv", .function = deform_conv},
      {.op = "tessera::DeformedWindows", .name = "reference_deformed_windows", .function = deformed_windows},
      {.op = "tessera::DeformedWindowsGradient",
       .name = "reference_deformed_windows_gradient",
       .function = deformed_windows_gradient},
      // pooling
      {.op = "AveragePool", .name = "reference_average_pool", .function = average_pool},
      {.op = "tessera::AveragePoolGradient",
       .name = "reference_average_pool_gradient",
       .function = average_pool_gradient},
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
      {.op = "tessera::LSTMWithGates", .name = "reference_lstm_with_gates", .function = lstm},
      {.op = "tessera::GRUWithGates", .name = "reference_gru_with_gates", .function = gru},
      // recurrent_gradient
      {.op = "tessera::RNNGradient", .name = "reference_rnn_gradient", .function = recurrent_gradient},
      {.op = "tessera::GRUGradient", .name = "reference_gru_gradient", .function = recurrent_gradient},
      {.op = "tessera::LSTMGradient", .name = "reference_lstm_gradient", .function = recurrent_gradient},
      // attention
      {.op = "Attention", .name = "reference_attention", .function = attention},
      {.op = "tessera::AttentionWithStatistics", .name = "reference_attention_with_statistics", .function = attention},
      {.op = "tessera::AttentionWithDropout", .name = "reference_attention_with_dropout", .function = attention},
      // attention_gradient
      {.op = "tessera::AttentionGradient", .name = "reference_attention_gradient", .function = attention_gradient},
      // linear_attention
      {.op = "LinearAttention", .name = "reference_linear_attention", .function = linear_attention},
      // linear_attention_gradient
      {.op = "tessera::LinearAttentionGradient",
       .name = "reference_linear_attention_gradient",
       .function = linear_attention_gradient},
      // rotary_embedding
      {.op = "RotaryEmbedding", .name = "reference_rotary_embedding", .function = rotary_embedding},
      // training_update
      {.op = "ai.onnx.preview.training::Adagrad",
       .name = "reference_adagrad",
       .function = adagrad,
       .in_place_pair = updates_operand<3>},
      {.op = "ai.onnx.preview.training::Adam",
       .name = "reference_adam",
       .function = adam,
       .in_place_pair = updates_operand<4>},
      {.op = "ai.onnx.preview.training::Momentum",
       .name = "reference_momentum",
       .function = momentum,
       .in_place_pair = updates_operand<3>},
      // global_norm
      {.op = "tessera::GlobalNorm", .name = "reference_global_norm", .function = global_norm},
      // optimiser_step
      {.op = "tessera::OptimiserStep",
       .name = "reference_optimiser_step",
       .function = optimiser_step,
       .in_place_pair = ops::optimiser_updates_in_place},
      // row_optimiser_step
      {.op = "tessera::RowOptimiserStep",
       .name = "reference_row_optimiser_step",
       .function = row_optimiser_step,
       .in_place_pair = ops::row_step_updates_in_place},
      // tree_ensemble
      {.op = "ai.onnx.ml::TreeEnsemble", .name = "reference_tree_ensemble", .create = tree_ensemble},
      {.op = "ai.onnx.ml::TreeEnsembleClassifier", .name = "reference_tree_ensemble", .create = tree_ensemble},
      {.op = "ai.onnx.ml::TreeEnsembleRegressor", .name = "reference_tree_ensemble", .create = tree_ensemble},
      // feature_transform
      {.op = "ai.onnx.ml::Scaler", .name = "reference_scaler", .function = scaler},
      {.op = "ai.onnx.ml::Normalizer", .name = "reference_normalizer", .function = normalizer},
      {.op = "ai.onnx.ml::Imputer", .name = "reference_imputer", .function = imputer},
      {.op = "ai.onnx.ml::OneHotEncoder", .name = "reference_one_hot_encoder", .function = one_hot_encoder},
      {.op = "ai.onnx.ml::FeatureVectorizer", .name = "reference_feature_vectorizer", .function = feature_vectorizer},
      {.op = "ai.onnx.ml::CategoryMapper", .name = "reference_category_mapper", .function = category_mapper},
      // linear_model
      {.op = "ai.onnx.ml::LinearRegressor", .name = "reference_linear_regressor", .function = linear_regressor},
      {.op = "ai.onnx.ml::LinearClassifier", .name = "reference_linear_classifier", .function = linear_classifier},
      {.op = "ai.onnx.ml::SVMRegressor", .name = "reference_svm_regressor", .function = svm_regressor},
      {.op = "ai.onnx.ml::SVMClassifier", .name = "reference_svm_classifier", .function = svm_classifier},
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
      {.op = "tessera::ScatterRows", .name = "reference_scatter_rows", .function = scatter_rows},
      // sum_rows
      {.op = "tessera::SumRows", .name = "reference_sum_rows", .function = sum_rows},
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
      // resize
      {.op = "Resize", .name = "reference_resize", .function = resize},
      {.op = "tessera::ResizeGradient", .name = "reference_resize_gradient", .function = resize_gradient},
      // grid_sample
      {.op = "GridSample", .name = "reference_grid_sample", .function = grid_sample},
      {.op = "tessera::GridSampleGradient", .name = "reference_grid_sample_gradient", .function = grid_sample_gradient},
      {.op = "AffineGrid", .name = "reference_affine_grid", .function = affine_grid},
      // region
      {.op = "RoiAlign", .name = "reference_roi_align", .function = roi_align},
      {.op = "tessera::RoiAlignGradient", .name = "reference_roi_align_gradient", .function = roi_align_gradient},
      {.op = "MaxRoiPool", .name = "reference_max_roi_pool", .function = max_roi_pool},
      {.op = "tessera::MaxRoiPoolGradient",
       .name = "reference_max_roi_pool_gradient",
       .function = max_roi_pool_gradient},
      {.op = "NonMaxSuppression", .name = "reference_non_max_suppression", .function = non_max_suppression},
      // col2im
      {.op = "Col2Im", .name = "reference_col2im", .function = col2im},
      // window
      {.op = "HannWindow", .name = "reference_hann_window", .function = hann_window},
      {.op = "HammingWindow", .name = "reference_hamming_window", .function = hamming_window},
      {.op = "BlackmanWindow", .name = "reference_blackman_window", .function = blackman_window},
      {.op = "MelWeightMatrix", .name = "reference_mel_weight_matrix", .function = mel_weight_matrix},
      // dft
      {.op = "DFT", .name = "reference_dft", .function = dft},
      {.op = "STFT", .name = "reference_stft", .function = stft},
      // tokenizer
      {.op = "com.microsoft::Tokenizer", .name = "reference_tokenizer", .function = tokenizer},
      // string
      {.op = "StringConcat", .name = "reference_string_concat", .function = string_concat},
      {.op = "StringNormalizer", .name = "reference_string_normalizer", .function = string_normalizer},
      {.op = "StringSplit", .name = "reference_string_split", .function = string_split},
      {.op = "RegexFullMatch", .name = "reference_regex_full_match", .function = regex_full_match},
      // tf_idf_vectorizer
      {.op = "TfIdfVectorizer", .name = "reference_tf_idf_vectorizer", .function = tf_idf_vectorizer},
      // feature
      {.op = "ai.onnx.ml::LabelEncoder", .name = "reference_label_encoder", .function = label_encoder},
      {.op = "ai.onnx.ml::ArrayFeatureExtractor",
       .name = "reference_array_feature_extractor",
       .function = array_feature_extractor},
      {.op = "ai.onnx.ml::Binarizer", .name = "reference_binarizer", .function = binarizer},
      // transpose
      {.op = "Transpose", .name = "reference_transpose", .function = transpose},
      {.op = "DepthToSpace", .name = "reference_depth_to_space", .function = depth_to_space},
      {.op = "SpaceToDepth", .name = "reference_space_to_depth", .function = space_to_depth},
      // softmax
      {.op = "LogSoftmax", .name = "reference_log_softmax", .function = log_softmax},
      {.op = "Hardmax", .name = "reference_hardmax", .function = hardmax},
      {.op = "Softmax", .name = "reference_softmax", .function = softmax},
      // element_wise_unary
      {.op = "Abs", .name = "reference_abs", .function = abs},
      {.op = "Acos", .name = "reference_acos", .function = acos},
      {.op = "Acosh", .name = "reference_acosh", .function = acosh},
      {.op = "Asin", .name = "reference_asin", .function = asin},
      {.op = "Asinh", .name = "reference_asinh", .function = asinh},
      {.op = "Atan", .name = "reference_atan", .function = atan},
      {.op = "Atanh", .name = "reference_atanh", .function = atanh},
      {.op = "BitwiseNot", .name = "reference_bitwise_not", .function = bitwise_not},
      {.op = "Ceil", .name = "reference_ceil", .function = ceil},
      {.op = "Clip", .name = "reference_clip", .function = clip},
      {.op = "Cos", .name = "reference_cos", .function = cos},
      {.op = "Cosh", .name = "reference_cosh", .function = cosh},
      {.op = "Erf", .name = "reference_erf", .function = erf},
      {.op = "Exp", .name = "reference_exp", .function = exp},
      {.op = "Floor", .name = "reference_floor", .function = floor},
      {.op = "IsInf", .name = "reference_is_inf", .function = is_inf},
      {.op = "IsNaN", .name = "reference_is_nan", .function = is_nan},
      {.op = "Log", .name = "reference_log", .function = log},
      {.op = "Not", .name = "reference_logical_not", .function = logical_not},
      {.op = "Neg", .name = "reference_neg", .function = neg},
      {.op = "Reciprocal", .name = "reference_reciprocal", .function = reciprocal},
      {.op = "Round", .name = "reference_round", .function = round},
      {.op = "Sign", .name = "reference_sign", .function = sign},
      {.op = "Sin", .name = "reference_sin", .function = sin},
      {.op = "Sinh", .name = "reference_sinh", .function = sinh},
      {.op = "Sqrt", .name = "reference_sqrt", .function = sqrt},
      {.op = "Tan", .name = "reference_tan", .function = tan},
      // activation
      {.op = "Celu", .name = "reference_celu", .function = celu},
      {.op = "Elu", .name = "reference_elu", .function = elu},
      {.op = "Gelu", .name = "reference_gelu", .function = gelu},
      {.op = "HardSigmoid", .name = "reference_hard_sigmoid", .function = hard_sigmoid},
      {.op = "HardSwish", .name = "reference_hard_swish", .function = hard_swish},
      {.op = "LeakyRelu", .name = "reference_leaky_relu", .function = leaky_relu},
      {.op = "Mish", .name = "reference_mish", .function = mish},
      {.op = "Relu", .name = "reference_relu", .function = relu},
      {.op = "Selu", .name = "reference_selu", .function = selu},
      {.op = "Shrink", .name = "reference_shrink", .function = shrink},
      {.op = "Sigmoid", .name = "reference_sigmoid", .function = sigmoid},
      {.op = "Softplus", .name = "reference_softplus", .function = softplus},
      {.op = "Softsign", .name = "reference_softsign", .function = softsign},
      {.op = "Swish", .name = "reference_swish", .function = swish},
      {.op = "Tanh", .name = "reference_tanh", .function = tanh},
      {.op = "ThresholdedRelu", .name = "reference_thresholded_relu", .function = thresholded_relu},
      // element_wise_binary
      {.op = "Add", .name = "reference_add", .function = add},
      {.op = "BitShift", .name = "reference_bit_shift", .function = bit_shift},
      {.op = "BitwiseAnd", .name = "reference_bitwise_and", .function = bitwise_and},
      {.op = "BitwiseOr", .name = "reference_bitwise_or", .function = bitwise_or},
      {.op = "BitwiseXor", .name = "reference_bitwise_xor", .function = bitwise_xor},
      {.op = "Div", .name = "reference_div", .function = div},
      {.op = "Max", .name = "reference_max", .function = max},
      {.op = "Mean", .name = "reference_mean", .function = mean},
      {.op = "Min", .name = "reference_min", .function = min},
      {.op = "Mod", .name = "reference_mod", .function = mod},
      {.op = "Mul", .name = "reference_mul", .function = mul},
      {.op = "PRelu", .name = "reference_p_relu", .function = p_relu},
      {.op = "Pow", .name = "reference_pow", .function = pow},
      {.op = "Sub", .name = "reference_sub", .function = sub},
      {.op = "Sum", .name = "reference_sum", .function = sum},
      {.op = "Where", .name = "reference_where", .function = where},
      // comparison
      {.op = "Equal", .name = "reference_equal", .function = equal},
      {.op = "Greater", .name = "reference_greater", .function = greater},
      {.op = "GreaterOrEqual", .name = "reference_greater_or_equal", .function = greater_or_equal},
      {.op = "Less", .name = "reference_less", .function = less},
      {.op = "LessOrEqual", .name = "reference_less_or_equal", .function = less_or_equal},
      {.op = "And", .name = "reference_logical_and", .function = logical_and},
      {.op = "Or", .name = "reference_logical_or", .function = logical_or},
      {.op = "Xor", .name = "reference_logical_xor", .function = logical_xor},
      // cast
      {.op = "Cast", .name = "reference_cast", .function = cast},
      {.op = "CastLike", .name = "reference_cast_like", .function = cast_like},
      {.op = "BitCast", .name = "reference_bit_cast", .function = bit_cast},
      // identity
      {.op = "tessera::After", .name = "reference_copy", .function = copy_bytes},
      {.op = "Identity", .name = "reference_identity", .function = identity},
      {.op = "Dropout", .name = "reference_dropout", .function = dropout},
      // reduction
      {.op = "ReduceL1", .name = "reference_reduce_l1", .function = reduce_l1},
      {.op = "ReduceL2", .name = "reference_reduce_l2", .function = reduce_l2},
      {.op = "ReduceLogSum", .name = "reference_reduce_log_sum", .function = reduce_log_sum},
      {.op = "ReduceLogSumExp", .name = "reference_reduce_log_sum_exp", .function = reduce_log_sum_exp},
      {.op = "ReduceMax", .name = "reference_reduce_max", .function = reduce_max},
      {.op = "ReduceMean", .name = "reference_reduce_mean", .function = reduce_mean},
      {.op = "ReduceMin", .name = "reference_reduce_min", .function = reduce_min},
      {.op = "ReduceProd", .name = "reference_reduce_prod", .function = reduce_prod},
      {.op = "ReduceSum", .name = "reference_reduce_sum", .function = reduce_sum},
      {.op = "ReduceSumSquare", .name = "reference_reduce_sum_square", .function = reduce_sum_square},
      // arg_max
      {.op = "ArgMax", .name = "reference_arg_max", .function = arg_max},
      {.op = "ArgMin", .name = "reference_arg_min", .function = arg_min},
      // cumulative
      {.op = "CumSum", .name = "reference_cum_sum", .function = cum_sum},
      {.op = "CumProd", .name = "reference_cum_prod", .function = cum_prod},
      // random
      {.op = "RandomNormal", .name = "reference_random_normal", .function = random_normal},
      {.op = "RandomNormalLike", .name = "reference_random_normal_like", .function = random_normal_like},
      {.op = "RandomUniform", .name = "reference_random_uniform", .function = random_uniform},
      {.op = "RandomUniformLike", .name = "reference_random_uniform_like", .function = random_uniform_like},
      {.op = "Bernoulli", .name = "reference_bernoulli", .function = bernoulli},
      {.op = "Multinomial", .name = "reference_multinomial", .function = multinomial},
  };
  return table;
}

}  // namespace tessera::backends
