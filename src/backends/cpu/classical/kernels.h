// The functions, factories and reject rules that classical/kernel_table.cpp lists, grouped by the stem of the file that
// defines them. Classical models compute in double, as the reference does: their labels depend on which of two scores
// is larger, and computing a row costs little beside calling the kernel.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// categories
std::string reject_label_encoder(const ops::NodeView& view);
KernelPointer make_label_encoder(const ops::NodeView& view, WeightStore& weights);
std::string reject_one_hot_encoder(const ops::NodeView& view);
KernelPointer make_one_hot_encoder(const ops::NodeView& view, WeightStore& weights);

// feature_rows_f32
void scale_features(KernelContext& context);
void normalise_features(KernelContext& context);

// linear_model_f32
KernelPointer make_linear_regressor_f32(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_linear_classifier_f32(const ops::NodeView& view, WeightStore& weights);

// support_vector_machine_f32
std::string reject_support_vectors(const ops::NodeView& view);
KernelPointer make_svm_regressor_f32(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_svm_classifier_f32(const ops::NodeView& view, WeightStore& weights);

// squared_distances_f32
std::string reject_squared_distances(const ops::NodeView& view);
KernelPointer make_squared_distances_f32(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
