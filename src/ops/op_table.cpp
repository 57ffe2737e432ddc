// Length: the one list of all operators, a line each.
#include "ops/op_table.h"

#include <unordered_map>

#include "base/error.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_gradient.h"
#include "ops/attention/flex_attention.h"
#include "ops/attention/group_query_attention.h"
#include "ops/attention/linear_attention.h"
#include "ops/attention/microsoft_attention.h"
#include "ops/attention/multi_head_attention.h"
#include "ops/attention/rotary_embedding.h"
#include "ops/classical/feature.h"
#include "ops/classical/feature_transform.h"
#include "ops/classical/linear_model.h"
#include "ops/classical/squared_distances.h"
#include "ops/classical/tf_idf_vectorizer.h"
#include "ops/classical/tree_ensemble.h"
#include "ops/convolutions/causal_conv_with_state.h"
#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/col2im.h"
#include "ops/convolutions/conv.h"
#include "ops/convolutions/conv_chain.h"
#include "ops/convolutions/conv_transpose.h"
#include "ops/convolutions/conv_transpose_with_dynamic_pads.h"
#include "ops/convolutions/conv_weight_gradient.h"
#include "ops/convolutions/deform_conv.h"
#include "ops/convolutions/dictionary_conv.h"
#include "ops/convolutions/fused_conv.h"
#include "ops/core/after.h"
#include "ops/core/control_flow.h"
#include "ops/core/gradient.h"
#include "ops/element_wise/activation.h"
#include "ops/element_wise/cast.h"
#include "ops/element_wise/comparison.h"
#include "ops/element_wise/element_wise_binary.h"
#include "ops/element_wise/element_wise_program.h"
#include "ops/element_wise/element_wise_unary.h"
#include "ops/movement/concat.h"
#include "ops/movement/expand.h"
#include "ops/movement/gather.h"
#include "ops/movement/pad.h"
#include "ops/movement/reshape.h"
#include "ops/movement/reverse_sequence.h"
#include "ops/movement/scatter.h"
#include "ops/movement/scatter_rows.h"
#include "ops/movement/slice.h"
#include "ops/movement/sum_rows.h"
#include "ops/movement/transpose.h"
#include "ops/movement/trilu.h"
#include "ops/movement/unfold_tensor.h"
#include "ops/pooling/max_pool_gradient.h"
#include "ops/pooling/pooling.h"
#include "ops/pooling/pooling_gradient.h"
#include "ops/products/determinant.h"
#include "ops/products/einsum.h"
#include "ops/products/fused_matmul.h"
#include "ops/products/inverse.h"
#include "ops/products/linear.h"
#include "ops/products/matrix_product.h"
#include "ops/quantised/conv_integer.h"
#include "ops/quantised/gather_block_quantized.h"
#include "ops/quantised/matmul_n_bits.h"
#include "ops/quantised/q_linear.h"
#include "ops/quantised/quantisation.h"
#include "ops/quantised/quantised_layers.h"
#include "ops/quantised/quantised_product.h"
#include "ops/recurrent/dynamic_quantize_lstm.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/recurrent_gradient.h"
#include "ops/rows/arg_max.h"
#include "ops/rows/batch_norm_training.h"
#include "ops/rows/cumulative.h"
#include "ops/rows/dft.h"
#include "ops/rows/embed_layer_normalisation.h"
#include "ops/rows/layer_normalisation_gradient.h"
#include "ops/rows/normalisation.h"
#include "ops/rows/reduction.h"
#include "ops/rows/select.h"
#include "ops/rows/skip_normalisation.h"
#include "ops/rows/softmax.h"
#include "ops/sampling/grid_sample.h"
#include "ops/sampling/region.h"
#include "ops/sampling/resize.h"
#include "ops/sampling/resize_gradient.h"
#include "ops/training/ctc_loss.h"
#include "ops/training/global_norm.h"
#include "ops/training/loss.h"
#include "ops/training/optimiser_step.h"
#include "ops/training/row_optimiser_step.h"
#include "ops/training/softmax_cross_entropy.h"
#include "ops/training/training_update.h"
#include "ops/values/generate.h"
#include "ops/values/identity.h"
#include "ops/values/image_decoder.h"
#include "ops/values/map.h"
#include "ops/values/optional.h"
#include "ops/values/random.h"
#include "ops/values/sequence.h"
#include "ops/values/shape_of.h"
#include "ops/values/string.h"
#include "ops/values/tokenizer.h"
#include "ops/values/window.h"

namespace tessera::ops {
namespace {

// One line an operator, grouped by the file that holds its meaning.
constexpr const OpDef* kTable[] = {
    // determinant
    &det,
    &det_gradient,
    // einsum
    &einsum,
    // loss
    &negative_log_likelihood_loss,
    &softmax_cross_entropy_loss,
    // matrix_product
    &matmul,
    &gemm,
    &matmul_integer,
    &qlinear_matmul,
    // layer_normalisation_gradient
    &layer_normalization_gradient,
    &rms_normalization_gradient,
    // max_pool_gradient
    &max_pool_gradient,
    // ctc_loss
    &ctc_loss,
    // softmax_cross_entropy
    &softmax_cross_entropy,
    &softmax_cross_entropy_gradient,
    // batch_norm_training
    &batch_norm_training,
    &batch_norm_training_gradient,
    // normalisation
    &batch_normalization,
    &layer_normalization,
    &rms_normalization,
    &group_normalization,
    &instance_normalization,
    &lp_normalization,
    &mean_variance_normalization,
    &lrn,
    // quantisation
    &quantize_linear,
    &dequantize_linear,
    &dynamic_quantize_linear,
    // attention
    &attention,
    &attention_with_statistics,
    &attention_with_dropout,
    // attention_gradient
    &attention_gradient,
    // causal_conv_with_state
    &causal_conv_with_state,
    // conv
    &conv,
    // control_flow
    &if_op,
    &loop,
    &scan,
    &sequence_map,
    // conv_integer
    &conv_integer,
    &q_linear_conv,
    // conv_transpose
    &conv_transpose,
    // conv_transpose_with_dynamic_pads
    &conv_transpose_with_dynamic_pads,
    // deform_conv
    &deform_conv,
    &deformed_windows,
    &deformed_windows_gradient,
    // embed_layer_normalisation
    &embed_layer_normalization,
    &q_embed_layer_normalization,
    // dynamic_quantize_lstm
    &dynamic_quantize_lstm,
    // flex_attention
    &flex_attention,
    // group_query_attention
    &group_query_attention,
    // microsoft_attention
    &microsoft_attention,
    &q_attention,
    // multi_head_attention
    &multi_head_attention,
    &decoder_masked_multi_head_attention,
    // skip_normalisation
    &skip_layer_normalization,
    &skip_simplified_layer_normalization,
    // channels_last
    &channels_last_conv,
    &channels_last_conv_transpose,
    &channels_last_max_pool,
    &channels_last_average_pool,
    // conv_weight_gradient
    &conv_weight_gradient,
    &channels_last_conv_weight_gradient,
    // conv_chain
    &conv_chain,
    // dictionary_conv
    &dictionary_conv,
    // element_wise_program
    &element_wise,
    // fused_conv
    &fused_conv,
    // fused_matmul
    &fused_matmul,
    &fused_gemm,
    &transposed_matmul,
    // linear
    &linear,
    // quantised_layers
    &quantised_conv,
    &quantised_linear,
    // gather_block_quantized
    &gather_block_quantized,
    // inverse
    &inverse,
    // matmul_n_bits
    &matmul_n_bits,
    // q_linear
    &q_linear_add,
    &q_linear_mul,
    &q_linear_concat,
    &q_linear_average_pool,
    &q_linear_global_average_pool,
    &q_linear_leaky_relu,
    &q_linear_sigmoid,
    &q_linear_softmax,
    &q_linear_where,
    &q_linear_reduce_mean,
    // quantised_product
    &q_gemm,
    &matmul_integer_to_float,
    &dynamic_quantize_matmul,
    &matmul_integer_16,
    // unfold_tensor
    &unfold_tensor,
    // pooling
    &average_pool,
    &max_pool,
    &lp_pool,
    &max_unpool,
    &global_average_pool,
    &global_max_pool,
    &global_lp_pool,
    // pooling_gradient
    &average_pool_gradient,
    // recurrent
    &rnn,
    &gru,
    &lstm,
    // recurrent_gradient
    &lstm_with_gates,
    &gru_with_gates,
    &rnn_gradient,
    &gru_gradient,
    &lstm_gradient,
    // linear_attention
    &linear_attention,
    &linear_attention_gradient,
    // rotary_embedding
    &rotary_embedding,
    // gradient
    &gradient,
    // training_update
    &adagrad,
    &adam,
    &momentum,
    // global_norm
    &global_norm,
    // optimiser_step
    &optimiser_step,
    // row_optimiser_step
    &row_optimiser_step,
    // tree_ensemble
    &tree_ensemble,
    &tree_ensemble_classifier,
    &tree_ensemble_regressor,
    // feature_transform
    &scaler,
    &normalizer,
    &imputer,
    &one_hot_encoder,
    &feature_vectorizer,
    &category_mapper,
    // linear_model
    &linear_regressor,
    &linear_classifier,
    &svm_regressor,
    &svm_classifier,
    // concat
    &concat,
    &split,
    // expand
    &expand,
    &tile,
    // gather
    &gather,
    &gather_elements,
    &gather_nd,
    // generate
    &constant_of_shape,
    &range,
    &eye_like,
    &one_hot,
    // pad
    &pad,
    &center_crop_pad,
    // reshape
    &reshape,
    &flatten,
    &squeeze,
    &unsqueeze,
    // shape_of
    &shape_of,
    &size_of,
    // slice
    &slice,
    // trilu
    &trilu,
    // reverse_sequence
    &reverse_sequence,
    // select
    &compress,
    &non_zero,
    &unique,
    &top_k,
    // scatter
    &scatter_elements,
    &scatter_nd,
    &tensor_scatter,
    // scatter_rows
    &scatter_rows_op,
    // squared_distances
    &squared_distances,
    // sum_rows
    &sum_rows,
    // sequence
    &sequence_construct,
    &sequence_empty,
    &sequence_insert,
    &sequence_erase,
    &sequence_at,
    &sequence_length,
    &split_to_sequence,
    &concat_from_sequence,
    // optional
    &optional_of,
    &optional_has_element,
    &optional_get_element,
    // resize
    &resize,
    // resize_gradient
    &resize_gradient,
    // grid_sample
    &grid_sample,
    &grid_sample_gradient,
    &affine_grid,
    // region
    &roi_align,
    &roi_align_gradient,
    &max_roi_pool,
    &max_roi_pool_gradient,
    &non_max_suppression,
    // col2im
    &col2im,
    // window
    &hann_window,
    &hamming_window,
    &blackman_window,
    &mel_weight_matrix,
    // dft
    &dft,
    &stft,
    // tokenizer
    &tokenizer,
    // string
    &string_concat,
    &string_normalizer,
    &string_split,
    &regex_full_match,
    // tf_idf_vectorizer
    &tf_idf_vectorizer,
    // feature
    &label_encoder,
    &array_feature_extractor,
    &binarizer,
    // image_decoder
    &image_decoder,
    // map
    &zip_map,
    &dict_vectorizer,
    &cast_map,
    // transpose
    &transpose,
    &depth_to_space,
    &space_to_depth,
    // softmax
    &softmax,
    &log_softmax,
    &hardmax,
    // element_wise_unary
    &abs,
    &acos,
    &acosh,
    &asin,
    &asinh,
    &atan,
    &atanh,
    &bitwise_not,
    &ceil,
    &clip,
    &cos,
    &cosh,
    &erf,
    &exp,
    &floor,
    &is_inf,
    &is_nan,
    &log,
    &logical_not,
    &neg,
    &reciprocal,
    &round,
    &sign,
    &sin,
    &sinh,
    &sqrt,
    &tan,
    // activation
    &celu,
    &elu,
    &gelu,
    &hard_sigmoid,
    &hard_swish,
    &leaky_relu,
    &mish,
    &relu,
    &selu,
    &shrink,
    &sigmoid,
    &softplus,
    &softsign,
    &swish,
    &tanh,
    &thresholded_relu,
    // element_wise_binary
    &add,
    &bit_shift,
    &bitwise_and,
    &bitwise_or,
    &bitwise_xor,
    &div,
    &max,
    &mean,
    &min,
    &mod,
    &mul,
    &p_relu,
    &pow,
    &sub,
    &sum,
    &where,
    // comparison
    &equal,
    &greater,
    &greater_or_equal,
    &less,
    &less_or_equal,
    &logical_and,
    &logical_or,
    &logical_xor,
    // cast
    &cast,
    &cast_like,
    &bit_cast,
    // after
    &after,
    // identity
    &identity,
    &dropout,
    // reduction
    &reduce_l1,
    &reduce_l2,
    &reduce_log_sum,
    &reduce_log_sum_exp,
    &reduce_max,
    &reduce_mean,
    &reduce_min,
    &reduce_prod,
    &reduce_sum,
    &reduce_sum_square,
    // arg_max
    &arg_max,
    &arg_min,
    // cumulative
    &cum_sum,
    &cum_prod,
    // random
    &random_normal,
    &random_normal_like,
    &random_uniform,
    &random_uniform_like,
    &bernoulli,
    &multinomial,
};

}  // namespace

std::span<const OpDef* const> all_ops() {
  return kTable;
}

const OpDef* find_op(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef* op : kTable) map.emplace(op->name, op);
    return map;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const OpDef& op_of(const ir::Node& node) {
  const OpDef* op = find_op(node.op);
  require(op != nullptr, ErrorKind::unsupported, "operator '{}' is not supported", node.op);
  return *op;
}

}  // namespace tessera::ops
