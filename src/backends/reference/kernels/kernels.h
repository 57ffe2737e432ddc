// Declarations of all reference kernels, grouped by the file that holds them, for kernel_table.cpp. Kernels do not
// include it: a new operator would rebuild them all, and the linker catches a declaration that matches no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// determinant.cpp
void det(KernelContext&);
void det_gradient(KernelContext&);

// inverse.cpp
void inverse(KernelContext&);

// einsum.cpp
void einsum(KernelContext&);

// loss.cpp
void negative_log_likelihood_loss(KernelContext&);
void softmax_cross_entropy_loss(KernelContext&);

// matrix_product.cpp
void matmul(KernelContext&);
void gemm(KernelContext&);
void matmul_integer(KernelContext&);
void qlinear_matmul(KernelContext&);

// layer_normalisation_gradient.cpp
void layer_normalization_gradient(KernelContext&);
void rms_normalization_gradient(KernelContext&);

// max_pool_gradient.cpp
void max_pool_gradient(KernelContext&);

// ctc_loss.cpp
void ctc_loss(KernelContext&);

// softmax_cross_entropy.cpp
void softmax_cross_entropy(KernelContext&);
void softmax_cross_entropy_gradient(KernelContext&);

// batch_norm_training.cpp
void batch_norm_training(KernelContext&);
void batch_norm_training_gradient(KernelContext&);

// normalisation.cpp
void batch_normalization(KernelContext&);
void layer_normalization(KernelContext&);
void rms_normalization(KernelContext&);
void group_normalization(KernelContext&);
void instance_normalization(KernelContext&);
void lp_normalization(KernelContext&);
void mean_variance_normalization(KernelContext&);
void lrn(KernelContext&);

// quantisation.cpp
void quantize_linear(KernelContext&);
void dequantize_linear(KernelContext&);
void dynamic_quantize_linear(KernelContext&);

// causal_conv_with_state.cpp
void causal_conv_with_state(KernelContext&);

// image_decoder.cpp
void image_decoder(KernelContext&);

// map.cpp
void zip_map(KernelContext&);
void dict_vectorizer(KernelContext&);
void cast_map(KernelContext&);

// conv.cpp
void conv(KernelContext&);

// conv_integer.cpp
void conv_integer(KernelContext&);
void q_linear_conv(KernelContext&);

// conv_transpose.cpp
void conv_transpose(KernelContext&);

// deform_conv.cpp
void deform_conv(KernelContext&);
void deformed_windows(KernelContext&);
void deformed_windows_gradient(KernelContext&);

// pooling.cpp
void average_pool(KernelContext&);
void average_pool_gradient(KernelContext&);
void max_pool(KernelContext&);
void lp_pool(KernelContext&);
void max_unpool(KernelContext&);
void global_average_pool(KernelContext&);
void global_max_pool(KernelContext&);
void global_lp_pool(KernelContext&);

// recurrent.cpp
void rnn(KernelContext&);
void gru(KernelContext&);
void lstm(KernelContext&);

// recurrent_gradient.cpp
void recurrent_gradient(KernelContext&);

// attention.cpp
void attention(KernelContext&);

// attention_gradient.cpp
void attention_gradient(KernelContext&);

// linear_attention.cpp
void linear_attention(KernelContext&);

// linear_attention_gradient.cpp
void linear_attention_gradient(KernelContext&);

// rotary_embedding.cpp
void rotary_embedding(KernelContext&);

// training_update.cpp
void adagrad(KernelContext&);
void adam(KernelContext&);
void momentum(KernelContext&);

// global_norm.cpp
void global_norm(KernelContext&);

// optimiser_step.cpp
void optimiser_step(KernelContext&);
void row_optimiser_step(KernelContext&);

// tree_ensemble.cpp
std::unique_ptr<Kernel> tree_ensemble(const ops::NodeView&, WeightStore&);

// feature_transform.cpp
void scaler(KernelContext&);
void normalizer(KernelContext&);
void imputer(KernelContext&);
void one_hot_encoder(KernelContext&);
void feature_vectorizer(KernelContext&);
void category_mapper(KernelContext&);

// linear_model.cpp
void linear_regressor(KernelContext&);
void linear_classifier(KernelContext&);
void svm_regressor(KernelContext&);
void svm_classifier(KernelContext&);

// element_wise_unary.cpp
void relu(KernelContext&);
void sigmoid(KernelContext&);

// reshape.cpp: operators whose output is the input's bytes
void copy_bytes(KernelContext&);
void reshape(KernelContext&);
void squeeze(KernelContext&);
void unsqueeze(KernelContext&);

// concat.cpp
void concat(KernelContext&);
void split(KernelContext&);

// expand.cpp
void expand(KernelContext&);
void tile(KernelContext&);

// gather.cpp
void gather(KernelContext&);
void gather_elements(KernelContext&);
void gather_nd(KernelContext&);

// generate.cpp
void constant_of_shape(KernelContext&);
void range(KernelContext&);
void eye_like(KernelContext&);
void one_hot(KernelContext&);

// pad.cpp
void pad(KernelContext&);
void center_crop_pad(KernelContext&);

// shape_of.cpp
void shape_of(KernelContext&);
void size_of(KernelContext&);

// slice.cpp
void slice(KernelContext&);

// trilu.cpp
void trilu(KernelContext&);

// reverse_sequence.cpp
void reverse_sequence(KernelContext&);

// select.cpp
void compress(KernelContext&);
void non_zero(KernelContext&);
void unique(KernelContext&);
void top_k(KernelContext&);

// scatter.cpp
void scatter_elements(KernelContext&);
void scatter_nd(KernelContext&);
void tensor_scatter(KernelContext&);
void scatter_rows(KernelContext&);
void sum_rows(KernelContext&);

// sequence.cpp
void sequence_construct(KernelContext&);
void sequence_empty(KernelContext&);
void sequence_insert(KernelContext&);
void sequence_erase(KernelContext&);
void sequence_at(KernelContext&);
void sequence_length(KernelContext&);
void split_to_sequence(KernelContext&);
void concat_from_sequence(KernelContext&);

// optional.cpp
void optional_of(KernelContext&);
void optional_has_element(KernelContext&);
void optional_get_element(KernelContext&);

// resize.cpp
void resize(KernelContext&);
void resize_gradient(KernelContext&);

// grid_sample.cpp
void grid_sample(KernelContext&);
void grid_sample_gradient(KernelContext&);
void affine_grid(KernelContext&);

// region.cpp
void roi_align(KernelContext&);
void roi_align_gradient(KernelContext&);
void max_roi_pool(KernelContext&);
void max_roi_pool_gradient(KernelContext&);
void non_max_suppression(KernelContext&);

// col2im.cpp
void col2im(KernelContext&);

// window.cpp
void hann_window(KernelContext&);
void hamming_window(KernelContext&);
void blackman_window(KernelContext&);
void mel_weight_matrix(KernelContext&);

// dft.cpp
void dft(KernelContext&);
void stft(KernelContext&);

// tokenizer.cpp
void tokenizer(KernelContext&);

// string.cpp
void string_concat(KernelContext&);
void string_normalizer(KernelContext&);
void string_split(KernelContext&);
void regex_full_match(KernelContext&);

// tf_idf_vectorizer.cpp
void tf_idf_vectorizer(KernelContext&);

// feature.cpp
void label_encoder(KernelContext&);
void array_feature_extractor(KernelContext&);
void binarizer(KernelContext&);

// transpose.cpp
void transpose(KernelContext&);
void depth_to_space(KernelContext&);
void space_to_depth(KernelContext&);

// softmax.cpp
void log_softmax(KernelContext&);
void hardmax(KernelContext&);
void softmax(KernelContext&);

// element_wise_unary.cpp
void abs(KernelContext&);
void acos(KernelContext&);
void acosh(KernelContext&);
void asin(KernelContext&);
void asinh(KernelContext&);
void atan(KernelContext&);
void atanh(KernelContext&);
void bitwise_not(KernelContext&);
void ceil(KernelContext&);
void clip(KernelContext&);
void cos(KernelContext&);
void cosh(KernelContext&);
void erf(KernelContext&);
void exp(KernelContext&);
void floor(KernelContext&);
void is_inf(KernelContext&);
void is_nan(KernelContext&);
void log(KernelContext&);
void logical_not(KernelContext&);
void neg(KernelContext&);
void reciprocal(KernelContext&);
void round(KernelContext&);
void sign(KernelContext&);
void sin(KernelContext&);
void sinh(KernelContext&);
void sqrt(KernelContext&);
void tan(KernelContext&);

// activation.cpp
void celu(KernelContext&);
void elu(KernelContext&);
void gelu(KernelContext&);
void hard_sigmoid(KernelContext&);
void hard_swish(KernelContext&);
void leaky_relu(KernelContext&);
void mish(KernelContext&);
void relu(KernelContext&);
void selu(KernelContext&);
void shrink(KernelContext&);
void sigmoid(KernelContext&);
void softplus(KernelContext&);
void softsign(KernelContext&);
void swish(KernelContext&);
void tanh(KernelContext&);
void thresholded_relu(KernelContext&);

// element_wise_binary.cpp
void add(KernelContext&);
void bit_shift(KernelContext&);
void bitwise_and(KernelContext&);
void bitwise_or(KernelContext&);
void bitwise_xor(KernelContext&);
void div(KernelContext&);
void max(KernelContext&);
void mean(KernelContext&);
void min(KernelContext&);
void mod(KernelContext&);
void mul(KernelContext&);
void p_relu(KernelContext&);
void pow(KernelContext&);
void sub(KernelContext&);
void sum(KernelContext&);
void where(KernelContext&);

// comparison.cpp
void equal(KernelContext&);
void greater(KernelContext&);
void greater_or_equal(KernelContext&);
void less(KernelContext&);
void less_or_equal(KernelContext&);
void logical_and(KernelContext&);
void logical_or(KernelContext&);
void logical_xor(KernelContext&);

// cast.cpp
void cast(KernelContext&);
void cast_like(KernelContext&);
void bit_cast(KernelContext&);

// identity.cpp
void identity(KernelContext&);
void dropout(KernelContext&);

// reduction.cpp
void reduce_l1(KernelContext&);
void reduce_l2(KernelContext&);
void reduce_log_sum(KernelContext&);
void reduce_log_sum_exp(KernelContext&);
void reduce_max(KernelContext&);
void reduce_mean(KernelContext&);
void reduce_min(KernelContext&);
void reduce_prod(KernelContext&);
void reduce_sum(KernelContext&);
void reduce_sum_square(KernelContext&);

// arg_max.cpp
void arg_max(KernelContext&);
void arg_min(KernelContext&);

// cumulative.cpp
void cum_sum(KernelContext&);
void cum_prod(KernelContext&);

// random.cpp
void random_normal(KernelContext&);
void random_normal_like(KernelContext&);
void random_uniform(KernelContext&);
void random_uniform_like(KernelContext&);
void bernoulli(KernelContext&);
void multinomial(KernelContext&);

}  // namespace tessera::backends::reference
