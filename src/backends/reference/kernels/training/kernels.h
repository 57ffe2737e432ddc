// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// loss.cpp
void negative_log_likelihood_loss(KernelContext&);
void softmax_cross_entropy_loss(KernelContext&);

// ctc_loss.cpp
void ctc_loss(KernelContext&);

// softmax_cross_entropy.cpp
void softmax_cross_entropy(KernelContext&);
void softmax_cross_entropy_gradient(KernelContext&);

// training_update.cpp
void adagrad(KernelContext&);
void adam(KernelContext&);
void momentum(KernelContext&);

// global_norm.cpp
void global_norm(KernelContext&);

// micro_batch_sums.cpp
void add_micro_batch(KernelContext&);
KernelPointer make_sum_over_ranks(const ops::NodeView&, WeightStore&);
KernelPointer make_gather_over_ranks(const ops::NodeView&, WeightStore&);

// optimiser_step.cpp
void optimiser_step(KernelContext&);
void row_optimiser_step(KernelContext&);

}  // namespace tessera::backends::reference
