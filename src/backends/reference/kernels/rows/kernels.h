// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// layer_normalisation_gradient.cpp
void layer_normalization_gradient(KernelContext&);
void rms_normalization_gradient(KernelContext&);

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

// select.cpp
void compress(KernelContext&);
void non_zero(KernelContext&);
void unique(KernelContext&);
void top_k(KernelContext&);

// dft.cpp
void dft(KernelContext&);
void stft(KernelContext&);

// softmax.cpp
void log_softmax(KernelContext&);
void hardmax(KernelContext&);
void softmax(KernelContext&);

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

}  // namespace tessera::backends::reference
