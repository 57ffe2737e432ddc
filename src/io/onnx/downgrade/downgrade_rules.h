// The rewriting functions of downgrade.cpp's table, by file. Each definition says what the rule changes.
#pragma once

#include "io/onnx/downgrade/downgrade.h"

namespace tessera::io {

// downgrade_inputs.cpp: inputs that were attributes
bool axes_to_attribute(Downgrade& downgrade);
bool clip_to_10(Downgrade& downgrade);
bool dft_to_19(Downgrade& downgrade);
bool dropout_to_11(Downgrade& downgrade);
bool pad_to_17(Downgrade& downgrade);
bool pad_to_10(Downgrade& downgrade);
bool slice_to_9(Downgrade& downgrade);
bool split_to_17(Downgrade& downgrade);
bool split_to_12(Downgrade& downgrade);
bool top_k_to_9(Downgrade& downgrade);

// downgrade_forms.cpp: attributes, optional inputs and meanings
bool batch_normalization_to_13(Downgrade& downgrade);
bool cast_like_to_14(Downgrade& downgrade);
bool dequantize_linear_to_22(Downgrade& downgrade);
bool gemm_to_10(Downgrade& downgrade);
bool grid_sample_to_19(Downgrade& downgrade);
bool or_equal_to_11(Downgrade& downgrade);
bool pow_to_11(Downgrade& downgrade);
bool quantize_linear_to_20(Downgrade& downgrade);  // of every version, too
bool roi_align_to_15(Downgrade& downgrade);
bool scatter_elements_to_10(Downgrade& downgrade);
bool shape_to_14(Downgrade& downgrade);
bool softmax_to_12(Downgrade& downgrade);
bool top_k_to_10(Downgrade& downgrade);

// downgrade_resize.cpp
bool resize_to_17(Downgrade& downgrade);
bool resize_to_12(Downgrade& downgrade);
bool resize_to_10(Downgrade& downgrade);
bool resize_to_9(Downgrade& downgrade);

// downgrade_composites.cpp: operators that older ones express
bool gelu_to_19(Downgrade& downgrade);
bool group_normalization_to_20(Downgrade& downgrade);
bool hard_swish_to_13(Downgrade& downgrade);
bool layer_normalization_to_16(Downgrade& downgrade);
bool mish_to_17(Downgrade& downgrade);
bool rms_normalization_to_22(Downgrade& downgrade);
bool swish_to_23(Downgrade& downgrade);

}  // namespace tessera::io
