// Declarations of all reference kernels, grouped by the file that holds them.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// causal_conv_with_state.cpp
void causal_conv_with_state(KernelContext&);

// conv.cpp
void conv(KernelContext&);

// conv_integer.cpp
void conv_integer(KernelContext&);
void q_linear_conv(KernelContext&);

// conv_transpose.cpp
void conv_transpose(KernelContext&);

// deform_conv.cpp
void deform_conv(KernelContext&);

// pooling.cpp
void average_pool(KernelContext&);
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

// attention.cpp
void attention(KernelContext&);

// linear_attention.cpp
void linear_attention(KernelContext&);

// rotary_embedding.cpp
void rotary_embedding(KernelContext&);

// training_update.cpp
void adagrad(KernelContext&);
void adam(KernelContext&);
void momentum(KernelContext&);

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

// transpose.cpp
void transpose(KernelContext&);
void depth_to_space(KernelContext&);
void space_to_depth(KernelContext&);

// softmax.cpp
void softmax(KernelContext&);

}  // namespace tessera::backends::reference
