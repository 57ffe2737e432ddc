// The functions, factories and reject rules that rows/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// arg_max
std::string reject_arg_max(const ops::NodeView& view);
KernelPointer make_arg_max(const ops::NodeView& view, WeightStore& weights);

// batch_norm_training
std::string reject_batch_norm_training(const ops::NodeView& view);
KernelPointer make_batch_norm_training(const ops::NodeView& view, WeightStore& weights);

// batch_norm_training_gradient
std::string reject_batch_norm_training_gradient(const ops::NodeView& view);
KernelPointer make_batch_norm_training_gradient(const ops::NodeView& view, WeightStore& weights);

// cumulative
std::string reject_cum_sum(const ops::NodeView& view);
void cum_sum(KernelContext& context);

// dft
std::string reject_dft(const ops::NodeView&);
void dft(KernelContext&);

// layer_normalisation_gradient
std::string reject_row_gradient(const ops::NodeView& view);
KernelPointer make_row_gradient(const ops::NodeView& view, WeightStore& weights);

// normalisation
std::string reject_row_normalisation(const ops::NodeView& view);
KernelPointer make_row_normalisation(const ops::NodeView& view, WeightStore& weights);
std::string reject_channel_normalisation(const ops::NodeView& view);
KernelPointer make_group_normalisation(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_batch_normalisation(const ops::NodeView& view, WeightStore& weights);

// skip_normalisation
std::string reject_skip_normalisation(const ops::NodeView& view);
KernelPointer make_skip_normalisation(const ops::NodeView& view, WeightStore& weights);
std::string reject_embedding(const ops::NodeView& view);
KernelPointer make_embedding(const ops::NodeView& view, WeightStore& weights);

// reduction
std::string reject_reduction(const ops::NodeView& view);
KernelPointer make_reduction(const ops::NodeView& view, WeightStore& weights);

// typed_arg_max
std::string reject_typed_arg_max(const ops::NodeView& view);
KernelPointer make_typed_arg_max(const ops::NodeView& view, WeightStore& weights);

// typed_reduction
std::string reject_typed_reduction(const ops::NodeView& view);
KernelPointer make_typed_reduction(const ops::NodeView& view, WeightStore& weights);

// softmax
KernelPointer make_softmax(const ops::NodeView& view, WeightStore& weights);

// ctc_loss
void ctc_loss(KernelContext&);

// softmax_cross_entropy
std::string reject_softmax_cross_entropy(const ops::NodeView& view);
KernelPointer make_softmax_cross_entropy(const ops::NodeView& view, WeightStore& weights);
std::string reject_softmax_cross_entropy_gradient(const ops::NodeView& view);
KernelPointer make_softmax_cross_entropy_gradient(const ops::NodeView& view, WeightStore& weights);

// top_k
std::string reject_top_k(const ops::NodeView& view);
void top_k(KernelContext& context);

}  // namespace tessera::backends::cpu
