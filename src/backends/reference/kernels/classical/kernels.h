// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

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

// tf_idf_vectorizer.cpp
void tf_idf_vectorizer(KernelContext&);

// feature.cpp
void label_encoder(KernelContext&);
void array_feature_extractor(KernelContext&);
void binarizer(KernelContext&);

}  // namespace tessera::backends::reference
