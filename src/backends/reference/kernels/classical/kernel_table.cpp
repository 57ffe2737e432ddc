#include "backends/reference/kernels/classical/kernel_table.h"

#include "backends/reference/kernels/classical/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> classical_kernels() {
  static const KernelEntry table[] = {
      // tree_ensemble
      {.op = "ai.onnx.ml::TreeEnsemble", .name = "reference_tree_ensemble", .create = tree_ensemble},
      {.op = "ai.onnx.ml::TreeEnsembleClassifier", .name = "reference_tree_ensemble", .create = tree_ensemble},
      {.op = "ai.onnx.ml::TreeEnsembleRegressor", .name = "reference_tree_ensemble", .create = tree_ensemble},
      // feature_transform
      {.op = "ai.onnx.ml::Scaler", .name = "reference_scaler", .function = scaler},
      {.op = "ai.onnx.ml::Normalizer", .name = "reference_normalizer", .function = normalizer},
      {.op = "ai.onnx.ml::Imputer", .name = "reference_imputer", .function = imputer},
      {.op = "ai.onnx.ml::OneHotEncoder", .name = "reference_one_hot_encoder", .function = one_hot_encoder},
      {.op = "ai.onnx.ml::FeatureVectorizer", .name = "reference_feature_vectorizer", .function = feature_vectorizer},
      {.op = "ai.onnx.ml::CategoryMapper", .name = "reference_category_mapper", .function = category_mapper},
      // linear_model
      {.op = "ai.onnx.ml::LinearRegressor", .name = "reference_linear_regressor", .function = linear_regressor},
      {.op = "ai.onnx.ml::LinearClassifier", .name = "reference_linear_classifier", .function = linear_classifier},
      {.op = "ai.onnx.ml::SVMRegressor", .name = "reference_svm_regressor", .function = svm_regressor},
      {.op = "ai.onnx.ml::SVMClassifier", .name = "reference_svm_classifier", .function = svm_classifier},
      // tf_idf_vectorizer
      {.op = "TfIdfVectorizer", .name = "reference_tf_idf_vectorizer", .function = tf_idf_vectorizer},
      // feature
      {.op = "ai.onnx.ml::LabelEncoder", .name = "reference_label_encoder", .function = label_encoder},
      {.op = "ai.onnx.ml::ArrayFeatureExtractor",
       .name = "reference_array_feature_extractor",
       .function = array_feature_extractor},
      {.op = "ai.onnx.ml::Binarizer", .name = "reference_binarizer", .function = binarizer},
  };
  return table;
}

}  // namespace tessera::backends::reference
