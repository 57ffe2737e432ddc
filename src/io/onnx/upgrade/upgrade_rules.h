// The rewriting functions of upgrade.cpp's table, by file. Each definition says what the rule changes.
#pragma once

#include "io/onnx/upgrade/upgrade.h"

namespace tessera::io {

// upgrade_inputs.cpp: attributes that became inputs
void axes_to_input(Upgrade& upgrade);
void clip_11(Upgrade& upgrade);
void dft_20(Upgrade& upgrade);
void dropout_7(Upgrade& upgrade);
void dropout_10(Upgrade& upgrade);
void dropout_12(Upgrade& upgrade);
void pad_2(Upgrade& upgrade);
void pad_11(Upgrade& upgrade);
void reshape_5(Upgrade& upgrade);
void slice_10(Upgrade& upgrade);
void split_13(Upgrade& upgrade);
void split_18(Upgrade& upgrade);
void tile_6(Upgrade& upgrade);
void top_k_10(Upgrade& upgrade);

// upgrade_broadcast.cpp: alignment of operands before numpy broadcasting
void binary_7(Upgrade& upgrade);
void gemm_7(Upgrade& upgrade);
void p_relu_7(Upgrade& upgrade);

// upgrade_normalization.cpp
void batch_normalization_7(Upgrade& upgrade);
void batch_normalization_9(Upgrade& upgrade);
void batch_normalization_14(Upgrade& upgrade);
void group_normalization_21(Upgrade& upgrade);
void softmax_13(Upgrade& upgrade);

// upgrade_resize.cpp
void upsample_7(Upgrade& upgrade);
void upsample_9(Upgrade& upgrade);
void upsample_10(Upgrade& upgrade);
void resize_11(Upgrade& upgrade);
void resize_13(Upgrade& upgrade);
void resize_absent_inputs(Upgrade& upgrade);

// upgrade_attributes.cpp: names, defaults and types of attributes
void cast_6(Upgrade& upgrade);
void concat_4(Upgrade& upgrade);
void grid_sample_20(Upgrade& upgrade);
void label_encoder_2(Upgrade& upgrade);
void lp_pool_2(Upgrade& upgrade);
void recurrent_7(Upgrade& upgrade);
void roi_align_16(Upgrade& upgrade);
void scatter_11(Upgrade& upgrade);
void selu_6(Upgrade& upgrade);

// upgrade_microsoft.cpp: operators of domain com.microsoft that are standard ones
void microsoft_cdist(Upgrade& upgrade);
void microsoft_channels_last(Upgrade& upgrade);
void microsoft_expand_dims(Upgrade& upgrade);
void microsoft_gather_nd(Upgrade& upgrade);
void microsoft_grid_sample(Upgrade& upgrade);
void microsoft_nhwc_conv(Upgrade& upgrade);
void microsoft_nhwc_fused_conv(Upgrade& upgrade);
void microsoft_nhwc_max_pool(Upgrade& upgrade);
void microsoft_pad(Upgrade& upgrade);
void microsoft_q_linear_conv(Upgrade& upgrade);
void microsoft_range(Upgrade& upgrade);
void microsoft_same(Upgrade& upgrade);
void microsoft_transpose_matmul(Upgrade& upgrade);
void microsoft_unique(Upgrade& upgrade);

// upgrade_scan.cpp
void scan_9(Upgrade& upgrade);

// upgrade_microsoft_transformers.cpp
void microsoft_bias_gelu(Upgrade& upgrade);
void microsoft_branchwise_rms_norm(Upgrade& upgrade);
void microsoft_fast_gelu(Upgrade& upgrade);
void microsoft_gated_add(Upgrade& upgrade);
void microsoft_gated_rms_norm(Upgrade& upgrade);
void microsoft_m_rotary_embedding(Upgrade& upgrade);
void microsoft_quick_gelu(Upgrade& upgrade);
void microsoft_rotary_embedding(Upgrade& upgrade);
void microsoft_scaled_silu(Upgrade& upgrade);
void simplified_layer_normalization(Upgrade& upgrade);

}  // namespace tessera::io
